/** Calls to all shards of a namespace. */
import { env } from "cloudflare:workers";
import { describe, expect, it } from "vitest";
import { reportFailure } from "../../src/base/failure.ts";
import type { ShardCalls } from "../../src/base/calls/shard.ts";
import type { Environment } from "../../src/base/environment.ts";
import { ShardGroup } from "../../src/dispatch/shard-group.ts";
import { ShardMap } from "../../src/dispatch/shard-map.ts";
import { shardRows } from "../../src/dispatch/shard-rows.ts";
import type { Placement } from "../../src/wire/batch.ts";
import { ThrottrError } from "../../src/wire/edge/error.ts";
import type { ShardRanges } from "../../src/wire/moved.ts";
import { CIRCLE, isSameRange, WHOLE } from "../../src/wire/range.ts";

/** A group of shards, the first of which refuses all calls. */
function groupOf(shards: number): ShardGroup {
  const map = new ShardMap("n", shards, "");
  map.assumeInitial();
  const stubAt = (from: number): DurableObjectStub<ShardCalls> =>
    ({
      setClockBack: async () => {
        if (from === 0) throw new ThrottrError("shard_data_missing", "nothing was applied");
        return 5;
      },
    }) as unknown as DurableObjectStub<ShardCalls>;
  return new ShardGroup(map, stubAt);
}

/** The code with which a call to all shards fails. */
async function codeOf(group: ShardGroup): Promise<string> {
  const change = group.changeAll(async ({ placement, stub }, noteCall) => {
    noteCall();
    return await stub().setClockBack(placement);
  });
  return await change.then(
    () => "",
    (error: unknown) => reportFailure(error).code,
  );
}

describe("a call that changes something in all shards, and that one shard refuses", () => {
  it("the outcome is unknown where other shards were asked, too", async () => {
    expect(await codeOf(groupOf(4))).toBe("outcome_unknown");
  });

  it("nothing was applied where no other shard was asked", async () => {
    expect(await codeOf(groupOf(1))).toBe("shard_data_missing");
  });
});

describe("a map whose namespace begins while its first shard is asked", () => {
  const begun = { shards: 4, range: { from: 0, to: 2 ** 30 }, begins: [2 ** 30, 2 ** 31] };
  const nothingYet = { shards: 0, range: { from: 0, to: 0 }, begins: [] };

  it("an answer from before does not take back what others have learned meanwhile", async () => {
    const map = new ShardMap("n", 4, "");
    const answer = Promise.withResolvers<ShardRanges>();
    const stub = { ranges: async () => await answer.promise };
    const group = new ShardGroup(map, () => stub as unknown as DurableObjectStub<ShardCalls>);
    const asked = group.findShards();
    map.learn(begun);
    answer.resolve(nothingYet);
    await asked;
    expect(map.nameAt(2 ** 30)).toBe("n/1");
  });

  it("requests that were divided by ranges which are not known any more go to the first shard", () => {
    const map = new ShardMap("n", 4, "");
    map.learn(begun);
    map.learn(nothingYet);
    expect(map.nameAt(2 ** 30)).toBe("n/0");
  });
});

/** A Directory without reports. */
const DIRECTORY = { getByName: () => ({ shardReports: async () => [] }) };

describe("a namespace that has no data where shards were assumed, as after an update from release 0.4.0", () => {
  it.each([
    ["few", 6],
    ["many", 20],
  ])("the list of its shards has each hash once: %s shards", async (_, count) => {
    const map = new ShardMap("n", count, "");
    map.assumeInitial();
    const unborn = { shards: 0, range: { from: 0, to: 0 }, begins: [] };
    const stub = {
      shardState: async ({ range }: Placement) => {
        if (!isSameRange(range!, WHOLE)) throw new ThrottrError("shard_moved", "another range");
        return null;
      },
      ranges: async () => unborn,
    };
    const group = new ShardGroup(map, () => stub as unknown as DurableObjectStub<ShardCalls>);
    const doors = { ...env, DIRECTORY } as unknown as Environment;
    const rows = await shardRows(doors, group);
    expect(rows.map(({ shard, from, to }) => [shard, from, to])).toEqual([["0", 0, CIRCLE]]);
  });
});

it("a map that is forgotten has the ranges that its namespace began with", () => {
  const map = new ShardMap("n", 4, "");
  map.assumeInitial();
  map.learnBegins([1, 2, 3]);
  map.forget();
  expect([...map.ranges.froms]).toEqual([0, 2 ** 30, 2 ** 31, 2 ** 31 + 2 ** 30]);
});
