/** Limits that are charged together, through every door, with real shards. */
import { abortAllDurableObjects, reset } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { afterEach, beforeAll, describe, expect, it, vi } from "vitest";
import { readSettings } from "../../src/base/settings.ts";
import { InitialShards } from "../support/shards.ts";
import type { LimitAllEntry } from "../../src/wire/edge/limit-all.ts";
import type { Operation } from "../../src/wire/edge/operation.ts";
import * as operations from "../../src/wire/edge/operations.ts";
import { Keyspace } from "../../src/wire/keyspace.ts";
import type { Shards } from "../../src/wire/shards.ts";
import { refusalOf } from "../support/commands/calls.ts";
import { bytesOf, concat, u16, u32, f64, WHOAMI } from "../support/frames/index.ts";
import { open } from "../support/pool/binding.ts";
import { openPort, openSocket, post, type Door } from "../support/pool/doors.ts";
import { breakJournal, meterOf, shardStub } from "../support/pool/shards.ts";
import { bearerOf } from "../support/pool/tokens.ts";
import { calling, expectProblem } from "../support/pool/v1-calls.ts";

const strategy = { strategy: "token_bucket", burst: 10, rate: 0.001 } as const;
const SHARDS = 4;
const PORT = 9031;

let namespaces = 0;
const freshNamespace = (): string => `limit-all-${namespaces++}`;

beforeAll(() => {
  Object.assign(readSettings(env), { TCP_PORTS: `${PORT}=edge` });
});
afterEach(async () => {
  await reset();
});

/** A limit in a shard of a namespace. */
function inShard(ns: string, shard: number, cost: number): LimitAllEntry {
  const map = new InitialShards(ns, SHARDS, "");
  for (let n = 0; ; n++) {
    const stored = bytesOf(`api:${n}`);
    if (map.shardOf(Keyspace.throttr, stored, 0, stored.length) !== shard) continue;
    return { name: "api", key: String(n), strategy, cost };
  }
}

const inShards = (ns: string, ...costs: readonly number[]): LimitAllEntry[] =>
  costs.map((cost, shard) => inShard(ns, shard, cost));

async function remaining(ns: string, shard: number): Promise<number> {
  const { name, key } = inShard(ns, shard, 1);
  const binding = open(ns);
  return (await binding.peek({ name, key, strategy })).remaining;
}

const remainders = async (ns: string, count = 3): Promise<number[]> =>
  await Promise.all(Array.from({ length: count }, (_, shard) => remaining(ns, shard)));

/** Sends operations one at a time. */
interface Sender {
  send<Result>(operation: Operation<Result>): Promise<Result>;
  close(): Promise<void>;
}

/** Over a connection: replies come in any pieces. */
const senderOver = (door: Door): Sender => ({
  async send({ frame, read }) {
    const header = await door.exchange(frame, 5);
    const size = new DataView(header.buffer, header.byteOffset).getUint32(1, true);
    return read(concat([header, await door.exchange(new Uint8Array(0), size)]));
  },
  close: () => door.close(),
});

const OPEN: Readonly<Record<string, (ns: string) => Promise<Sender>>> = {
  HTTP: async (ns) => {
    const headers = await bearerOf({ ns });
    return {
      async send({ frame, read }) {
        const response = await post("edge", "", frame, headers);
        expect(response.status).toBe(200);
        return read(new Uint8Array(await response.arrayBuffer()));
      },
      close: async () => {},
    };
  },
  WebSocket: async (ns) => senderOver(await openSocket("/throttr/edge", await bearerOf({ ns }))),
  "a binding": async (ns) => {
    const binding = open(ns);
    return {
      send: async ({ frame, read }) => read(await binding.exchange(frame)),
      close: async () => {},
    };
  },
};

