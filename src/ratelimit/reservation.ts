/** What `reserve` and `settle` of a limiter answer, and the ids of reservations. */
import { invalid } from "../wire/edge/argument.ts";
import { isName } from "../wire/ratelimit/keys.ts";
import type { AskOptions } from "./limiter-options.ts";
import type { RateLimitResult } from "./result.ts";

/**
 * What is charged until the real cost is known, and the way to say that cost.
 *
 * After a refusal nothing is reserved: `id` is null, and `settle` and `release` do nothing. The same holds where the
 * server could not be asked and `onError` has decided; what a call that was lost has charged stays charged.
 *
 * @example
 * const held: Reservation = await limiter.reserve("ada", { cost: 800 });
 * if (held.success) await held.settle(await generate(prompt));
 */
export interface Reservation extends RateLimitResult {
  /** Names the reservation and its key, for `limiter.settle` of any Worker. It has the key in it: keep it to yourself. */
  readonly id: string | null;
  /**
   * Settles the reservation with its real cost, an integer from 0, within `ttlMs`: what was reserved too much is given
   * back, and what is missing is charged, even beyond the limit. As `settle` of the limiter.
   */
  settle(cost: number, options?: AskOptions): Promise<SettledResult>;
  /** Gives back all that was reserved: settles with 0. */
  release(options?: AskOptions): Promise<SettledResult>;
}

/**
 * What the limit says after a reservation was settled, to a cost of 1.
 *
 * @example
 * const { settled, remaining }: SettledResult = await limiter.settle(id, 523);
 */
export interface SettledResult extends RateLimitResult {
  /**
   * What the reservation was settled with: the cost of the first call that settled it. Null where nothing was settled: after
   * a refusal, and where `onError` has decided.
   */
  readonly settled: number | null;
}

/** The server's id, which is a UUID, and the stored key. */
const ID = /^([\da-f]{8}(?:-[\da-f]{4}){3}-[\da-f]{12})\.(.+)$/i;

/** @param key as it is stored */
export const reservationIdOf = (id: string, key: string): string => `${id}.${key}`;

/**
 * The server's id, and the stored key.
 *
 * @throws ThrottrError `reservation_invalid`
 */
export function readReservationId(text: string): { readonly id: string; readonly key: string } {
  const [, id = "", key = ""] = ID.exec(text) ?? [];
  if (isName(key)) return { id, key };
  throw invalid("id", "`id` of a reservation", text, "reservation_invalid");
}
