/** How long calls take, from when they are sent until their client has an answer, or knows that there will be none. */
import { boundOf, type CallWay, type TimeTerms } from "./checks/call-bounds.ts";
import type { Violation } from "./checks/history.ts";
import type { RunningLife } from "./platform/running-life.ts";

interface Begun {
  readonly way: CallWay;
  readonly name: string;
  readonly sinceMs: number;
  readonly caller: Suspended;
  /** How long its caller had been suspended before. */
  readonly suspendedMs: number;
}

/** How long the life of a caller has been suspended so far. */
type Suspended = Pick<RunningLife, "suspendedMs">;

const PROMISE = "Progress";
const AWAKE: Suspended = { suspendedMs: 0 };

export class CallTimes {
  readonly violations: Violation[] = [];
  /** How many calls have ended. */
  ended = 0;
  readonly #nowMs: () => number;
  readonly #terms: TimeTerms;
  readonly #open = new Set<Begun>();

  /** @param nowMs true time */
  constructor(nowMs: () => number, terms: TimeTerms) {
    this.#nowMs = nowMs;
    this.#terms = terms;
  }

  /**
   * A call is sent.
   *
   * @param caller whose timeouts come later where it was suspended
   * @returns what its client calls when it has ended
   */
  begin(way: CallWay, name: string, caller: Suspended = AWAKE): () => void {
    const begun = { way, name, sinceMs: this.#nowMs(), caller, suspendedMs: caller.suspendedMs };
    this.#open.add(begun);
    return () => {
      if (!this.#open.delete(begun)) return;
      this.ended++;
      this.#judge(begun);
    };
  }

  /** Of a call that returns a promise. */
  async of<Result>(
    way: CallWay,
    name: string,
    call: Promise<Result>,
    caller?: Suspended,
  ): Promise<Result> {
    const end = this.begin(way, name, caller);
    try {
      return await call;
    } finally {
      end();
    }
  }

  /** The run is over: calls that have not ended are as long as it has gone on since. */
  judgeOpen(): void {
    for (const begun of this.#open) this.#judge(begun);
  }

  #judge({ way, name, sinceMs, caller, suspendedMs }: Begun): void {
    const tookMs = this.#nowMs() - sinceMs - (caller.suspendedMs - suspendedMs);
    const mostMs = boundOf(way, this.#terms);
    if (tookMs <= mostMs) return;
    const message = `took ${tookMs.toFixed(0)} ms, from ${sinceMs.toFixed(0)} on, and at most ${mostMs} are promised`;
    this.violations.push({ promise: PROMISE, subject: `${way} ${name}`, message });
  }
}
