/** Makes a response of replies: whole when all come with the first calls, else streamed as it is read. */
import type { Sink } from "../objects/sink.ts";
import { reportFailure } from "../objects/failure.ts";
import { type Problem, problemOfFailure } from "./problem.ts";

export const REPLY_HEADERS = {
  "content-type": "application/octet-stream",
  "cache-control": "no-store",
};

export class ResponseSink implements Omit<Sink, "published"> {
  readonly response: Promise<Response>;
  readonly #resolve: (response: Response) => void;
  readonly #reject: (error: Problem) => void;
  readonly hasReader = true;
  /** Bytes of replies that are held in memory. */
  heldBytes = 0;
  #held: Uint8Array[] = [];
  #drained: Promise<void> = Promise.resolve();
  #writer: WritableStreamDefaultWriter<Uint8Array> | null = null;

  constructor() {
    const { promise, resolve, reject } = Promise.withResolvers<Response>();
    this.response = promise;
    this.#resolve = resolve;
    this.#reject = reject;
  }

  reply(replies: Uint8Array, isLast: boolean): void {
    this.#held.push(replies);
    this.heldBytes += replies.length;
    if (!isLast) return;
    if (this.#writer === null) {
      this.#resolve(new Response(new Blob(this.#held), { headers: REPLY_HEADERS }));
    } else {
      // The reader going away is its own affair: everything has been applied.
      void this.#drain()
        .then(() => this.#writer!.close())
        .catch(() => {});
    }
  }

  room(): Promise<void> {
    if (this.#writer === null) {
      const { readable, writable } = new IdentityTransformStream();
      this.#writer = writable.getWriter();
      this.#resolve(new Response(readable, { headers: REPLY_HEADERS }));
    }
    return this.#drain();
  }

  failed(error: unknown): void {
    if (this.#writer === null) this.#reject(problemOfFailure(error));
    else {
      reportFailure(error);
      void this.#writer.abort(error).catch(() => {});
    }
  }

  /** Writes what is held, after all that was held before. */
  #drain(): Promise<void> {
    const held = this.#held;
    this.#held = [];
    this.heldBytes = 0;
    this.#drained = this.#drained.then(() => this.#write(held));
    return this.#drained;
  }

  async #write(held: readonly Uint8Array[]): Promise<void> {
    for (const replies of held) await this.#writer!.write(replies);
  }
}
