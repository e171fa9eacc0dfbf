/** A server of one shard that tests of the client play: each message takes its time, or gets lost. */
import type { Socket, Transport } from "../../../src/client/transport/transport.ts";
import { Engine } from "../../../src/engine/engine.ts";
import { Command } from "../../../src/wire/edge/command.ts";
import { ThrottrError } from "../../../src/wire/edge/error.ts";
import type { FakeClock } from "../client/clock.ts";
import { framesOf } from "../client/server.ts";
import { bytesOf, edgeBatch, hex, partsOf } from "../frames/index.ts";

const START_MS = 1_700_000_000_000;
const NAMES = new Map(Object.entries(Command).map(([name, type]) => [type as number, name]));

/** What becomes of a message. */
export interface Fate {
  /** How long it takes to get there, and its answer back. */
  readonly thereMs: number;
  readonly backMs: number;
  /** It does not get there, or its answer does not get back, and the client is told so. */
  readonly loss?: "message" | "answer";
  /** It is refused with this. */
  readonly refusal?: string;
}

/** A frame that was executed: its command, and the id of its lease in hex. */
export interface Executed {
  readonly command: string;
  readonly lease: string;
  readonly atMs: number;
}

export class LeaseServer implements Transport {
  readonly executed: Executed[] = [];
  readonly #clock: FakeClock;
  readonly #engine = new Engine({
    hashKey: { low: 1, high: 2 },
    bytesMax: 16 << 20,
    isCounting: false,
  });
  /** Of the messages from now on; at once unless it says otherwise. */
  fate: (commands: readonly string[]) => Fate = () => ({ thereMs: 0, backMs: 0 });

  constructor(clock: FakeClock) {
    this.#clock = clock;
  }

  /** Commands that were executed. */
  get commands(): string[] {
    return this.executed.map(({ command }) => command);
  }

  /** What is held of a semaphore, by leases that have not ended. */
  consumption(name: string): number {
    const bytes = bytesOf(name);
    return Math.max(0, this.#engine.semaphores.get(bytes, 0, bytes.length, this.#nowMs));
  }

  exchange(message: Uint8Array): Promise<Uint8Array> {
    const frames = framesOf(message);
    const { thereMs, backMs, loss, refusal } = this.fate(
      frames.map(({ type }) => NAMES.get(type)!),
    );
    return this.#after(thereMs, () => {
      if (refusal !== undefined) throw new ThrottrError(refusal, "the test says so");
      if (loss === "message") throw new ThrottrError("outcome_unknown", "lost on the way there");
      for (const { type, name, bytes } of frames) {
        const leaseAt = 7 + bytesOf(name).length;
        this.executed.push({
          command: NAMES.get(type)!,
          lease: hex(bytes.subarray(leaseAt, leaseAt + 16)),
          atMs: this.#clock.nowMs(),
        });
      }
      const batch = edgeBatch(frames.map(({ bytes }) => bytes));
      return partsOf(this.#engine.apply(batch, this.#nowMs))[0]!.replies.slice();
    }).then((replies) =>
      this.#after(backMs, () => {
        if (loss === "answer") throw new ThrottrError("outcome_unknown", "lost on the way back");
        return replies;
      }),
    );
  }

  connect(): Socket {
    throw new Error("nobody needs a connection");
  }

  get #nowMs(): number {
    return START_MS + this.#clock.nowMs();
  }

  #after<Result>(delayMs: number, run: () => Result): Promise<Result> {
    if (delayMs === 0) return Promise.resolve().then(run);
    return new Promise<void>((resolve) => this.#clock.setTimer(resolve, delayMs)).then(run);
  }
}
