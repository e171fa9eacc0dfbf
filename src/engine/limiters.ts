/**
 * Limiters by the bytes of their configurations.
 *
 * Every LIMIT carries its configuration, and callers send the same few again and again: each is read and checked once.
 */
import { binaryString } from "../wire/bytes.ts";
import { readConfiguration } from "../wire/ratelimit/binary.ts";
import { createLimiter, type Limiter } from "./ratelimit/limiter.ts";
import { LIMITERS_REMEMBERED_MAX } from "./sizes.ts";

/** No configuration of a limiter is longer: eight quotas with the longest names, and a bucket, stay below. */
export const CONFIGURATION_BYTES_MAX = 1024;

export class Limiters {
  readonly #limiters = new Map<string, Limiter>();
  /** The limiter of the last call, and its configuration: most calls in a row have the same. */
  #last: Limiter | null = null;
  #lastBytes: Uint8Array = new Uint8Array(0);

  /**
   * The limiter of the configuration in `bytes[at, end)`.
   *
   * @throws RateLimitError for an invalid configuration
   */
  of(bytes: Uint8Array, at: number, end: number): Limiter {
    if (this.#last !== null && this.#isLast(bytes, at, end)) return this.#last;
    const name = binaryString(bytes, at, end - at);
    let limiter = this.#limiters.get(name);
    if (limiter === undefined) {
      limiter = createLimiter(readConfiguration(bytes, at, end));
      if (this.#limiters.size === LIMITERS_REMEMBERED_MAX) this.#limiters.clear();
      this.#limiters.set(name, limiter);
    }
    this.#last = limiter;
    this.#lastBytes = bytes.slice(at, end);
    return limiter;
  }

  #isLast(bytes: Uint8Array, at: number, end: number): boolean {
    const last = this.#lastBytes;
    if (last.length !== end - at) return false;
    for (let i = 0; i < last.length; i++) if (last[i] !== bytes[at + i]) return false;
    return true;
  }
}
