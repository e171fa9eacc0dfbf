/**
 * Usage of records: STAT tells how often a record was read and written since its shard has started, or since it was created.
 * Written from docs/protocol.md.
 */
import { appliedBy } from "./facts.ts";
import {
  describeCall,
  isAnswered,
  type AnsweredCall,
  type Call,
  type Moment,
  type Violation,
} from "./history.ts";
import { isBefore } from "./order.ts";

/** On a record that one client alone uses. A `read` or `write` counts if it succeeds. */
export interface UsageOperation {
  readonly key: string;
  readonly name: "insert" | "read" | "write" | "purge" | "stat";
}

export interface UsageFigures {
  readonly readsPerMinute: number;
  readonly writesPerMinute: number;
  readonly reads: number;
  readonly writes: number;
}

export interface UsageOutcome {
  readonly success: boolean;
  /** Of a `stat` that has found its record. */
  readonly usage?: UsageFigures;
}

export type UsageCall = Call<UsageOperation, UsageOutcome>;

/** From when to when someone was told counts. */
export type Seen = Pick<AnsweredCall<UsageOperation, UsageOutcome>, "begun" | "ended">;

export interface UsageTerms {
  /**
   * Since when the object of a key may have counted what someone was told, and since when it certainly has: its starts, and those of the
   * shards that it has split into.
   */
  readonly countingSince: (key: string, seen: Seen) => readonly [Moment, Moment];
  /** Whether reads may be missing: a split does not hand on those of records that were copied before. */
  readonly mayMissReads: (key: string) => boolean;
  /** Whether an answer may come from a second copy of the key's object, whose counts are lost. */
  readonly mayBeStale: (key: string, call: UsageCall) => boolean;
}

const PROMISE = "Counts";

/** @param calls of one client, in the order in which it made them: one after the other on each key */
export function checkUsage(calls: readonly UsageCall[], terms: UsageTerms): Violation[] {
  const byKey = Map.groupBy(calls, ({ operation }) => operation.key);
  return [...byKey.values()].flatMap((own) => checkKey(own, terms));
}

function checkKey(calls: readonly UsageCall[], terms: UsageTerms): Violation[] {
  const violations: Violation[] = [];
  /** Calls on the present record, from its INSERT on; null while there is no record. */
  let used: UsageCall[] | null = null;
  /** Of unknown outcome: they may be executed later, on whichever record there is then. */
  const open: UsageCall[] = [];
  for (const call of calls) {
    const { name } = call.operation;
    if (call.outcome === "refused") continue;
    if (name === "insert" || name === "purge") {
      // From here on it is unknown whether the record exists.
      if (!isAnswered(call)) break;
      if (call.outcome.success) used = name === "insert" ? [...open, call] : null;
    } else if (name !== "stat") {
      used?.push(call);
      if (!isAnswered(call)) open.push(call);
    } else if (isAnswered(call) && used !== null && !terms.mayBeStale(call.operation.key, call)) {
      violations.push(...checkStat(call, used, terms));
    }
  }
  return violations;
}

function checkStat(
  call: AnsweredCall<UsageOperation, UsageOutcome>,
  used: readonly UsageCall[],
  terms: UsageTerms,
): Violation[] {
  const { usage } = call.outcome;
  const { key } = call.operation;
  const violate = (what: string): Violation => ({
    promise: PROMISE,
    subject: key,
    message: `${describeCall(call)}: STAT ${what}`,
  });
  if (usage === undefined) return [violate("found no record, but the client had not removed it")];
  const since = terms.countingSince(key, call);
  const kinds = [
    {
      name: "reads",
      made: used.filter(isRead),
      told: usage.reads,
      mayMiss: terms.mayMissReads(key),
      perMinute: usage.readsPerMinute,
    },
    {
      name: "writes",
      made: used.filter((each) => !isRead(each)),
      told: usage.writes,
      mayMiss: false,
      perMinute: usage.writesPerMinute,
    },
  ];
  return kinds.flatMap(({ name, made, told, mayMiss, perMinute }) => {
    const [counted, most] = countsOf(made, since, terms);
    const least = mayMiss ? 0 : counted;
    if (told < least || told > most)
      return [violate(`told ${told} ${name}, but there were ${least} to ${most}`)];
    if (perMinute > most) return [violate(`told ${perMinute} ${name} a minute of at most ${most}`)];
    return [];
  });
}

const isRead = ({ operation }: UsageCall): boolean => operation.name === "read";

/** How many of some calls an object has certainly counted, and may have counted. */
function countsOf(
  calls: readonly UsageCall[],
  [earliest, latest]: readonly [Moment, Moment],
  { mayBeStale }: UsageTerms,
): [least: number, most: number] {
  let [least, most] = [0, 0];
  for (const call of calls) {
    if (isAnswered(call) && !call.outcome.success) continue;
    // One that was over by then was counted in a life before.
    if (isBefore(appliedBy(call), earliest)) continue;
    most++;
    if (!isAnswered(call) || !isBefore(latest, call.begun)) continue;
    if (!mayBeStale(call.operation.key, call)) least++;
  }
  return [least, most];
}
