/**
 * What doors count of requests that are under way, to keep within a limit. Where nothing is under way it must be nothing: what stays
 * counted of a request whose client has gone would make the limit smaller for ever.
 */
import type { Violation } from "./history.ts";

/** Of a door that is at rest. */
export interface DoorCounts {
  readonly door: string;
  /** Values of variables by their names; undefined where the code has no such variable. */
  readonly counts: readonly (readonly [name: string, value: unknown])[];
}

export function checkDoorCounts(doors: readonly DoorCounts[]): Violation[] {
  return doors.flatMap(({ door, counts }) =>
    counts
      .filter(([, value]) => value !== 0)
      .map(([name, value]) => ({
        promise: "Bounds",
        subject: door,
        message: `\`${name}\` is ${String(value)} where nothing is under way`,
      })),
  );
}
