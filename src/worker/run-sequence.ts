/**
 * Sends the runs of a message one after the other, and joins their replies.
 *
 * A message that comes whole has all its runs at once; a stream (`objects/hub/session.ts`) finds the next one when the
 * last is answered. Both start a run when the one before is answered and there is room, so requests are applied in
 * their order.
 */
import { failureOfPart } from "../base/failure.ts";
import { Dispatch } from "../dispatch/dispatch.ts";
import type { Frames, Sink } from "../dispatch/sink.ts";
import type { Caller } from "./caller.ts";

/**
 * Where the replies to runs go. Those of the runs so far may be held in memory, up to a limit: a body of many small
 * runs then needs no stream. Publications are not counted, as a message has no connection to count them for.
 */
export interface RunSink extends Omit<Sink, "countPublished" | "reply"> {
  /** As in `Sink`. @param type of the first request of their run: a request on a namespace is a run of its own */
  reply(replies: Uint8Array, isLast: boolean, type: number): void;
  /** The next run waits for room. */
  readonly isFull: boolean;
}

/**
 * Sends runs, and gives their replies to a sink.
 *
 * @param runs at least one
 * @param replyBytesMax reply bytes of one call to a shard; what is left is asked for in a further one
 */
export function sendRuns(
  { env, access, requestTally }: Caller,
  runs: readonly Frames[],
  sink: RunSink,
  replyBytesMax: number,
): void {
  // A Worker may not use one request's I/O for another: stubs, and the lanes that order calls to them, belong to this
  // request.
  const dispatch = new Dispatch(env, access.namespace, requestTally);
  const send = (run: Frames, to: Sink): void => dispatch.exchange(run, access, to, replyBytesMax);
  new RunSequence(runs, send, sink).startNext();
}

/**
 * Passes the replies of each run on, and starts the next run after the last of them. Runs are never under way together:
 * a later one may read what an earlier one writes, in another object.
 */
class RunSequence implements Sink {
  readonly #runs: readonly Frames[];
  readonly #send: (run: Frames, sink: Sink) => void;
  readonly #sink: RunSink;
  /** Index of the run that starts next. */
  #next = 0;

  constructor(runs: readonly Frames[], send: (run: Frames, sink: Sink) => void, sink: RunSink) {
    this.#runs = runs;
    this.#send = send;
    this.#sink = sink;
  }

  /** Starts the next run. The caller knows that there is one. */
  startNext(): void {
    this.#send(this.#runs[this.#next++]!, this);
  }

  /**
   * The end of a run is the end of all only after the last one. A promise is made only when the sink is full: most
   * messages have one run, and would pay for it.
   */
  reply(replies: Uint8Array, isLast: boolean): void {
    const isEnd = isLast && this.#next === this.#runs.length;
    this.#sink.reply(replies, isEnd, this.#runs[this.#next - 1]!.bytes[0]!);
    if (isEnd || !isLast) return;
    const room = this.#sink.isFull ? this.#sink.room() : null;
    if (room === null) this.startNext();
    else {
      room.then(
        () => this.startNext(),
        (error: unknown) => this.fail(error),
      );
    }
  }

  get hasReader(): boolean {
    return this.#sink.hasReader;
  }

  room(): Promise<void> | null {
    return this.#sink.room();
  }

  /** Runs before this one were applied: its refusal is not one of the message. */
  fail(error: unknown): void {
    this.#sink.fail(this.#next > 1 ? failureOfPart(error) : error);
  }

  countPublished(): void {
    // Connections count what they publish, for CONNECTIONS; a message has no connection.
  }
}