describe.each(Object.entries(OPEN))("limits of three shards over %s", (_, open) => {
  it("limits are charged together, or given back where one refuses", async () => {
    const ns = freshNamespace();
    const door = await open(ns);
    const granted = await door.send(operations.limitAll({ requests: inShards(ns, 1, 2, 3) }));
    expect(granted).toMatchObject({
      success: true,
      refusedBy: null,
      retryAfterMs: 0,
      results: [{ remaining: 9 }, { remaining: 8 }, { remaining: 7 }],
    });
    expect(await remainders(ns)).toEqual([9, 8, 7]);
    const refused = await door.send(operations.limitAll({ requests: inShards(ns, 4, 9, 4) }));
    expect(refused).toMatchObject({ success: false, refusedBy: 1 });
    expect(refused.results.map(({ success }) => success)).toEqual([true, false, true]);
    expect(await remainders(ns)).toEqual([9, 8, 7]);
    await door.close();
  });
});

it("limits are charged together over TCP", async () => {
  const door = senderOver(await openPort(PORT));
  const requests = ["a", "b", "c"].map((key) => ({ name: "tcp", key, strategy, cost: 6 }));
  expect(await door.send(operations.limitAll({ requests }))).toMatchObject({ success: true });
  expect(await door.send(operations.limitAll({ requests }))).toMatchObject({ refusedBy: 0 });
  await door.close();
});

it("limits are charged together by a call of a binding, and errors have their codes", async () => {
  const ns = freshNamespace();
  const binding = open(ns);
  expect(await binding.limitAll({ requests: inShards(ns, 1, 2) })).toMatchObject({ success: true });
  expect(await refusalOf(binding.limitAll({ requests: [] }))).toMatch(/^limit_all_invalid: /);
  const [first, second] = inShards(ns, 1, 1);
  const { name, key } = second!;
  await binding.reset({ name, key, strategy });
  await binding.set(`${name}:${key}`, "hello", { ttlMs: 60_000 });
  expect(await refusalOf(binding.limitAll({ requests: [first!, second!] }))).toMatch(
    /^state_invalid: the buffer under "api:/,
  );
  expect(await remaining(ns, 0)).toBe(9);
});

describe("rights", () => {
  it("each key needs a prefix of the token, and nothing is charged where one lacks it", async () => {
    const ns = freshNamespace();
    const own = { name: "own", key: "a", strategy };
    const other = { name: "other", key: "a", strategy };
    const headers = await bearerOf({ ns, keyPrefixes: ["own:"] });
    const call = calling(headers);
    const url = "/v1/limit-all";
    expectProblem(await call("POST", url, { json: { requests: [own, other] } }), "prefix_missing");
    const door = await openSocket("/throttr/edge", headers);
    const { frame } = operations.limitAll({ requests: [own, other] });
    const replies = await door.exchange(concat([frame, WHOAMI]), 24);
    expect(replies[0]).toBe(2);
    expect(new TextDecoder().decode(replies.subarray(5))).toMatch(/^prefix_missing: LI/);
    await door.close();
    const bound = open(ns, { keyPrefixes: ["own:"] });
    expect(await refusalOf(bound.limitAll({ requests: [own, other] }))).toMatch(
      /^prefix_missing: /,
    );
    expect(await bound.limitAll({ requests: [own] })).toMatchObject({
      success: true,
      results: [{ remaining: 9 }],
    });
  });

  it("charging limits together needs the scope write", async () => {
    const ns = freshNamespace();
    const reader = open(ns, { scopes: ["read", "admin"] });
    expect(await refusalOf(reader.limitAll({ requests: inShards(ns, 1) }))).toBe(
      "scope_missing: LIMIT_ALL needs the scope write",
    );
  });
});

