/** A load: connections that each keep several requests under way, and the measurement. */
import { createHistogram, type RecordableHistogram } from "node:perf_hooks";
import { setTimeout as sleep } from "node:timers/promises";
import { ThrottrError } from "../../wire/edge/error.ts";
import type { Transport } from "../../client/transport/transport.ts";
import type { Operation } from "../../wire/edge/operation.ts";
import { aborted } from "../interruption.ts";
import { LoadConnection, type OnReply } from "./connection.ts";
import { Frames, type FrameOptions } from "./frames.ts";

export interface LoadOptions extends FrameOptions {
  readonly connections: number;
  readonly depth: number;
  /** Ends after this many requests, or after this many milliseconds. */
  readonly end: { readonly requests: number } | { readonly durationMs: number };
  /** Time at the start that is not measured, in milliseconds. */
  readonly warmUpMs: number;
  /**
   * How long connections may take to open, and the server to answer before and after the measurement. A number of requests ends
   * after as long without any reply.
   */
  readonly timeoutMs: number;
}

/** What came of a load. */
export interface LoadResult {
  readonly measurement: Measurement;
  /** Why records of the load are still there, until they expire; null if they were removed. */
  readonly notRemoved: ThrottrError | null;
}

/** The measurement. Latencies run from handing a request to the socket to reading its reply, in milliseconds. */
export interface Measurement {
  readonly requests: number;
  /** Requests that were answered with failure. */
  readonly refused: number;
  readonly durationMs: number;
  readonly requestsPerSecond: number;
  readonly latencyMs: Readonly<
    Record<"min" | "mean" | "p50" | "p90" | "p99" | "p999" | "max", number>
  >;
  readonly bytesSent: number;
  readonly bytesReceived: number;
}

/** Called with the share that is done, 0 to 1, and the requests so far. */
export type OnProgress = (share: number, requests: number) => void;

/** How often the bar moves. */
const PROGRESS_INTERVAL_MS = 200;
/** Requests at a time while records are created and removed. */
const SET_UP_DEPTH = 256;
const NS_PER_MS = 1e6;
const SILENT = "the server did not answer";
/** Longest latency that the histogram resolves: an hour. */
const LATENCY_NS_MAX = 3_600_000 * NS_PER_MS;

/**
 * Runs a load.
 *
 * Closed loop: a request leaves when a reply arrives, so a slow server receives fewer. Latencies are those of a caller
 * with this many requests under way, not those of independent callers, who would also wait in a queue.
 *
 * @throws ThrottrError if a connection cannot be opened, or is lost before the end of the measurement; `timeout` and
 * `aborted` before its beginning
 */
export async function runLoad(
  transport: Transport,
  options: LoadOptions,
  onProgress: OnProgress,
  signal: AbortSignal,
): Promise<LoadResult> {
  const load = new Load(transport, options);
  try {
    await load.open(signal);
    return await load.run(onProgress, signal);
  } finally {
    load.close();
  }
}

/**
 * One run. A connection sends as many requests as it has received replies, in one message each
 * time.
 */
