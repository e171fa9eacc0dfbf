/** What a Hub knows of shards, while it sleeps. */
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { ShardMap } from "../../src/dispatch/shard-map.ts";
import { MAP_STORE_MS } from "../../src/engine/sizes.ts";
import { StoredMap } from "../../src/objects/hub/stored-map.ts";
import { CIRCLE, initialFroms, WHOLE } from "../../src/wire/range.ts";

const newMap = (): ShardMap => new ShardMap("stored", 1, "");

/** Storage that outlives the instances of a Hub. */
class Store {
  readonly values = new Map<string, unknown>();
  puts = 0;

  get(key: string): unknown {
    return structuredClone(this.values.get(key));
  }

  put(key: string, value: unknown): void {
    this.puts++;
    this.values.set(key, structuredClone(value));
  }
}

/** A Hub that starts, and what it knows. */
function started(store: Store, map = newMap()): { map: ShardMap; stored: StoredMap } {
  const stored = new StoredMap("stored/XXX/0", map, store);
  stored.load();
  return { map, stored };
}

describe("the map of a Hub that sleeps", () => {
  beforeEach(() => {
    vi.useFakeTimers();
  });
  afterEach(() => {
    vi.useRealTimers();
  });

  it("a Hub that wakes up knows the ranges that it knew before", () => {
    const store = new Store();
    const { map, stored } = started(store);
    map.learn({ shards: 2, range: { from: 0, to: 1000 }, begins: [1000, CIRCLE / 2] });
    stored.note();
    const woken = started(store).map;
    expect(woken.shards).toBe(2);
    expect([...woken.ranges.froms]).toEqual([0, 1000, CIRCLE / 2]);
    expect(woken.nameAt(1000)).toBe("stored/000003e8");
  });

  it("a map is stored once a minute at most, with all that has become known, and not while nothing has", () => {
    const store = new Store();
    const { map, stored } = started(store);
    for (const [i, at] of [1000, 2000, 3000].entries()) {
      map.learn({ shards: 1, range: { from: 0, to: at }, begins: [at] });
      stored.note();
      expect(store.puts).toBe(1);
      vi.advanceTimersByTime(i);
    }
    vi.advanceTimersByTime(MAP_STORE_MS);
    stored.note();
    vi.advanceTimersByTime(MAP_STORE_MS);
    stored.note();
    expect(store.puts).toBe(2);
    expect([...started(store).map.ranges.froms]).toEqual([0, 1000, 2000, 3000]);
  });

  it("a namespace of one shard costs no row", () => {
    const store = new Store();
    const { map, stored } = started(store);
    map.learn({ shards: 1, range: WHOLE, begins: [] });
    stored.note();
    expect(store.puts).toBe(0);
  });

  it("what an isolate knows already is not mixed with what was stored", () => {
    const store = new Store();
    const { map, stored } = started(store);
    map.learn({ shards: 1, range: { from: 0, to: 1000 }, begins: [1000] });
    stored.note();
    const known = newMap();
    known.learn({ shards: 4, range: { from: 0, to: CIRCLE / 4 }, begins: initialFroms(4) });
    expect([...started(store, known).map.ranges.froms]).toEqual(initialFroms(4));
  });

  it("a full disk does not stop the Hub", () => {
    const warn = vi.spyOn(console, "warn").mockImplementation(() => {});
    const store = new Store();
    const { map, stored } = started(store);
    store.put = () => {
      throw new Error("disk full");
    };
    map.learn({ shards: 1, range: { from: 0, to: 1000 }, begins: [1000] });
    expect(() => stored.note()).not.toThrow();
    expect(warn).toHaveBeenCalledTimes(1);
    warn.mockRestore();
  });
});