describe("what callers can get wrong", () => {
  it("a command with a key of its own, flags or a body that is cut short is refused alone", async () => {
    const ns = freshNamespace();
    const door = await openSocket("/throttr/edge", await bearerOf({ ns }));
    const whole = operations.limitAll({ requests: inShards(ns, 1) }).frame;
    const body = whole.slice(7);
    const commandOf = (flags: number, key: string, bytes: Uint8Array): Uint8Array =>
      concat([Uint8Array.of(0x39, flags, key.length), u32(bytes.length), bytesOf(key), bytes]);
    const codeOf = async (frame: Uint8Array): Promise<string> => {
      const header = await door.exchange(frame, 5);
      const size = new DataView(header.buffer, header.byteOffset).getUint32(1, true);
      const text = new TextDecoder().decode(await door.exchange(new Uint8Array(0), size));
      return text.split(":")[0]!;
    };
    expect(await codeOf(commandOf(0, "k", body))).toBe("key_invalid");
    expect(await codeOf(commandOf(1, "", body))).toBe("flags_invalid");
    expect(await codeOf(commandOf(0, "", body.slice(0, -1)))).toBe("limit_all_invalid");
    const unknown = concat([
      Uint8Array.of(1, 0, 1, 0x6b),
      f64(1),
      Uint8Array.of(0),
      u16(1),
      Uint8Array.of(99),
    ]);
    expect(await codeOf(commandOf(0, "", unknown))).toBe("configuration_invalid");
    expect((await door.exchange(WHOAMI, 17))[0]).toBe(1);
    await door.close();
  });
});

describe("durability", () => {
  it("what was granted, and what was given back, is on disk in every shard when it is answered", async () => {
    const ns = freshNamespace();
    const binding = open(ns);
    await binding.limitAll({ requests: inShards(ns, 1, 2, 3) });
    await abortAllDurableObjects();
    expect(await remainders(ns)).toEqual([9, 8, 7]);
    expect(await binding.limitAll({ requests: inShards(ns, 4, 9, 4) })).toMatchObject({
      refusedBy: 1,
    });
    await abortAllDurableObjects();
    expect(await remainders(ns)).toEqual([9, 8, 7]);
  });

  it("a shard that can't write makes the outcome unknown, and the others give back", async () => {
    const ns = freshNamespace();
    const binding = open(ns);
    await binding.limitAll({ requests: inShards(ns, 1, 1, 1) });
    await breakJournal(shardStub(1, ns));
    expect(await refusalOf(binding.limitAll({ requests: inShards(ns, 2, 2, 2) }))).toMatch(
      /^outcome_unknown: /,
    );
    expect(await remainders(ns)).toEqual([9, 9, 9]);
  });

  it.each([
    ["one shard", 1, 1, 0],
    ["three shards", 3, 3, 4],
  ])(
    "limits of %s are a row for each shard, and a refusal two for each that had charged",
    async (_, count, granted, refused) => {
      const ns = freshNamespace();
      const binding = open(ns);
      const ask = async (...costs: number[]): Promise<boolean> =>
        (await binding.limitAll({ requests: inShards(ns, ...costs.slice(0, count)) })).success;
      expect(await ask(1, 1, 1)).toBe(true);
      const meters = await Promise.all(
        Array.from({ length: SHARDS }, (_shard, shard) => meterOf(shardStub(shard, ns))),
      );
      const rows = (): number => meters.reduce((sum, meter) => sum + meter.rows, 0);
      expect(await ask(1, 1, 1)).toBe(true);
      expect(rows()).toBe(granted);
      expect(await ask(9, 1, 1)).toBe(false);
      expect(rows()).toBe(granted + refused);
      expect(meters.map(({ alarms }) => alarms)).toEqual([0, 0, 0, 0]);
    },
  );

  it("calls of limits together count as calls of their shards, which split under load", async () => {
    const ns = freshNamespace();
    const nowMs = Date.now();
    const clock = vi.spyOn(Date, "now").mockImplementation(() => nowMs);
    for (let i = 0; i < 10; i++) await open(ns).limitAll({ requests: inShards(ns, 1, 1) });
    clock.mockImplementation(() => nowMs + 5000);
    const call = calling(await bearerOf({ ns }));
    const { shards } = (await call("GET", "/v1/shards")).json as unknown as Shards;
    clock.mockRestore();
    expect(shards.map(({ callsPerSecond }) => callsPerSecond)).toEqual([2, 2, 0, 0]);
  });
});
