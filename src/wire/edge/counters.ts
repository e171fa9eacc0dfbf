/** Operations on counters, and on the TTL of any record. */
import { Change } from "../throttr/request-types.ts";
import { invalid, objectOf, ttlOf, u64Of, type Text } from "./argument.ts";
import { Command } from "./command.ts";
import { ThrottrError } from "./error.ts";
import { onKey, reading, writeTtl, writeU64, type Once } from "./on-key.ts";
import type { CommandReply, Operation } from "./operation.ts";
import { isApplied } from "./outcome.ts";
import { counterOf, remainingOf, type CounterRecord, type Remaining } from "./records.ts";

export interface InsertOptions extends Once {
  /** 0 to 2^64 - 1. */
  readonly quota: bigint | number;
  /** An integer from 1: a record that expires at once would never exist. */
  readonly ttlMs: number;
}

export interface IncrementOptions extends Once {
  /** What is added, 0 to 2^64 - 1; 1 unless given. */
  readonly by?: bigint | number | undefined;
  /** TTL of the counter where there is none yet; one that exists keeps its own. */
  readonly ttlMs: number;
}

/** What becomes of the amount: it is set, added or subtracted. */
export type ChangeName = keyof typeof Change;

export interface TtlOptions extends Once {
  readonly ttlMs: number;
  /** `patch`: from now on; `increase`, `decrease`: the end moves by it. `patch` unless given. */
  readonly change?: ChangeName | undefined;
}

/** What became of a change of a counter. */
export interface CounterChange extends CounterRecord {
  /** False where the quota would have left 0 to 2^64 - 1: then it is as it was. */
  readonly applied: boolean;
}

export function insert(key: Text, options: InsertOptions): Operation<boolean> {
  objectOf(options, "options", "quota and ttlMs");
  const quota = u64Of(options.quota, "quota");
  const ttlMs = ttlOf(options.ttlMs);
  return onKey(Command.insert, key, options, isApplied, (out) => {
    writeU64(out, quota);
    writeTtl(out, ttlMs);
  });
}

export function query(key: Text): Operation<CounterRecord | null> {
  return reading(Command.read, key, (reply) => counterOf(reply));
}

export function increment(key: Text, options: IncrementOptions): Operation<bigint> {
  objectOf(options, "options", "ttlMs");
  const by = u64Of(options.by ?? 1n, "by");
  const ttlMs = ttlOf(options.ttlMs);
  const read = (reply: CommandReply): bigint => {
    if (isApplied(reply)) return counterOf(reply)?.quota ?? by;
    const detail = "the quota would exceed 2^64 - 1; nothing was changed";
    throw new ThrottrError("quota_overflow", detail);
  };
  return onKey(Command.increment, key, options, read, (out) => {
    writeU64(out, by);
    writeTtl(out, ttlMs);
  });
}

export function increase(
  key: Text,
  amount: bigint | number,
  options: Once = {},
): Operation<CounterChange | null> {
  return change("increase", key, amount, options);
}

export function decrease(
  key: Text,
  amount: bigint | number,
  options: Once = {},
): Operation<CounterChange | null> {
  return change("decrease", key, amount, options);
}

export function patch(
  key: Text,
  quota: bigint | number,
  options: Once = {},
): Operation<CounterChange | null> {
  return change("patch", key, quota, options);
}

function change(
  name: ChangeName,
  key: Text,
  amount: bigint | number,
  options: Once,
): Operation<CounterChange | null> {
  const value = u64Of(amount, name === "patch" ? "quota" : "amount");
  const read = (reply: CommandReply): CounterChange | null => {
    const counter = counterOf(reply);
    return counter === null ? null : { applied: isApplied(reply), ...counter };
  };
  return onKey(Command.change, key, options, read, (out) => {
    out.u8(Change[name]);
    writeU64(out, value);
  });
}

export function ttl(key: Text, options: TtlOptions): Operation<Remaining | null> {
  objectOf(options, "options", "ttlMs");
  const ttlMs = ttlOf(options.ttlMs, 0);
  const { change: name = "patch" } = options;
  if (typeof name !== "string" || !Object.hasOwn(Change, name)) {
    throw invalid("change", `one of ${Object.keys(Change).join(", ")}`, name);
  }
  return onKey(Command.expire, key, options, remainingOf, (out) => {
    out.u8(Change[name]);
    writeTtl(out, ttlMs);
  });
}

export function purge(key: Text, options: Once = {}): Operation<boolean> {
  return onKey(Command.purge, key, options, isApplied, () => {});
}
