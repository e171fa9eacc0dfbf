/**
 * IDs of connections, as WHOAMI tells them: a connection keeps its ID, also where its Hub sleeps and wakes up, and no other has it.
 * Written from docs/guarantees.md ("Sleep").
 */
import type { Moment, Violation } from "./history.ts";
import { describeMoment } from "./order.ts";

/** An answer to WHOAMI. */
export interface ToldId {
  /** As in `Call.connection`. */
  readonly connection: number;
  /** 32 hex digits. */
  readonly id: string;
  readonly at: Moment;
}

/** @param told in the order in which the answers came */
export function checkConnectionIds(told: readonly ToldId[]): Violation[] {
  const violations: Violation[] = [];
  const first = new Map<number, ToldId>();
  const owners = new Map<string, number>();
  for (const { connection, id, at } of told) {
    const violate = (message: string): void => {
      violations.push({ promise: "Sleep", subject: `connection ${connection}`, message });
    };
    const before = first.get(connection);
    const owner = owners.get(id) ?? connection;
    if (before === undefined) first.set(connection, { connection, id, at });
    else if (before.id !== id) {
      violate(
        `WHOAMI answered ${id} at ${describeMoment(at)}, and ${before.id} at ${describeMoment(before.at)}`,
      );
    }
    if (owner === connection) owners.set(id, connection);
    else violate(`has the ID of connection ${owner}, ${id}, at ${describeMoment(at)}`);
  }
  return violations;
}
