/** Rows that were written before this test ran: without reservations, and with them. What they say must not change. */
import { describe, expect, it } from "vitest";
import { Engine } from "../../src/engine/engine.ts";
import type { LimitStrategy } from "../../src/wire/edge/limit.ts";
import { settle, type Operation } from "../../src/wire/edge/operation.ts";
import * as operations from "../../src/wire/edge/operations.ts";
import { edgeBatch, partsOf } from "../support/frames/index.ts";

const NOW_MS = 1_700_000_040_000;
const BUCKET = { burst: 1000, rate: 10 } as const;
const STRATEGIES: readonly [string, LimitStrategy][] = [
  ["token", { strategy: "token_bucket", ...BUCKET }],
  ["leaky", { strategy: "leaky_bucket", ...BUCKET }],
  ["gcra", { strategy: "gcra", ...BUCKET }],
  [
    "fixed",
    {
      strategy: "fixed_window",
      quotas: [{ name: "minute", limit: 1000, windowMs: 60_000 }],
    },
  ],
  ["sliding", { strategy: "sliding_window", limit: 1000, windowMs: 60_000 }],
];

/** Of a server without reservations: 300 were charged to each limit. */
const BEFORE =
  "AQAAAEAE5s+LAQAAEgAJAAAYrPB7nZcXGgAAAAAAAABhcGk6dG9rZW4xMnw3MDB8MTcwMDAwMDA0MDAwMDAwMDAwMBIACQAA" +
  "GKzwe52XFxoAAAAAAAAAYXBpOmxlYWt5MzJ8MzAwfDE3MDAwMDAwNDAwMDAwMDAwMDASAAgAABis8HudlxcWAAAAAAAAAGFw" +
  "aTpnY3JhNDJ8MTcwMDAwMDA3MDAwMDAwMDAwMBIACQAASL5fTZ2XFyMAAAAAAAAAYXBpOmZpeGVkMjN8MXxtaW51dGV8MzAw" +
  "fDE3MDAwMDAwNDAwMDAwMDAwMDASAAsAAEDodiOdlxccAAAAAAAAAGFwaTpzbGlkaW5nNjF8MzAwfDB8MTcwMDAwMDA0MDAw" +
  "MDAwMDAwMA==";
/** 300 were reserved on each limit, then 200, and 50 charged 10 s later. */
const RESERVED =
  "AQAAAFAr5s+LAQAADgUZAACQqBec65cXOgAAAAAAAAANnI9Sag5NXJ0rP2ocfotAYXBpOnRva2VuAAAAAADAckAAAAAAAADw" +
  "vwAAAAAAAPA/AAAAAAAAAAAxMnw3MDB8MTcwMDAwMDA0MDAwMDAwMDAwMA4FGQAAkKgXnOuXFzoAAAAAAAAAa6e4EJ2tQdGA" +
  "tADAT9QwyGFwaTp0b2tlbgAAAAAAAGlAAAAAAAAA8L8AAAAAAADwPwAAAAAAAPA/MTJ8NTAwfDE3MDAwMDAwNDAwMDAwMDAw" +
  "MDAOBRkAAJCoF5zrlxc6AAAAAAAAAA2cj1JqDk1cnSs/ahx+i0BhcGk6bGVha3kAAAAAAMByQAAAAAAAAPC/AAAAAAAAAEAA" +
  "AAAAAAAAADMyfDMwMHwxNzAwMDAwMDQwMDAwMDAwMDAwDgUZAACQqBec65cXOgAAAAAAAABrp7gQna1B0YC0AMBP1DDIYXBp" +
  "OmxlYWt5AAAAAAAAaUAAAAAAAADwvwAAAAAAAABAAAAAAAAA8D8zMnw1MDB8MTcwMDAwMDA0MDAwMDAwMDAwMA4FGAAAkKgX" +
  "nOuXFzYAAAAAAAAADZyPUmoOTVydKz9qHH6LQGFwaTpnY3JhAAAAAADAckAAAAAAAADwvwAAAAAAAAhAAAAAAAAAAAA0Mnwx" +
  "NzAwMDAwMDcwMDAwMDAwMDAwDgUYAACQqBec65cXNgAAAAAAAABrp7gQna1B0YC0AMBP1DDIYXBpOmdjcmEAAAAAAABpQAAA" +
  "AAAAAPC/AAAAAAAACEAAAAAAAADwPzQyfDE3MDAwMDAwOTAwMDAwMDAwMDAOBRkAAJCoF5zrlxdDAAAAAAAAAA2cj1JqDk1c" +
  "nSs/ahx+i0BhcGk6Zml4ZWQAAAAAAMByQAAAAAAAAPC/AAAAAAAAEEAAAAAAAAAAADIzfDF8bWludXRlfDMwMHwxNzAwMDAw" +
  "MDQwMDAwMDAwMDAwDgUZAACQqBec65cXQwAAAAAAAABrp7gQna1B0YC0AMBP1DDIYXBpOmZpeGVkAAAAAAAAaUAAAAAAAADw" +
  "vwAAAAAAABBAAAAAAAAA8D8yM3wxfG1pbnV0ZXw1MDB8MTcwMDAwMDA0MDAwMDAwMDAwMA4FGwAAkKgXnOuXFzwAAAAAAAAA" +
  "DZyPUmoOTVydKz9qHH6LQGFwaTpzbGlkaW5nAAAAAADAckAAAAAAAADwvwAAAAAAABRAAAAAAAAAAAA2MXwzMDB8MHwxNzAw" +
  "MDAwMDQwMDAwMDAwMDAwDgUbAACQqBec65cXPAAAAAAAAABrp7gQna1B0YC0AMBP1DDIYXBpOnNsaWRpbmcAAAAAAABpQAAA" +
  "AAAAAPC/AAAAAAAAFEAAAAAAAADwPzYxfDUwMHwwfDE3MDAwMDAwNDAwMDAwMDAwMDASAAkAAJCoF5zrlxcaAAAAAAAAAGFw" +
  "aTp0b2tlbjEyfDU1MHwxNzAwMDAwMDUwMDAwMDAwMDAwDgUZAACQqBec65cXOgAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAYXBp" +
  "OnRva2VuAAAAAAAAAAAAAAAAAABpQAAAAAAAAPA/AAAAAAAAAEAxMnw1NTB8MTcwMDAwMDA1MDAwMDAwMDAwMBIACQAAkKgX" +
  "nOuXFxoAAAAAAAAAYXBpOmxlYWt5MzJ8NDUwfDE3MDAwMDAwNTAwMDAwMDAwMDAOBRkAAJCoF5zrlxc6AAAAAAAAAAAAAAAA" +
  "AAAAAAAAAAAAAABhcGk6bGVha3kAAAAAAAAAAAAAAAAAAGlAAAAAAAAAAEAAAAAAAAAAQDMyfDQ1MHwxNzAwMDAwMDUwMDAw" +
  "MDAwMDAwEgAIAACQqBec65cXFgAAAAAAAABhcGk6Z2NyYTQyfDE3MDAwMDAwOTUwMDAwMDAwMDAOBRgAAJCoF5zrlxc2AAAA" +
  "AAAAAAAAAAAAAAAAAAAAAAAAAABhcGk6Z2NyYQAAAAAAAAAAAAAAAAAAaUAAAAAAAAAIQAAAAAAAAABANDJ8MTcwMDAwMDA5" +
  "NTAwMDAwMDAwMBIACQAAkKgXnOuXFyMAAAAAAAAAYXBpOmZpeGVkMjN8MXxtaW51dGV8NTUwfDE3MDAwMDAwNDAwMDAwMDAw" +
  "MDAOBRkAAJCoF5zrlxdDAAAAAAAAAAAAAAAAAAAAAAAAAAAAAABhcGk6Zml4ZWQAAAAAAAAAAAAAAAAAwHJAAAAAAAAAEEAA" +
  "AAAAAAAAQDIzfDF8bWludXRlfDU1MHwxNzAwMDAwMDQwMDAwMDAwMDAwEgALAACQqBec65cXHAAAAAAAAABhcGk6c2xpZGlu" +
  "ZzYxfDU1MHwwfDE3MDAwMDAwNDAwMDAwMDAwMDAOBRsAAJCoF5zrlxc8AAAAAAAAAAAAAAAAAAAAAAAAAAAAAABhcGk6c2xp" +
  "ZGluZwAAAAAAAAAAAAAAAADAckAAAAAAAAAUQAAAAAAAAABANjF8NTUwfDB8MTcwMDAwMDA0MDAwMDAwMDAwMA==";
