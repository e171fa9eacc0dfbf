/** The way between isolates and the shard: messages take their time, and some don't arrive. */
import type { Signal } from "../../../src/client/platform.ts";
import type { Transport } from "../../../src/client/transport/transport.ts";
import { ThrottrError } from "../../../src/wire/edge/error.ts";
import { hearMessage } from "./frames.ts";
import type { History, KeyEvent } from "./history.ts";
import type { SimulatedShard } from "./shard.ts";
import type { VirtualTime } from "./virtual-time.ts";

/** How good a network is: probabilities, and times in ms. */
export interface NetworkQuality {
  /** The longest way of an ordinary message. */
  readonly delayMs: number;
  /** The longest way of a late one. */
  readonly lateMs: number;
  /** Nothing is sent, and the sender knows it. */
  readonly unsent: number;
  /** A request does not arrive; the sender does not know. */
  readonly lostRequest: number;
  readonly lateRequest: number;
  readonly lostReply: number;
  readonly lateReply: number;
}

/** Who sends: replies come to it as events. */
export interface Sender {
  readonly id: number;
  /** Runs something as an event, once nothing else runs; never if the isolate is gone. */
  enter(run: () => void): void;
}

export class SimulatedNetwork {
  /** A fault: how often a request arrives twice. */
  duplicates = 0;
  readonly #time: VirtualTime;
  readonly #random: () => number;
  readonly #quality: NetworkQuality;
  readonly #history: History;
  readonly #shard: SimulatedShard;

  constructor(parts: {
    readonly time: VirtualTime;
    readonly random: () => number;
    readonly quality: NetworkQuality;
    readonly history: History;
    readonly shard: SimulatedShard;
  }) {
    this.#time = parts.time;
    this.#random = parts.random;
    this.#quality = parts.quality;
    this.#history = parts.history;
    this.#shard = parts.shard;
  }

  /** How the client of an isolate reaches the shard. */
  transportOf(sender: Sender): Transport {
    return {
      exchange: (message, signal) =>
        new Promise((resolve, reject) => {
          this.#send(sender, message.slice(), signal, { resolve, reject });
        }),
      connect: () => {
        throw new Error("there are no connections");
      },
    };
  }

  #send(
    sender: Sender,
    message: Uint8Array,
    signal: Signal,
    reply: { resolve: (replies: Uint8Array) => void; reject: (error: ThrottrError) => void },
  ): void {
    const quality = this.#quality;
    const fail = (code: "connection_failed" | "outcome_unknown", afterMs: number): void => {
      this.#time.after(afterMs, () => {
        sender.enter(() => reply.reject(new ThrottrError(code, "cut")));
      });
    };
    if (signal.aborted) return;
    if (this.#isChance(quality.unsent)) return fail("connection_failed", this.#way(false));
    const frames = hearMessage(message);
    this.#history.noteSent(frames);
    if (this.#isChance(quality.lostRequest)) return this.#lose(fail);
    const call = {
      sender: sender.id,
      frames,
      answer: (replies: Uint8Array, events: readonly KeyEvent[]) => {
        if (this.#isChance(quality.lostReply)) return this.#lose(fail);
        this.#time.after(this.#way(this.#isChance(quality.lateReply)), () => {
          sender.enter(() => {
            note(events, this.#time.nowMs);
            reply.resolve(replies);
          });
        });
      },
      fail: () => fail("outcome_unknown", this.#way(false)),
    };
    const arrive = (): void => this.#shard.receive(call);
    this.#time.after(this.#way(this.#isChance(quality.lateRequest)), arrive);
    if (this.#isChance(this.duplicates)) this.#time.after(this.#way(false), arrive);
  }

  /** The sender notices it, or waits for ever. */
  #lose(fail: (code: "outcome_unknown", afterMs: number) => void): void {
    if (this.#isChance(0.5)) fail("outcome_unknown", this.#way(true));
  }

  #isChance(probability: number): boolean {
    return probability > 0 && this.#random() < probability;
  }

  #way(isLate: boolean): number {
    const { delayMs, lateMs } = this.#quality;
    return this.#random() * (isLate ? lateMs : delayMs);
  }
}

/** The isolate has what it was charged for. */
function note(events: readonly KeyEvent[], nowMs: number): void {
  for (const event of events) {
    if (event.kind === "charge") event.deliveredMs = Math.min(event.deliveredMs, nowMs);
  }
}