class Load {
  readonly #options: LoadOptions;
  /** Shared by all connections, so that they use the keys in turn. */
  readonly #frames: Frames;
  readonly #connections: readonly LoadConnection[];
  /** In nanoseconds. */
  readonly #latencies: RecordableHistogram = createHistogram({
    highest: LATENCY_NS_MAX,
    figures: 3,
  });
  /** False during the warm-up and after the end. */
  #isMeasuring = false;
  /** No request is sent any more. */
  #isEnding = false;
  /** Replies that were measured. */
  #replies = 0;
  #refused = 0;
  /** Requests that may still be sent. */
  #left: number;
  /** Requests without a reply yet. */
  #underWay = 0;
  /** Resolves when all requests that may be sent were answered. */
  readonly #drained = Promise.withResolvers<void>();
  /** Ends a number of requests when no reply has come for the timeout; each reply begins it anew. */
  #silence: NodeJS.Timeout | undefined;
  #isSilent = false;

  constructor(transport: Transport, options: LoadOptions) {
    this.#options = options;
    this.#frames = new Frames(options);
    this.#left = "requests" in options.end ? options.end.requests : Infinity;
    this.#connections = Array.from(
      { length: options.connections },
      () => new LoadConnection(transport),
    );
  }

  /** Opens all connections and creates the records. @throws ThrottrError `timeout`, `aborted` */
  async open(signal: AbortSignal): Promise<void> {
    const { timeoutMs } = this.#options;
    const opened = Promise.all(this.#connections.map((connection) => connection.opened));
    await awaitWithin(opened, timeoutMs, signal, "the connections were not open");
    await this.#share(this.#frames.setUp, signal);
  }

  /** Puts the load on the server and measures it. */
  async run(onProgress: OnProgress, signal: AbortSignal): Promise<LoadResult> {
    const { depth, warmUpMs, end, timeoutMs } = this.#options;
    const lost = Promise.race(this.#connections.map((connection) => connection.lost));
    this.#isMeasuring = warmUpMs === 0;
    let startMs = performance.now();
    for (const connection of this.#connections) this.#start(connection, depth);
    if (warmUpMs > 0) {
      await Promise.race([pause(warmUpMs, signal), lost]);
      startMs = performance.now();
      this.#isMeasuring = true;
    }
    // Bytes of the set-up and the warm-up do not count.
    const bytesBefore = this.#bytes();
    const share = (): number =>
      "requests" in end
        ? this.#replies / end.requests
        : (performance.now() - startMs) / end.durationMs;
    const timer = setInterval(
      () => onProgress(Math.min(1, share()), this.#replies),
      PROGRESS_INTERVAL_MS,
    );
    const isOver = new AbortController();
    if ("requests" in end) {
      this.#silence = setTimeout(() => {
        this.#isSilent = true;
        isOver.abort();
      }, timeoutMs);
    }
    try {
      // An interruption ends it, too: what was measured until then counts.
      const durationMs = "requests" in end ? Infinity : end.durationMs;
      const over = pause(durationMs, AbortSignal.any([signal, isOver.signal]));
      await Promise.race([over, lost, this.#drained.promise]);
    } finally {
      isOver.abort();
      clearInterval(timer);
      clearTimeout(this.#silence);
    }
    const measurement = this.#measured(performance.now() - startMs, bytesBefore);
    onProgress(1, this.#replies);
    try {
      // The interruption that has ended the measurement does not end the removal, too.
      await this.#end(lost, signal.aborted ? null : signal);
      return { measurement, notRemoved: null };
    } catch (error) {
      return { measurement, notRemoved: ThrottrError.from(error) };
    }
  }

  close(): void {
    for (const connection of this.#connections) connection.close();
  }

  /** Fills a connection, and refills it whenever replies have come. */
  #start(connection: LoadConnection, depth: number): void {
    let answered = 0;
    const onReply: OnReply = (isSuccess, tookMs) => {
      answered++;
      this.#count(isSuccess, tookMs);
    };
    // Once for all replies of a message, so that the next requests leave in one message, too.
    connection.onReceived = () => {
      this.#silence?.refresh();
      const count = answered;
      answered = 0;
      if (count > 0) this.#sendOn(connection, count, onReply);
    };
    this.#sendOn(connection, depth, onReply);
  }

  /** Sends up to `count` requests; what is left is shared by all connections. */
  #sendOn(connection: LoadConnection, count: number, onReply: OnReply): void {
    const some = this.#isEnding ? 0 : Math.min(count, this.#left);
    this.#left -= some;
    this.#underWay += some;
    if (some > 0) connection.send(Array.from({ length: some }, this.#next), onReply);
    else if (this.#underWay === 0) this.#drained.resolve();
  }

  readonly #next = (): Operation<boolean> => this.#frames.next();

  /** Counts a reply. The histogram takes whole nanoseconds from 1. */
  #count(isSuccess: boolean, tookMs: number): void {
    this.#underWay--;
    if (!this.#isMeasuring) return;
    this.#replies++;
    if (!isSuccess) this.#refused++;
    this.#latencies.record(Math.max(1, Math.round(tookMs * NS_PER_MS)));
  }

  /** The measurement, rounded to microseconds. */
  #measured(durationMs: number, bytesBefore: { sent: number; received: number }): Measurement {
    this.#isMeasuring = false;
    const bytes = this.#bytes();
    const latencies = this.#latencies;
    const ms = (ns: number): number => Math.round(ns / 1000) / 1000;
    const isEmpty = this.#replies === 0;
    return {
      requests: this.#replies,
      refused: this.#refused,
      durationMs: Math.round(durationMs),
      requestsPerSecond: Math.round((this.#replies / durationMs) * 1000),
      latencyMs: {
        min: isEmpty ? 0 : ms(latencies.min),
        mean: isEmpty ? 0 : ms(latencies.mean),
        p50: ms(latencies.percentile(50)),
        p90: ms(latencies.percentile(90)),
        p99: ms(latencies.percentile(99)),
        p999: ms(latencies.percentile(99.9)),
        max: ms(latencies.max),
      },
      bytesSent: bytes.sent - bytesBefore.sent,
      bytesReceived: bytes.received - bytesBefore.received,
    };
  }

  /** Waits for what is under way, and removes what was made for the load. @throws ThrottrError `timeout`, `aborted` */
  async #end(lost: Promise<never>, signal: AbortSignal | null): Promise<void> {
    const { timeoutMs } = this.#options;
    this.#isEnding = true;
    if (this.#isSilent) throw notWithin(timeoutMs, SILENT);
    if (this.#underWay === 0) this.#drained.resolve();
    const answered = Promise.race([this.#drained.promise, lost]);
    await awaitWithin(answered, timeoutMs, signal, SILENT);
    for (const connection of this.#connections) connection.onReceived = () => {};
    await this.#share(this.#frames.cleanUp, signal);
  }

  /** Has some requests carried out by all connections. */
  async #share(
    operations: readonly Operation<boolean>[],
    signal: AbortSignal | null,
  ): Promise<void> {
    const { timeoutMs } = this.#options;
    const wait = async (answered: Promise<void>): Promise<void> =>
      await awaitWithin(answered, timeoutMs, signal, SILENT);
    const count = Math.ceil(operations.length / this.#connections.length);
    await Promise.all(
      this.#connections.map((connection, i) =>
        connection.sendAll(operations.slice(i * count, (i + 1) * count), SET_UP_DEPTH, wait),
      ),
    );
  }

  /** Bytes of all connections so far. */
  #bytes(): { sent: number; received: number } {
    let sent = 0;
    let received = 0;
    for (const connection of this.#connections) {
      sent += connection.bytesSent;
      received += connection.bytesReceived;
    }
    return { sent, received };
  }
}

/** Resolves after a time, or when the signal is aborted. */
async function pause(ms: number, signal: AbortSignal): Promise<void> {
  if (ms === Infinity) return await aborted(signal);
  await sleep(ms, undefined, { signal }).catch(() => {});
}

/**
 * Returns the result of some work, unless that takes longer than a timeout or is interrupted.
 *
 * @param signal interrupts the wait; null: nothing does
 * @param failure the error after the timeout begins with it, such as "the server did not answer"
 * @throws ThrottrError `timeout`, `aborted`
 */
async function awaitWithin<T>(
  work: Promise<T>,
  timeoutMs: number,
  signal: AbortSignal | null,
  failure: string,
): Promise<T> {
  const { promise: ended, reject } = Promise.withResolvers<never>();
  const interrupt = (): void => reject(new ThrottrError("aborted", "the load was interrupted"));
  const timer = setTimeout(() => reject(notWithin(timeoutMs, failure)), timeoutMs);
  signal?.addEventListener("abort", interrupt);
  if (signal?.aborted === true) interrupt();
  try {
    return await Promise.race([work, ended]);
  } finally {
    clearTimeout(timer);
    signal?.removeEventListener("abort", interrupt);
  }
}

const notWithin = (timeoutMs: number, failure: string): ThrottrError =>
  new ThrottrError("timeout", `${failure} within ${timeoutMs} ms`);