const FIRST = "0d9c8f52-6a0e-4d5c-9d2b-3f6a1c7e8b40";
const SECOND = "6ba7b810-9dad-41d1-80b4-00c04fd430c8";

/** An engine with a row, which makes calls on one limit at a time. */
function opened(row: string, key: string, strategy: LimitStrategy, nowMs: number) {
  const engine = new Engine({
    hashKey: { low: 3, high: 4 },
    bytesMax: 1 << 22,
    isCounting: false,
  });
  engine.advance(nowMs);
  engine.restore(new Uint8Array(Buffer.from(row, "base64")));
  const limit = { name: "api", key, strategy };
  const call = <Result>(operation: Operation<Result>): Result => {
    const answer = engine.apply(edgeBatch([operation.frame]), nowMs);
    const [settled] = settle([operation], partsOf(answer)[0]!.replies);
    if (!settled!.ok) throw settled!.error;
    return settled!.value;
  };
  return {
    remaining: () => call(operations.peek(limit)).remaining,
    reserve: (cost: number, id: string) => call(operations.reserve({ ...limit, cost, id })),
    settle: (id: string, cost: number) => call(operations.settle({ ...limit, id, cost })),
  };
}

describe.each(STRATEGIES)("stored data of the limit %s", (key, strategy) => {
  it("a limit that a server without reservations has stored can be reserved from", () => {
    const limit = opened(BEFORE, key, strategy, NOW_MS);
    expect(limit.remaining()).toBe(700);
    expect(limit.reserve(600, FIRST)).toMatchObject({ success: true, remaining: 100 });
    expect(limit.settle(FIRST, 100)).toMatchObject({ remaining: 600, settled: 100 });
  });

  it("stored reservations are settled with the rights that they had", () => {
    const limit = opened(RESERVED, key, strategy, NOW_MS + 10_000);
    const isBucket = "rate" in strategy;
    expect(limit.remaining()).toBe(isBucket ? 550 : 450);
    // In the 10 s a bucket has refilled by 100, which the older reservation can't give back any more.
    expect(limit.settle(FIRST, 0)).toMatchObject({ remaining: 750, settled: 0 });
    expect(limit.settle(SECOND, 250)).toMatchObject({ remaining: 700, settled: 250 });
    expect(limit.settle(SECOND, 0)).toMatchObject({ remaining: 700, settled: 250 });
  });
});
