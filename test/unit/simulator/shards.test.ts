/** Where keys of a simulated run are. */
import { describe, expect, it } from "vitest";
import { Keyspace } from "../../../src/wire/keyspace.ts";
import { planOf } from "../../simulator/campaign/plan.ts";
import { Facts } from "../../simulator/checks/facts.ts";
import { splitsOf } from "../../simulator/workloads/shards.ts";
import { InitialShards } from "../../support/shards.ts";

const plan = { ...planOf(1), variables: { SHARDS: "1" } };
const shard = "Shard default/0";
const moment = (ms: number) => ({ tick: ms, ms });
const keyed = ["a", "b", "c"]
  .map((text) => new TextEncoder().encode(text))
  .map((key) => ({ key, hash: hashOf(key) }))
  .toSorted((a, b) => a.hash - b.hash);
const [low, middle, high] = keyed.map(({ hash }) => hash) as [number, number, number];

function hashOf(key: Uint8Array): number {
  return new InitialShards("default", 1, "").hashOf(Keyspace.throttr, key, 0, key.length);
}

/** Whether the first two keys, or all three, are parted at 10 ms by a shard that begins with a hash and starts at `startMs`. */
function areParted(from: number, startMs: number, count = 2): boolean {
  const facts = new Facts();
  const name = `Shard default/${from.toString(16).padStart(8, "0")}`;
  facts.addLife(shard, { begun: moment(0), ended: null, isReset: false });
  facts.addLife(name, { begun: moment(startMs), ended: null, isReset: false });
  facts.addMember(shard, name);
  const keys = keyed.slice(0, count).map(({ key }) => key);
  return splitsOf(plan, facts)(Keyspace.throttr, keys.toReversed(), moment(10));
}

describe("keys that one shard had at first", () => {
  it("are parted by a shard that begins behind the first of them, and not behind the last", () => {
    expect(areParted(low, 5)).toBe(false);
    expect(areParted(low + 1, 5)).toBe(true);
    expect(areParted(middle, 5)).toBe(true);
    expect(areParted(middle + 1, 5)).toBe(false);
    expect(areParted(high, 5, 3)).toBe(true);
  });

  it("are together until the new shard starts", () => {
    expect(areParted(middle, 9)).toBe(true);
    expect(areParted(middle, 11)).toBe(false);
  });
});
