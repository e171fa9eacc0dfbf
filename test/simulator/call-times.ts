/** How long calls take, from when they are sent until their client has an answer, or knows that there will be none. */
import { boundOf, type CallWay, type TimeTerms } from "./checks/call-bounds.ts";
import type { Violation } from "./checks/history.ts";

interface Begun {
  readonly way: CallWay;
  readonly name: string;
  readonly sinceMs: number;
}

const PROMISE = "Progress";

export class CallTimes {
  readonly violations: Violation[] = [];
  readonly #nowMs: () => number;
  readonly #terms: TimeTerms;
  readonly #open = new Set<Begun>();

  /** @param nowMs true time */
  constructor(nowMs: () => number, terms: TimeTerms) {
    this.#nowMs = nowMs;
    this.#terms = terms;
  }

  /** A call is sent. @returns what its client calls when it has ended */
  begin(way: CallWay, name: string): () => void {
    const begun = { way, name, sinceMs: this.#nowMs() };
    this.#open.add(begun);
    return () => {
      if (this.#open.delete(begun)) this.#judge(begun);
    };
  }

  /** Of a call that returns a promise. */
  async of<Result>(way: CallWay, name: string, call: Promise<Result>): Promise<Result> {
    const end = this.begin(way, name);
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

  #judge({ way, name, sinceMs }: Begun): void {
    const tookMs = this.#nowMs() - sinceMs;
    const mostMs = boundOf(way, this.#terms);
    if (tookMs <= mostMs) return;
    const message = `took ${tookMs.toFixed(0)} ms, from ${sinceMs.toFixed(0)} on, and at most ${mostMs} are promised`;
    this.violations.push({ promise: PROMISE, subject: `${way} ${name}`, message });
  }
}
