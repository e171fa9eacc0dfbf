/**
 * Streams of bytes as the runtime makes them, for bodies and TCP: readers with and without a buffer of their own, `readAtLeast`,
 * and pairs whose writes settle when they were read. Everything settles by reactions of promises alone.
 */

export interface ReadResult {
  readonly done: boolean;
  readonly value: Uint8Array | undefined;
}

interface Read {
  /** The reader's buffer; null for a reader that takes chunks as they come. */
  readonly view: Uint8Array | null;
  readonly bytesMin: number;
  readonly resolve: (result: ReadResult) => void;
  readonly reject: (reason: unknown) => void;
}

export interface ByteStreamEvents {
  /** The reader has taken bytes. */
  onTaken?(bytes: number): void;
  /** The reader wants no more. */
  onCancel?(reason: unknown): void | Promise<void>;
}

export class ByteStream {
  readonly #events: ByteStreamEvents;
  readonly #chunks: Uint8Array[] = [];
  readonly #reads: Read[] = [];
  #state: "open" | "closed" | "failed" = "open";
  #error: unknown = null;
  #queuedBytes = 0;
  #reader: ByteReader | null = null;
  readonly #closed = Promise.withResolvers<void>();
  /** Someone has read or cancelled it: see `bodyUsed`. */
  isDisturbed = false;

  constructor(events: ByteStreamEvents = {}) {
    this.#events = events;
    this.#closed.promise.catch(() => {});
  }

  /** A stream of one chunk. */
  static of(bytes: Uint8Array): ByteStream {
    const stream = new ByteStream();
    stream.enqueue(bytes);
    stream.end();
    return stream;
  }

  get locked(): boolean {
    return this.#reader !== null;
  }

  get queuedBytes(): number {
    return this.#queuedBytes;
  }

  get isOpen(): boolean {
    return this.#state === "open";
  }

