/**
 * What the clients of a run saw: calls with their begin, end and outcome. Workloads write a history while a run lasts; checkers
 * read it, and say what contradicts a promise. Nothing here knows the kernel: moments come from a function.
 */
import type { MsSpan } from "../../support/models/span.ts";

/** A moment of a run. */
export interface Moment {
  /** A number that grows with each moment that is taken: it orders all of them, also those of one event. */
  readonly tick: number;
  /** True (virtual) time, ms since the epoch. Clocks of objects and clients may show another. */
  readonly ms: number;
}

export type Door = "http" | "websocket" | "tcp" | "gateway" | "binding" | "client";

/** `unknown`: it may have been applied, or not. `refused`: it was certainly not applied, as a code says. */
export type Open = "unknown" | "refused";

/** One request, as its client saw it. A call that is sent again is a call of its own, with the same operation. */
export interface Call<Operation, Outcome> {
  readonly client: number;
  readonly door: Door;
  /**
   * The connection, or the body of several frames, that it travelled in: a number that is given once in a run. Requests of
   * one connection are listed in the order in which they were sent. Null where requests have no order among each other.
   */
  readonly connection: number | null;
  readonly operation: Operation;
  readonly begun: Moment;
  /** When its client had the answer, or gave up; null when it was never answered. */
  ended: Moment | null;
  outcome: Outcome | Open;
  /**
   * Of an unknown outcome: from here on it can no longer take effect, because nothing is left of its request anywhere. Null
   * where it may still take effect when the run ends. A client that gives up does not take its request back.
   */
  settled: Moment | null;
}

/** Who makes a call, and what it asks. */
export type Asked<Operation> = Pick<
  Call<Operation, never>,
  "client" | "door" | "connection" | "operation"
>;

/** A call whose answer is known. */
export type AnsweredCall<Operation, Outcome> = Call<Operation, Outcome> & {
  readonly ended: Moment;
  readonly outcome: Outcome;
};

/** What contradicts a promise. */
export interface Violation {
  /** The promise, as docs/guarantees.md names it. */
  readonly promise: string;
  /** The key, limit, semaphore or channel. */
  readonly subject: string;
  /** What was seen, and what it contradicts: for a person who has not seen the run. */
  readonly message: string;
}

/** Hears of what clients ask and get. */
export interface CallListener {
  onBegin(call: Call<unknown, unknown>): void;
  /** It has an outcome, or its client has given up. */
  onEnd(call: Call<unknown, unknown>): void;
}

/** Takes moments: each has a tick of its own. Histories of one run share it, so that their moments are ordered, too. */
export class Moments {
  readonly listener: CallListener | null;
  /** Calls that were begun, and those that have ended. */
  begun = 0;
  ended = 0;
  #tick = 0;
  readonly #nowMs: () => number;

  /** @param listener hears of all calls of the histories that share the moments; null where nobody wants to read of them */
  constructor(nowMs: () => number, listener: CallListener | null = null) {
    this.#nowMs = nowMs;
    this.listener = listener;
  }

  now(): Moment {
    return { tick: ++this.#tick, ms: this.#nowMs() };
  }
}

/** Calls of one kind, in the order in which they began. */
export class History<Operation, Outcome> {
  readonly calls: Call<Operation, Outcome>[] = [];
  readonly #moments: Moments;

  constructor(moments: Moments) {
    this.#moments = moments;
  }

  /** Note it before the request is sent. Until it is answered its outcome is unknown. */
  begin(asked: Asked<Operation>): Call<Operation, Outcome> {
    const open = { ended: null, outcome: "unknown", settled: null } as const;
    const call = { ...asked, begun: this.#moments.now(), ...open };
    this.calls.push(call);
    this.#moments.begun++;
    this.#moments.listener?.onBegin(call);
    return call;
  }

  /** The answer came. */
  end(call: Call<Operation, Outcome>, outcome: Outcome | "refused"): void {
    call.ended = this.#moments.now();
    call.outcome = outcome;
    this.#moments.ended++;
    this.#moments.listener?.onEnd(call);
  }

  /** The client gave up, or learned that the outcome is unknown. The call may take effect later. */
  giveUp(call: Call<Operation, Outcome>): void {
    call.ended = this.#moments.now();
    this.#moments.ended++;
    this.#moments.listener?.onEnd(call);
  }

  /** From now on the call can't take effect any more, if it has not done so. */
  settle(call: Call<Operation, Outcome>): void {
    call.settled = this.#moments.now();
  }
}

/** Whether the outcome of a call is known, and says something. */
export function isAnswered<Operation, Outcome>(
  call: Call<Operation, Outcome>,
): call is AnsweredCall<Operation, Outcome> {
  return call.ended !== null && call.outcome !== "unknown" && call.outcome !== "refused";
}

/** Who called, where and when, for messages. */
export function describeCall(call: Call<unknown, unknown>): string {
  const { client, door, connection, begun, ended } = call;
  const way = connection === null ? door : `${door} ${connection}`;
  const end =
    ended === null ? "never answered" : `#${ended.tick} (${after(begun, ended)} ms later)`;
  return `client ${client} over ${way}, #${begun.tick} to ${end}`;
}

const after = (from: Moment, to: Moment): string => (to.ms - from.ms).toFixed(1);

/** When a call may have been executed, in true time. */
export const spanOf = ({ begun, ended, settled, outcome }: Call<unknown, unknown>): MsSpan => ({
  fromMs: begun.ms,
  toMs: outcome === "unknown" ? (settled?.ms ?? Infinity) : (ended?.ms ?? Infinity),
});
