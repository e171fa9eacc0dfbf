/**
 * Units that go back to a limit: those of a DRAW or a LIMIT_ALL that its caller has not spent, and charges that are cancelled.
 *
 * They are stored at once, before the request that brings them is decided, so they count also where it is refused.
 */
import type { ChargeParts } from "./charge-parts.ts";
import type { OpenCharge } from "./key-charges.ts";
import type { StateKey } from "./limit-states.ts";
import type { Limiter } from "./ratelimit/limiter.ts";

/** The limit that units go back to. */
export interface OfLimit extends StateKey {
  /** Of the state, as a binary string. */
  readonly key: string;
  readonly limiter: Limiter;
}

/**
 * Gives back units of an open charge, and closes it. The ledger's `cut` must have run at this moment.
 *
 * A full shard takes the state as well, or callers would pay for what they have not used: of all that is in a state only a
 * bucket's amount can become longer, and an amount has at most 24 characters.
 *
 * @param state what is stored
 * @param charge.units at most those that were charged count
 * @returns what is stored then; null for a charge that is not known
 */
export function giveBack(
  { records, states, ledger, reservations }: ChargeParts,
  limit: OfLimit,
  state: string | null,
  charge: Pick<OpenCharge, "id" | "units">,
): string | null {
  const { key, limiter } = limit;
  const nowNs = records.now.toBig();
  const closed = ledger.close(key, state, charge, nowNs);
  if (closed === null || state === null) return null;
  const given = closed.units === 0 ? null : limiter.giveBack(state, nowNs, closed);
  if (given === null) return state;
  // The mark of the key may be the current record.
  states.find(limit);
  states.storeGivenBack(limit, given.state, given.ttlNs, ledger.stateEndNs(key));
  reservations.noteState(limit, key, given.state);
  return given.state;
}