  /** Adds bytes, which belong to the stream from now on. */
  enqueue(bytes: Uint8Array): void {
    if (this.#state !== "open" || bytes.length === 0) return;
    this.#chunks.push(bytes);
    this.#queuedBytes += bytes.length;
    this.#serve();
  }

  /** No more bytes come. */
  end(): void {
    if (this.#state !== "open") return;
    this.#state = "closed";
    this.#serve();
  }

  /** The source has failed: bytes that were not read are lost. */
  fail(error: unknown): void {
    if (this.#state !== "open") return;
    this.#state = "failed";
    this.#error = error;
    this.#drop();
    for (const { reject } of this.#reads.splice(0)) reject(error);
    this.#closed.reject(error);
  }

  getReader(options?: { mode?: "byob" }): ByteReader {
    if (this.#reader !== null)
      throw new TypeError("This ReadableStream is currently locked to a reader.");
    const reader = new ByteReader(this, options?.mode === "byob");
    this.#reader = reader;
    return reader;
  }

  async cancel(reason?: unknown): Promise<void> {
    if (this.locked) throw new TypeError("This ReadableStream is currently locked to a reader.");
    await this.cancelNow(reason);
  }

  /** Copies of all that comes, for two readers. */
  tee(): [ByteStream, ByteStream] {
    const reader = this.getReader();
    const branches: [ByteStream, ByteStream] = [new ByteStream(), new ByteStream()];
    void (async () => {
      try {
        for (let read = await reader.read(); !read.done; read = await reader.read()) {
          for (const branch of branches) branch.enqueue(read.value!.slice());
        }
        for (const branch of branches) branch.end();
      } catch (error) {
        for (const branch of branches) branch.fail(error);
      }
    })();
    return branches;
  }

  async pipeTo(destination: WritableStream): Promise<void> {
    const writer = (destination as WritableStream<Uint8Array>).getWriter();
    try {
      for await (const chunk of this) await writer.write(chunk);
    } catch (error) {
      await writer.abort(error);
      throw error;
    }
    await writer.close();
  }

  pipeThrough<T>(through: { readonly readable: T; readonly writable: WritableStream }): T {
    this.pipeTo(through.writable).catch(() => {});
    return through.readable;
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<Uint8Array, void> {
    const reader = this.getReader();
    let isDone = false;
    try {
      for (;;) {
        const { done, value } = await reader.read();
        isDone = done;
        if (done) return;
        yield value!;
      }
    } finally {
      if (!isDone) await reader.cancel();
      reader.releaseLock();
    }
  }

  values(): AsyncGenerator<Uint8Array, void> {
    return this[Symbol.asyncIterator]();
  }

  // What readers call.

  get closed(): Promise<void> {
    return this.#closed.promise;
  }

  read(view: Uint8Array | null, bytesMin: number): Promise<ReadResult> {
    this.isDisturbed = true;
    // The reader's buffer is detached at once, as in every runtime.
    const taken = view === null ? null : detach(view);
    const { promise, resolve, reject } = Promise.withResolvers<ReadResult>();
    if (this.#state === "failed") reject(this.#error);
    else {
      this.#reads.push({ view: taken, bytesMin, resolve, reject });
      this.#serve();
    }
    return promise;
  }

  async cancelNow(reason: unknown): Promise<void> {
    this.isDisturbed = true;
    if (this.#state === "failed") throw this.#error;
    const wasOpen = this.#state === "open";
    this.#state = "closed";
    this.#drop();
    this.#serve();
    if (wasOpen) await this.#events.onCancel?.(reason);
  }

  release(): void {
    this.#reader = null;
    const released = new TypeError("This ReadableStream reader has been released.");
    for (const { reject } of this.#reads.splice(0)) reject(released);
  }

  #serve(): void {
    while (this.#reads.length > 0 && this.#canServe(this.#reads[0]!)) {
      const read = this.#reads.shift()!;
      read.resolve(read.view === null ? this.#nextChunk() : this.#fill(read.view));
    }
    if (this.#state === "closed" && this.#queuedBytes === 0) this.#closed.resolve();
  }

  #canServe({ bytesMin }: Read): boolean {
    return this.#queuedBytes >= bytesMin || this.#state === "closed";
  }

  #nextChunk(): ReadResult {
    const value = this.#chunks.shift();
    if (value === undefined) return { done: true, value };
    this.#take(value.length);
    return { done: false, value };
  }

  #fill(view: Uint8Array): ReadResult {
    let filled = 0;
    while (filled < view.length && this.#chunks.length > 0) {
      const chunk = this.#chunks[0]!;
      const part = chunk.subarray(0, view.length - filled);
      view.set(part, filled);
      filled += part.length;
      if (part.length === chunk.length) this.#chunks.shift();
      else this.#chunks[0] = chunk.subarray(part.length);
    }
    if (filled > 0) this.#take(filled);
    return { done: filled === 0, value: view.subarray(0, filled) };
  }

  #take(bytes: number): void {
    this.#queuedBytes -= bytes;
    this.#events.onTaken?.(bytes);
  }

  #drop(): void {
    this.#chunks.length = 0;
    this.#queuedBytes = 0;
  }
}

/** A view of the same bytes whose buffer no one else has. */
function detach({ buffer, byteOffset, length }: Uint8Array): Uint8Array {
  return new Uint8Array((buffer as ArrayBuffer).transfer(), byteOffset, length);
}

export class ByteReader {
  #stream: ByteStream | null;
  readonly #isByob: boolean;

  constructor(stream: ByteStream, isByob: boolean) {
    this.#stream = stream;
    this.#isByob = isByob;
  }

  get closed(): Promise<void> {
    return this.#of().closed;
  }

  /** @param view for a reader of mode `byob`: it is detached, and the result has its bytes */
  async read(view?: Uint8Array): Promise<ReadResult> {
    if (this.#isByob && view === undefined)
      throw new TypeError("read() of a BYOB reader needs a view.");
    return await this.#of().read(view ?? null, 1);
  }

  /** Fewer bytes come only at the end of the stream. */
  async readAtLeast(bytesMin: number, view: Uint8Array): Promise<ReadResult> {
    if (bytesMin > view.byteLength) {
      throw new TypeError(
        `Minimum bytes to read (${bytesMin}) exceeds size of buffer (${view.byteLength}).`,
      );
    }
    return await this.#of().read(view, bytesMin);
  }

  async cancel(reason?: unknown): Promise<void> {
    await this.#of().cancelNow(reason);
  }

  releaseLock(): void {
    this.#stream?.release();
    this.#stream = null;
  }

  #of(): ByteStream {
    if (this.#stream === null) throw new TypeError("This ReadableStream reader has been released.");
    return this.#stream;
  }
}

/** A pair without a buffer: a write settles when its bytes were read. */
export class IdentityTransformStream {
  readonly readable: ByteStream;
  readonly writable: WritableStream<Uint8Array>;

  constructor(bytesExpected: number | null = null) {
    let written = 0;
    let taken = 0;
    let waiting: { readonly until: number; readonly done: PromiseWithResolvers<void> } | null =
      null;
    let controller!: WritableStreamDefaultController;
    const readable = new ByteStream({
      onTaken: (bytes) => {
        taken += bytes;
        if (waiting !== null && taken >= waiting.until) waiting.done.resolve();
      },
      onCancel: (reason) => {
        waiting?.done.reject(reason);
        controller.error(reason);
      },
    });
    this.readable = readable;
    this.writable = new WritableStream<Uint8Array>({
      start: (given) => {
        controller = given;
        // `abort` itself waits for a write under way, which may wait for its reader for ever. The runtime's does not.
        given.signal.addEventListener("abort", () => {
          waiting?.done.reject(given.signal.reason);
          readable.fail(given.signal.reason);
        });
      },
      write: async (chunk) => {
        const bytes = bytesOf(chunk);
        if (bytes.length === 0) return;
        written += bytes.length;
        if (bytesExpected !== null && written > bytesExpected) {
          throw new TypeError("Attempt to write too many bytes through a FixedLengthStream.");
        }
        waiting = { until: written, done: Promise.withResolvers<void>() };
        readable.enqueue(bytes);
        await waiting.done.promise;
      },
      close: () => {
        if (bytesExpected !== null && written < bytesExpected) {
          const error = new TypeError(
            "FixedLengthStream did not see all expected bytes before close().",
          );
          readable.fail(error);
          throw error;
        }
        readable.end();
      },
    });
  }
}

/** `new FixedLengthStream(bytes)`: a write beyond that length fails, and so does the end before it. */
export class FixedLengthStream extends IdentityTransformStream {}

/** A copy: the writer may change its buffer once the write has begun. */
export function bytesOf(chunk: unknown): Uint8Array {
  if (chunk instanceof ArrayBuffer) return new Uint8Array(chunk.slice(0));
  if (!ArrayBuffer.isView(chunk))
    throw new TypeError(
      "This TransformStream is being used as a byte stream, but received an object of non-ArrayBuffer/ArrayBufferView type on its writable side.",
    );
  return new Uint8Array(
    (chunk.buffer as ArrayBuffer).slice(chunk.byteOffset, chunk.byteOffset + chunk.byteLength),
  );
}
