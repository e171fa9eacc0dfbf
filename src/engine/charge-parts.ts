/** What commands work with whose charges may be given back: DRAW, RESERVE and SETTLE. */
import type { ChargeLedger } from "./charge-ledger.ts";
import type { LimitStates } from "./limit-states.ts";
import type { Limiters } from "./limiters.ts";
import type { Records } from "./records.ts";
import type { Reservations } from "./reservations.ts";

export interface ChargeParts {
  readonly records: Records;
  readonly states: LimitStates;
  readonly limiters: Limiters;
  readonly ledger: ChargeLedger;
  readonly reservations: Reservations;
}
