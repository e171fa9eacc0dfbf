/**
 * Runs of a message that comes whole: found, checked, and sent one after the other.
 */
import { isUnrestricted, missingRightOfFrame, neededRight, type Access } from "../base/access.ts";
import type { Frames, Sink } from "../dispatch/sink.ts";
import type { Protocol } from "../wire/throttr/protocol.ts";
import { layoutsOf, REQUEST_TYPES_END, Target } from "../wire/throttr/requests.ts";
import { FRAME_TOO_LARGE, FRAME_UNKNOWN, frameEnd, scanRun } from "../wire/throttr/scanner.ts";
import { Problem } from "./problem.ts";

/** Runs of a message: each needs calls of its own, and the platform allows a request 1,000 of them. */
const RUNS_MAX = 500;

/** Where the replies to runs go: those of the last run may be held until there is room for more. */
export interface RunSink extends Omit<Sink, "published"> {
  /** The next run waits for room. */
  readonly isFull: boolean;
}

/** Sends runs one after the other, and joins their replies. */
export class RunSequence implements Sink {
  readonly #runs: readonly Frames[];
  readonly #send: (run: Frames, sink: Sink) => void;
  readonly #sink: RunSink;
  #next = 0;

  constructor(runs: readonly Frames[], send: (run: Frames, sink: Sink) => void, sink: RunSink) {
    this.#runs = runs;
    this.#send = send;
    this.#sink = sink;
  }

  start(): void {
    this.#send(this.#runs[this.#next++]!, this);
  }

  reply(replies: Uint8Array, isLast: boolean): void {
    const isEnd = isLast && this.#next === this.#runs.length;
    this.#sink.reply(replies, isEnd);
    if (isEnd || !isLast) return;
    const room = this.#sink.isFull ? this.#sink.room() : null;
    if (room === null) this.start();
    else {
      room.then(
        () => this.start(),
        (error: unknown) => this.failed(error),
      );
    }
  }

  get hasReader(): boolean {
    return this.#sink.hasReader;
  }

  room(): Promise<void> | null {
    return this.#sink.room();
  }

  failed(error: unknown): void {
    this.#sink.failed(error);
  }

  published(): void {
    // Nobody counts what such a message has published.
  }
}

/**
 * The runs of a message.
 *
 * @throws Problem when a frame can't be read, or there are too many runs
 */
export function runsOf(protocol: Protocol, bytes: Uint8Array, frameBytesMax: number): Frames[] {
  const layouts = layoutsOf(protocol);
  const counts = new Float64Array(REQUEST_TYPES_END);
  const runs: Frames[] = [];
  for (let at = 0; at < bytes.length;) {
    const run = scanRun(layouts, bytes, at, bytes.length, frameBytesMax, counts);
    const { target, frames, end, stop } = run;
    if (frames > 0) {
      runs.push({ protocol, target, bytes: bytes.subarray(at, end), count: frames });
      at = end;
    }
    if (stop === FRAME_TOO_LARGE) {
      throw new Problem(
        413,
        "frame_too_large",
        `frame at byte ${end}: a frame may have ${frameBytesMax} bytes; nothing was applied`,
      );
    }
    if (stop === FRAME_UNKNOWN) {
      const hex = bytes[end]!.toString(16).padStart(2, "0");
      throw new Problem(
        400,
        "request_type_unknown",
        `byte ${end}: 0x${hex} is no request type of dialect ${protocol.dialect}; nothing was applied`,
      );
    }
    if (frames === 0) {
      throw new Problem(
        400,
        "body_truncated",
        `the body ends inside the frame that begins at byte ${end}; nothing was applied`,
      );
    }
  }
  if (runs.length > RUNS_MAX) {
    throw new Problem(
      413,
      "runs_max",
      `the body changes ${runs.length} times between requests on keys, PUBLISH and requests on the namespace, ` +
        `each of which is a run of its own: a body may have ${RUNS_MAX} runs; nothing was applied`,
    );
  }
  return runs;
}

/**
 * Checks that all frames of a run may be executed.
 *
 * @param body the message that the run is part of
 * @throws Problem `needs_connection`, `scope_missing`, `prefix_missing`
 */
export function assertAllowed(
  { protocol, target, bytes, count }: Frames,
  access: Access,
  body: Uint8Array,
): void {
  if (target === Target.shard && isUnrestricted(access, protocol)) return;
  const layouts = layoutsOf(protocol);
  for (let frame = 0, at = 0; frame < count; frame++) {
    const layout = layouts[bytes[at]!]!;
    const where = `${layout.name} at byte ${bytes.byteOffset - body.byteOffset + at}`;
    if (target === Target.connection) {
      throw new Problem(
        400,
        "needs_connection",
        `${where} needs a connection: send it over WebSocket or TCP; nothing was applied`,
      );
    }
    const missing = missingRightOfFrame(access, layout, bytes, at);
    if (missing !== null) {
      const needed = neededRight(missing, layout);
      throw Problem.of(missing, `${where} ${needed}; nothing was applied`);
    }
    at = frameEnd(layouts, bytes, at);
  }
}
