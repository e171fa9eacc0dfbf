/** Limiters by the bytes of their configurations: callers send the same few over and over. */
import { binaryString } from "../wire/bytes.ts";
import { readConfiguration } from "../wire/ratelimit/binary.ts";
import { createLimiter, type Limiter } from "./ratelimit/limiter.ts";

const LIMITERS_MAX = 1024;

export class Limiters {
  readonly #limiters = new Map<string, Limiter>();

  /**
   * The limiter of the configuration in `bytes[at, end)`.
   *
   * @throws RateLimitError when it is none
   */
  of(bytes: Uint8Array, at: number, end: number): Limiter {
    const name = binaryString(bytes, at, end - at);
    let limiter = this.#limiters.get(name);
    if (limiter === undefined) {
      limiter = createLimiter(readConfiguration(bytes, at, end));
      if (this.#limiters.size === LIMITERS_MAX) this.#limiters.clear();
      this.#limiters.set(name, limiter);
    }
    return limiter;
  }
}
