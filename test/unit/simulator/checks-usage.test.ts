/** Usage that STAT tells: what a client's own requests explain passes, and everything else is found. */
import { describe, expect, it } from "vitest";
import type { Moment } from "../../simulator/checks/history.ts";
import { beforeMs } from "../../simulator/checks/order.ts";
import {
  checkUsage,
  type UsageOperation,
  type UsageOutcome,
  type UsageTerms,
} from "../../simulator/checks/usage.ts";
import { forge, type ForgedCall } from "../../support/simulator/forge.ts";

type Forged = ForgedCall<UsageOperation, UsageOutcome>;

const key = "k";
const ok: UsageOutcome = { success: true };

const call = (
  begunMs: number,
  name: UsageOperation["name"],
  outcome: Forged["outcome"] = ok,
  more: Partial<Forged> = {},
): Forged => ({ begunMs, endedMs: begunMs + 1, operation: { key, name }, outcome, ...more });

const stat = (begunMs: number, reads: number, writes: number, perMinute = 0): Forged =>
  call(begunMs, "stat", {
    success: true,
    usage: { readsPerMinute: perMinute, writesPerMinute: 0, reads, writes },
  });

/** The shard has counted since two moments, in ms: at the earliest, and for certain. */
const since = (earliestMs: number, latestMs: number): Partial<UsageTerms> => ({
  countingSince: () => [beforeMs(earliestMs), beforeMs(latestMs)] as [Moment, Moment],
});

const TERMS: UsageTerms = {
  countingSince: () => [beforeMs(0), beforeMs(0)],
  mayMissReads: () => false,
  mayBeStale: () => false,
};

const judge = (calls: readonly Forged[], terms: Partial<UsageTerms> = {}): string[] =>
  checkUsage(forge(calls), { ...TERMS, ...terms }).map(({ message }) => message);

describe("the usage of a record", () => {
  const used = [call(10, "insert"), call(20, "read"), call(30, "read"), call(40, "write")];

  it("is what was read and written of it", () => {
    expect(judge([...used, stat(50, 2, 2)])).toEqual([]);
    expect(judge([...used, stat(50, 3, 2)])).toEqual([
      expect.stringContaining("told 3 reads, but there were 2 to 2"),
    ]);
    expect(judge([...used, stat(50, 2, 1)])).toEqual([
      expect.stringContaining("told 1 writes, but there were 2 to 2"),
    ]);
  });

  it("does not have requests that were refused or found nothing", () => {
    const more = [call(45, "read", "refused"), call(47, "write", { success: false })];
    expect(judge([...used, ...more, stat(50, 2, 2)])).toEqual([]);
    expect(judge([...used, ...more, stat(50, 3, 3)])).toHaveLength(2);
  });

  it("may have a request of unknown outcome", () => {
    const open = call(45, "read", "unknown", { endedMs: 46, settledMs: 48 });
    expect(judge([...used, open, stat(50, 2, 2)])).toEqual([]);
    expect(judge([...used, open, stat(50, 3, 2)])).toEqual([]);
    expect(judge([...used, open, stat(50, 4, 2)])).toHaveLength(1);
  });

  it("begins anew when the shard starts, and not otherwise", () => {
    expect(judge([...used, stat(50, 1, 1)], since(25, 25))).toEqual([]);
    expect(judge([...used, stat(50, 2, 2)], since(25, 25))).toHaveLength(2);
    expect(judge([...used, stat(50, 0, 1)], since(25, 25))).toHaveLength(1);
    expect(judge([...used, stat(50, 0, 0)], since(0, 45))).toEqual([]);
    expect(judge([...used, stat(50, 2, 2)], since(0, 45))).toEqual([]);
  });

  it("may miss reads where its shard was split, and no writes", () => {
    const mayMissReads = () => true;
    expect(judge([...used, stat(50, 0, 2)], { mayMissReads })).toEqual([]);
    expect(judge([...used, stat(50, 2, 1)], { mayMissReads })).toHaveLength(1);
    expect(judge([...used, stat(50, 3, 2)], { mayMissReads })).toHaveLength(1);
  });

  it("begins anew with another record under the key", () => {
    const again = [...used, call(50, "purge"), call(60, "insert"), call(70, "read")];
    expect(judge([...again, stat(80, 1, 1)])).toEqual([]);
    expect(judge([...again, stat(80, 3, 3)])).toHaveLength(2);
  });

  it("may have a late request that was meant for the record before", () => {
    const late = call(45, "read", "unknown", { endedMs: 46, settledMs: 200 });
    const again = [...used, late, call(50, "purge"), call(60, "insert")];
    expect(judge([...again, stat(80, 1, 1)])).toEqual([]);
    expect(judge([...again, stat(80, 2, 1)])).toHaveLength(1);
  });

  it("is not judged where the record may exist or not", () => {
    expect(judge([...used, call(50, "purge", "unknown"), stat(60, 9, 9)])).toEqual([]);
  });

  it("is not judged by an old copy of the shard, nor has what that was asked", () => {
    const isRead = {
      mayBeStale: (_: string, { operation }: { operation: UsageOperation }) =>
        operation.name === "read",
    };
    expect(judge([...used, stat(50, 0, 2)], isRead)).toEqual([]);
    expect(judge([...used, stat(50, 9, 9)], { mayBeStale: () => true })).toEqual([]);
  });

  it("has at most as many reads a minute as in total", () => {
    expect(judge([...used, stat(50, 2, 2, 3)])).toEqual([
      expect.stringContaining("told 3 reads a minute of at most 2"),
    ]);
  });

  it("is there while the record is", () => {
    expect(judge([...used, call(50, "stat", { success: false })])).toEqual([
      expect.stringContaining("found no record"),
    ]);
  });
});
