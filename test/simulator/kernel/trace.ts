/**
 * What happened in a run. Every run has a hash of it: two runs of one seed must have the same. The text itself is kept only when
 * a person wants to read it.
 */
import type { VirtualTime } from "./virtual-time.ts";

export type TracePart = string | number | bigint | boolean | null | undefined;

export class Trace {
  #low = 0x811c9dc5;
  #high = 0x9e3779b9;
  readonly #time: VirtualTime;
  readonly #keep: ((line: string) => void) | null;

  /** @param keep gets each line; null to keep the hash alone */
  constructor(time: VirtualTime, keep: ((line: string) => void) | null = null) {
    this.#time = time;
    this.#keep = keep;
  }

  get isKept(): boolean {
    return this.#keep !== null;
  }

  /** 16 hex digits that depend on everything that was noted, and on its order. */
  get hash(): string {
    return (
      (this.#high >>> 0).toString(16).padStart(8, "0") +
      (this.#low >>> 0).toString(16).padStart(8, "0")
    );
  }

  /**
   * @param what the kind of event, such as `rpc.call`
   * @param who whose it is, such as `Shard default/0 #2`
   */
  note(what: string, who: string, ...parts: readonly TracePart[]): void {
    this.#mix(what);
    this.#mix(who);
    for (const part of parts) this.#mix(String(part));
    const { nowMs, elapsedMs, tick } = this.#time;
    this.#mix(String(nowMs));
    this.#keep?.(
      `${String(tick).padStart(7)} ${elapsedMs.toFixed(3).padStart(12)} ms  ${who}: ${what} ${parts.join(" ")}`.trimEnd(),
    );
  }

  #mix(text: string): void {
    let low = this.#low;
    let high = this.#high;
    for (let i = 0; i < text.length; i++) {
      const code = text.charCodeAt(i);
      low = Math.imul(low ^ code, 0x01000193);
      high = Math.imul(high ^ code, 0x85ebca6b) ^ (high >>> 15);
    }
    this.#low = Math.imul(low ^ 0xff, 0x01000193);
    this.#high = high;
  }
}
