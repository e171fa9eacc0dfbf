/** Pages whose records are removed in the last turn of their walk: they must say where the next page begins. */
import { describe, expect, it } from "vitest";
import { Engine } from "../../src/engine/engine.ts";
import type { Steps } from "../../src/engine/walk.ts";
import { Keyspace } from "../../src/wire/keyspace.ts";
import { PageReader } from "../../src/wire/page.ts";
import { bytesOf, edgeBatch, FOREVER, insert, purge } from "../support/frames/index.ts";

const NOW_MS = 1_700_000_000_000;
const ALL = { keyspace: Keyspace.throttr, prefix: new Uint8Array(0), prefixes: [] };
const LIST = { rows: "list", valueSize: 8, keyspace: Keyspace.throttr, prefixes: [] } as const;

/** An engine with the counters `a`, `b` and `c`. */
function engineOf(): Engine {
  const hashKey = { low: 1, high: 2 };
  const engine = new Engine({ hashKey, bytesMax: 1 << 22, isCounting: true });
  const names = ["a", "b", "c"];
  engine.apply(edgeBatch(names.map((name) => insert(name, 1n, FOREVER))), NOW_MS);
  return engine;
}

/** The keys of a page, with something that happens in the last turn of its walk. */
function keysOf(steps: Steps<Uint8Array>, inLastTurn: () => void): string[] {
  expect(steps.next().done).toBe(false);
  inLastTurn();
  let step = steps.next();
  while (step.done !== true) step = steps.next();
  const page = new PageReader(step.value);
  const keys: string[] = [];
  while (page.next()) keys.push(new TextDecoder().decode(page.key()));
  return keys;
}

describe("a page whose records are gone in the last turn of its walk", () => {
  it.each<[string, (engine: Engine) => Steps<Uint8Array>]>([
    ["a page of SCAN", ({ scan }) => scan.page(ALL, null, 1)],
    ["a page of LIST", ({ listing }) => listing.page(LIST, null, 20, 100)],
  ])("%s has the records behind them", (_, pageOf) => {
    const engine = engineOf();
    const remove = (): void => void engine.apply(edgeBatch([purge("a")]), NOW_MS);
    expect(keysOf(pageOf(engine), remove)).toEqual(["b"]);
  });

  it("the last page may be empty", () => {
    const engine = engineOf();
    const remove = (): void => void engine.apply(edgeBatch([purge("c")]), NOW_MS);
    expect(keysOf(engine.scan.page(ALL, bytesOf("b"), 1), remove)).toEqual([]);
  });
});
