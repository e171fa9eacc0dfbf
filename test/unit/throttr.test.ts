/** The Throttr requests, request by request: what replies say of time and of quotas. */
import { describe, expect, it } from "vitest";
import { Engine } from "../../src/engine/engine.ts";
import {
  batchOf,
  frameOf,
  hex,
  pairFrame,
  type PairRequest,
  partsOf,
} from "../support/frames/index.ts";
import type { ModelProtocol, ModelRequest } from "../support/models/requests.ts";

const U16: ModelProtocol = { dialect: "7.3", valueSize: 2 };
const NOW_MS = 1_800_000_000_000;
const SECONDS = 4;

function newEngine(): Engine {
  return new Engine({ hashKey: { low: 1, high: 2 }, bytesMax: 1 << 20, isCounting: true });
}

/** The replies to frames that are executed at a time, all of them in hex. */
function repliesTo(
  engine: Engine,
  protocol: ModelProtocol,
  requests: ModelRequest[],
  nowMs: number,
): string {
  const frames = requests.map((request) => frameOf(protocol, request));
  const [part] = partsOf(engine.apply(batchOf([{ protocol, frames }]), nowMs));
  return hex(part!.replies);
}

/** The replies to requests of dialect 2, in hex, each without its request id. */
function pairReplies(engine: Engine, requests: PairRequest[]): string[] {
  return requests.map((request) => {
    const frames = [pairFrame(7, request)];
    const batch = batchOf([{ protocol: { dialect: "2", valueSize: 8 }, frames }]);
    return hex(partsOf(engine.apply(batch, NOW_MS))[0]!.replies.subarray(4));
  });
}

describe("the TTL that a reply reports", () => {
  const insert: ModelRequest = { type: "insert", key: "k", quota: 9n, ttlType: SECONDS, ttl: 60n };
  const query: ModelRequest = { type: "query", key: "k" };
  const value = Uint8Array.of(7);

  it("a reply's TTL is one less than the record's within the millisecond of INSERT, in whole units", () => {
    const engine = newEngine();
    expect(repliesTo(engine, U16, [insert, query], NOW_MS)).toBe("01" + "010900043b00");
    expect(repliesTo(engine, U16, [query], NOW_MS + 1)).toBe("010900043b00");
    expect(repliesTo(engine, U16, [query], NOW_MS + 1000)).toBe("010900043a00");
    expect(repliesTo(engine, U16, [query], NOW_MS + 59_999)).toBe("010900040000");
  });

  it("a reply's TTL is one less than the record's within the millisecond of a patched or increased TTL", () => {
    const engine = newEngine();
    const update = (change: number): ModelRequest => {
      return { type: "update", key: "k", attribute: 1, change, value: 30n };
    };
    expect(repliesTo(engine, U16, [insert, update(0), query], NOW_MS)).toBe("0101010900041d00");
    expect(repliesTo(engine, U16, [update(1), query], NOW_MS)).toBe("01010900043b00");
  });

  it("a reply's TTL is one less than the record's within the millisecond of SET", () => {
    const set: ModelRequest = { type: "set", key: "b", ttlType: SECONDS, ttl: 60n, value };
    const get: ModelRequest = { type: "get", key: "b" };
    expect(repliesTo(newEngine(), U16, [set, get], NOW_MS)).toBe("01" + "01043b00010007");
  });

  it("a reply's TTL is one less than the pair's within the millisecond of INSERT in dialect 2", () => {
    const pair = ["c", "r"] as const;
    const replies = pairReplies(newEngine(), [
      { type: "insert", pair, quota: 9n, ttlType: 2, ttl: 60n },
      { type: "query", pair },
    ]);
    expect(replies).toEqual(["01", "01" + "0900000000000000" + "02" + "3b00000000000000"]);
  });
});

describe("DECREASE below zero", () => {
  it("DECREASE below zero succeeds in dialect 2 and leaves a quota of 0", () => {
    const pair = ["c", "r"] as const;
    const update = (change: number, amount: bigint): PairRequest => {
      return { type: "update", pair, attribute: 0, change, value: amount };
    };
    const query: PairRequest = { type: "query", pair };
    const [, decreased, , again, found] = pairReplies(newEngine(), [
      { type: "insert", pair, quota: 5n, ttlType: 2, ttl: 60n },
      update(2, 6n),
      query,
      update(2, 2n ** 64n - 1n),
      query,
    ]);
    expect([decreased, again]).toEqual(["01", "01"]);
    expect(found!.slice(0, 18)).toBe("01" + "0000000000000000");
  });

  it("DECREASE below zero is refused in dialect 7.3 and changes nothing", () => {
    const requests: ModelRequest[] = [
      { type: "insert", key: "k", quota: 5n, ttlType: SECONDS, ttl: 60n },
      { type: "update", key: "k", attribute: 0, change: 2, value: 6n },
      { type: "query", key: "k" },
    ];
    expect(repliesTo(newEngine(), U16, requests, NOW_MS)).toBe("01" + "00" + "010500043b00");
  });
});
