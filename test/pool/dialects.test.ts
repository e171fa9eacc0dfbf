/** The dialects 7.1, 5 and 2 to the letter of their texts. */
import { reset } from "cloudflare:test";
import { exports } from "cloudflare:workers";
import fc from "fast-check";
import { afterEach, describe, expect, inject, it } from "vitest";
import {
  bytesOf,
  concat,
  hex,
  type Pair,
  pairFrame,
  type PairRequest,
} from "../support/frames/index.ts";
import { U64_MAX } from "../support/models/values.ts";
import { PairModel, type PairReply } from "../support/models/pairs.ts";
import {
  Inbox,
  openHttp,
  openPort,
  openSocket,
  openWebSocket,
  post,
  type Door,
} from "../support/pool/doors.ts";
import { awayFromTurnOfMinute } from "../support/pool/minutes.ts";
import {
  bytesOfHex,
  hexUint,
  paddedText,
  replyOf,
  rowsOf,
  u16At,
  u32At,
  u64At,
} from "../support/pool/reading.ts";
import { bearerOf } from "../support/pool/tokens.ts";

const server = exports.default as unknown as Fetcher;
const seed = inject("seed");
const NOTHING = new Uint8Array();

/** INSERT of 5 for 30 hours, and of the buffer "xyz" for as long, in 7.1 with uint16. */
const INSERT_A = "01 0500 06 1e00 01 61";
const SET_BB = "05 06 1e00 02 03 6262 78797a";
const HOURS_30_NS = 30n * 3_600_000_000_000n;
const nowNs = (): bigint => BigInt(Date.now()) * 1_000_000n;

afterEach(async () => {
  await reset();
});

async function expectProblem(response: Response, status: number, code: string): Promise<void> {
  expect(await response.json()).toMatchObject({ status, code });
  expect(response.status).toBe(status);
}

/** Everything that has come without being asked for. */
const unasked = async (door: Door): Promise<string> => hex(await door.exchange(NOTHING, 0));

async function whoami71(door: Door): Promise<string> {
  return hex(await replyOf(door, "18", 16));
}

describe.each([
  ["HTTP", openHttp],
  ["WebSocket", openWebSocket],
])("7.1 over %s", (doorName, open) => {
  const connections = doorName === "HTTP" ? 0 : 1;

  it.each([
    ["uint8", 1],
    ["uint16", 2],
    ["uint32", 4],
    ["uint64", 8],
  ])(
    "in 7.1 SET has a value size of one byte in %s, and GET one of the value size",
    async (size, n) => {
      const door = await open("7.1", size);
      const value = "5a".repeat(255);
      const ttl = hexUint(30, n);
      expect(hex(await replyOf(door, `05 06 ${ttl} 02 03 6262 78797a`, 1))).toBe("01");
      expect(hex(await replyOf(door, `05 06 ${ttl} 01 ff 62 ${value}`, 1))).toBe("01");
      expect(hex(await replyOf(door, `05 06 ${ttl} 01 00 63`, 1))).toBe("01");
      const found = hex(await replyOf(door, "06 02 6262", 2 + 2 * n + 3));
      expect(found).toMatch(
        new RegExp(`^0106(${hexUint(29, n)}|${hexUint(30, n)})${hexUint(3, n)}78797a$`),
      );
      const large = hex(await replyOf(door, "06 01 62", 2 + 2 * n + 255));
      expect(large.slice(-2 * (n + 255))).toBe(hexUint(255, n) + value);
      const empty = hex(await replyOf(door, "06 01 63", 2 + 2 * n));
      expect(empty.slice(-2 * n)).toBe(hexUint(0, n));
      expect(await unasked(door)).toBe("");
      await door.close();
    },
  );

  it("counters of 7.1 have the same bytes as in 7.3", async () => {
    const door = await open("7.1", "uint16");
    expect(hex(await replyOf(door, INSERT_A, 1))).toBe("01");
    expect(hex(await replyOf(door, INSERT_A, 1))).toBe("00");
    expect(hex(await replyOf(door, "03 00 01 0200 01 61", 1))).toBe("01");
    expect(hex(await replyOf(door, "02 01 61", 6))).toMatch(/^01070006(1d|1e)00$/);
    expect(hex(await replyOf(door, "04 01 61", 1))).toBe("01");
    expect(hex(await replyOf(door, "02 01 61", 1))).toBe("00");
    expect(await unasked(door)).toBe("");
    await door.close();
  });

  it("LIST of 7.1 has no status", async () => {
    const door = await open("7.1", "uint16");
    expect(hex(await replyOf(door, "07", 8))).toBe("0000000000000000");
    const before = nowNs();
    await replyOf(door, SET_BB + INSERT_A, 2);
    const after = nowNs();
    const reply = await replyOf(door, "07", 8 + 16 + 2 * 13 + 3);
    expect(u64At(reply, 0)).toBe(1n);
    const [a, bb] = rowsOf(reply, 13, true);
    expect([a!.name, bb!.name]).toEqual(["a", "bb"]);
    for (const [row, keySize, kind, bytesUsed] of [
      [a!.bytes, 1, 0, 2],
      [bb!.bytes, 2, 1, 3],
    ] as const) {
      expect([...row.subarray(0, 3)]).toEqual([keySize, kind, 6]);
      expect(u64At(row, 3)).toBeGreaterThanOrEqual(before + HOURS_30_NS);
      expect(u64At(row, 3)).toBeLessThanOrEqual(after + HOURS_30_NS);
      expect(u16At(row, 11)).toBe(bytesUsed);
    }
    expect(await unasked(door)).toBe("");
    await door.close();
  });

  it.each([
    ["uint8", 1],
    ["uint32", 4],
    ["uint64", 8],
  ])("LIST of 7.1 in %s has rows of 11 bytes and the value size", async (size, n) => {
    const door = await open("7.1", size);
    await replyOf(door, `01 ${hexUint(5, n)} 06 ${hexUint(30, n)} 01 61`, 1);
    const reply = await replyOf(door, "07", 8 + 16 + 11 + n + 1);
    const [row] = rowsOf(reply, 11 + n, true);
    expect(row!.name).toBe("a");
    expect(hex(row!.bytes.subarray(11))).toBe(hexUint(n, n));
    await door.close();
  });

  it("STATS of 7.1 has no status", async () => {
    await awayFromTurnOfMinute();
    const door = await open("7.1", "uint16");
    expect(hex(await replyOf(door, "10", 8))).toBe("0000000000000000");
    await replyOf(door, INSERT_A + SET_BB, 2);
    await replyOf(door, "02 01 61 02 01 61", 12);
    const rows = rowsOf(await replyOf(door, "10", 8 + 16 + 2 * 33 + 3), 33, true);
    expect(rows.map(({ name }) => name)).toEqual(["a", "bb"]);
    expect(rows.map(({ bytes }) => [1, 9, 17, 25].map((at) => u64At(bytes, at)))).toEqual([
      [0n, 0n, 0n, 0n],
      [0n, 0n, 0n, 0n],
    ]);
    expect(await unasked(door)).toBe("");
    await door.close();
  });

  it("STAT of 7.1 has a status", async () => {
    await awayFromTurnOfMinute();
    const door = await open("7.1", "uint16");
    expect(hex(await replyOf(door, "09 01 61", 1))).toBe("00");
    await replyOf(door, INSERT_A, 1);
    expect(hex(await replyOf(door, "09 01 61", 33))).toBe("01" + "00".repeat(32));
    await door.close();
  });

  it("INFO of 7.1 is 432 bytes, without a status", async () => {
    const door = await open("7.1", "uint16");
    await replyOf(door, INSERT_A + SET_BB, 2);
    const info = await replyOf(door, "08", 432);
    expect(Math.abs(Number(u64At(info, 0)) - Date.now() / 1000)).toBeLessThan(2);
    expect(u64At(info, 8 * 3)).toBe(1n);
    expect([43, 44, 45, 46, 47].map((i) => u64At(info, 8 * i))).toEqual([2n, 1n, 1n, 2n, 3n]);
    expect(u64At(info, 8 * 51)).toBe(BigInt(connections));
    expect(paddedText(info, 416, 16)).not.toBe("");
    expect(await unasked(door)).toBe("");
    await door.close();
  });

  it("CONNECTIONS of 7.1 has rows of 235 bytes, without type, kind and status", async () => {
    const door = await open("7.1", "uint16");
    if (connections === 0) expect(hex(await replyOf(door, "14", 8))).toBe("0000000000000000");
    const address = { "cf-connecting-ip": "203.0.113.7" };
    const before = nowNs();
    const other = await openSocket("/throttr/7.1/uint16", address);
    const id = await whoami71(other);
    const after = nowNs();
    const count = connections + 1;
    const rows = rowsOf(await replyOf(door, "14", 8 + 16 + count * 235), 235, false);
    expect(rows).toHaveLength(count);
    const { bytes } = rows.find((row) => hex(row.bytes.subarray(0, 16)) === id)!;
    expect(bytes[16]).toBe(4);
    expect(paddedText(bytes, 17, 16)).toBe("203.0.113.7");
    expect(u64At(bytes, 35)).toBeGreaterThanOrEqual(before - 1_000_000n);
    expect(u64At(bytes, 35)).toBeLessThanOrEqual(after + 1_000_000n);
    expect(u64At(bytes, 43)).toBe(1n);
    expect(u64At(bytes, 51)).toBe(16n);
    // Requests by type: insert first, whoami last.
    const requests = Array.from({ length: 18 }, (_, i) => u64At(bytes, 91 + 8 * i));
    expect(requests).toEqual([...Array.from({ length: 17 }, () => 0n), 1n]);
    expect(await unasked(door)).toBe("");
    await other.close();
    await door.close();
  });

  it("CONNECTION of 7.1 asks by the position in CONNECTIONS", async () => {
    const door = await open("7.1", "uint16");
    const others = [];
    // Nine rows of 235 do not fit the 2,048 bytes of a fragment.
    for (let i = connections; i < 9; i++) others.push(await openSocket("/throttr/7.1/uint16"));
    const connectionIds = await Promise.all(others.map(whoami71));
    if (connections === 1) connectionIds.push(await whoami71(door));
    const all = await replyOf(door, "14", 8 + 2 * 16 + 9 * 235);
    expect([u64At(all, 0), u64At(all, 8), u64At(all, 16)]).toEqual([2n, 1n, 8n]);
    const rows = rowsOf(all, 235, false);
    const order = rows.map(({ bytes }) => ({
      connectedAt: u64At(bytes, 35),
      id: hex(bytes.subarray(0, 16)),
    }));
    expect(order.map(({ id }) => id).toSorted()).toEqual(connectionIds.toSorted());
    expect(order).toEqual(
      order.toSorted((a, b) =>
        a.connectedAt === b.connectedAt
          ? a.id < b.id
            ? -1
            : 1
          : a.connectedAt < b.connectedAt
            ? -1
            : 1,
      ),
    );
    for (const [index, { id, connectedAt }] of order.entries()) {
      const reply = await replyOf(door, `15 ${hexUint(index, 4)}`, 1 + 235);
      expect(reply[0]).toBe(1);
      expect(hex(reply.subarray(1, 17))).toBe(id);
      expect(u64At(reply, 1 + 35)).toBe(connectedAt);
    }
    for (const index of [9, 10, 256, 0xffffffff])
      expect(hex(await replyOf(door, `15 ${hexUint(index, 4)}`, 1))).toBe("00");
    expect(await unasked(door)).toBe("");
    for (const other of [...others, door]) await other.close();
  });

  it("CHANNELS of 7.1 has rows of 21 bytes with subscriptions in four bytes, and no status", async () => {
    const door = await open("7.1", "uint16");
    if (connections === 0) expect(hex(await replyOf(door, "16", 8))).toBe("0000000000000000");
    const other = await openSocket("/throttr/7.1/uint16");
    await replyOf(other, "11 04 6e657773", 1);
    const ids = [await whoami71(other)];
    if (connections === 1) ids.push(await whoami71(door));
    const names = ["*", "news", ...ids];
    const nameBytes = names.join("").length;
    const reply = await replyOf(door, "16", 8 + 16 + names.length * 21 + nameBytes);
    const rows = rowsOf(reply, 21, true);
    expect(rows.map(({ name }) => name).toSorted()).toEqual(names.toSorted());
    for (const { name, bytes } of rows) {
      expect(bytes[0]).toBe(name.length);
      expect(u32At(bytes, 17)).toBe(name === "*" ? ids.length : 1);
    }
    expect(await unasked(door)).toBe("");
    await other.close();
    await door.close();
  });

  it("CHANNEL of 7.1 is a status, a count of eight bytes, and rows of 40", async () => {
    const door = await open("7.1", "uint16");
    expect(hex(await replyOf(door, "17 04 6e657773", 1))).toBe("00");
    const first = await openSocket("/throttr/7.1/uint16");
    const second = await openSocket("/throttr/7.1/uint16");
    const before = nowNs();
    for (const one of [first, second]) await replyOf(one, "11 04 6e657773", 1);
    const after = nowNs();
    const reply = await replyOf(door, "17 04 6e657773", 1 + 8 + 2 * 40);
    expect(reply[0]).toBe(1);
    expect(u64At(reply, 1)).toBe(2n);
    const rows = [9, 49].map((at) => reply.subarray(at, at + 40));
    expect(rows.map((row) => hex(row.subarray(0, 16))).toSorted()).toEqual(
      [await whoami71(first), await whoami71(second)].toSorted(),
    );
    for (const row of rows) {
      expect(u64At(row, 16)).toBeGreaterThanOrEqual(before - 1_000_000n);
      expect(u64At(row, 16)).toBeLessThanOrEqual(after + 1_000_000n);
      expect([u64At(row, 24), u64At(row, 32)]).toEqual([0n, 0n]);
    }
    expect(await unasked(door)).toBe("");
    for (const one of [first, second, door]) await one.close();
  });
});

describe("7.1 on connections", () => {
  it("WHOAMI of 7.1 is 16 bytes, without a status", async () => {
    const door = await openSocket("/throttr/7.1/uint16");
    const id = await whoami71(door);
    expect(id).toMatch(/^.{12}4.{3}[89ab].{15}$/);
    expect(hex(await replyOf(door, "02 01 61 18 02 01 61", 18))).toBe(`00${id}00`);
    const newer = await openSocket("/throttr/7.3/uint16");
    expect(hex(await replyOf(newer, "18", 17)).slice(0, 2)).toBe("01");
    expect(await unasked(door)).toBe("");
    await newer.close();
    await door.close();
  });

  it.each(["11 01 61", "12 01 61", "18"])(
    "%s of 7.1 in a body is refused with 400, and nothing is applied",
    async (frame) => {
      const response = await post("7.1", "uint16", bytesOfHex(INSERT_A + frame));
      await expectProblem(response, 400, "needs_connection");
      const door = await openHttp("7.1", "uint16");
      expect(hex(await replyOf(door, "02 01 61", 1))).toBe("00");
    },
  );

  it.each([
    ["uint8", 1],
    ["uint16", 2],
    ["uint32", 4],
    ["uint64", 8],
  ])("a push of 7.1 to a subscriber in %s is 03, the size and the payload", async (size, n) => {
    const subscriber = await openSocket(`/throttr/7.1/${size}`);
    const newer = await openSocket(`/throttr/7.3/${size}`);
    for (const door of [subscriber, newer])
      expect(hex(await replyOf(door, "11 04 6e657773", 1))).toBe("01");
    const publisher = await openHttp("7.1", "uint32");
    expect(hex(await replyOf(publisher, "13 04 03000000 6e657773 68656c", 1))).toBe("01");
    expect(hex(await subscriber.inbox.take(1 + n + 3))).toBe(`03${hexUint(3, n)}68656c`);
    expect(hex(await newer.inbox.take(2 + n + 4 + 3))).toBe(`1904${hexUint(3, n)}6e65777368656c`);
    expect(hex(await replyOf(publisher, "13 04 00000000 6e657773", 1))).toBe("01");
    expect(hex(await subscriber.inbox.take(1 + n))).toBe(`03${hexUint(0, n)}`);
    expect(hex(await replyOf(subscriber, "12 04 6e657773", 1))).toBe("01");
    expect(hex(await replyOf(publisher, "13 04 03000000 6e657773 68656c", 1))).toBe("01");
    expect(await unasked(subscriber)).toBe("");
    for (const door of [subscriber, newer]) await door.close();
  });

  it("a subscribed publisher of 7.1 gets its push before the status", async () => {
    const door = await openSocket("/throttr/7.1/uint16");
    expect(hex(await replyOf(door, "11 01 63", 1))).toBe("01");
    expect(hex(await replyOf(door, "13 01 0200 63 6869", 6))).toBe("03" + "0200" + "6869" + "01");
    expect(hex(await replyOf(door, "12 01 63", 1))).toBe("01");
    expect(hex(await replyOf(door, "12 01 63", 1))).toBe("00");
    expect(hex(await replyOf(door, "13 01 0200 63 6869", 1))).toBe("00");
    expect(await unasked(door)).toBe("");
    await door.close();
  });

  it("dialect 7.1 has no EVENT", async () => {
    const event = "19 01 0100 61 62";
    await expectProblem(
      await post("7.1", "uint16", bytesOfHex(INSERT_A + event)),
      400,
      "request_type_unknown",
    );
    const door = await openSocket("/throttr/7.1/uint16");
    expect(hex(await replyOf(door, `02 01 61 ${event}`, 1))).toBe("00");
    expect((await door.closed).code).toBe(1002);
    const newer = await openSocket("/throttr/7.3/uint16");
    expect(hex(await replyOf(newer, `${event} 02 01 61`, 2))).toBe("0000");
    await newer.close();
  });

  it.each([
    ["LIST", "07"],
    ["INFO", "08"],
    ["STATS", "10"],
    ["CONNECTIONS", "14"],
    ["CHANNELS", "16"],
  ])(
    "%s of 7.1 without its scope closes the connection with 1008, as it has no status",
    async (_, frame) => {
      const headers = await bearerOf({ ns: "writers", scopes: ["write"] });
      const door = await openSocket("/throttr/7.1/uint16", headers);
      expect(hex(await replyOf(door, `${INSERT_A} ${frame}`, 1))).toBe("01");
      expect((await door.closed).code).toBe(1008);
      expect(await unasked(door)).toBe("");
      const newer = await openSocket("/throttr/7.3/uint16", headers);
      expect(hex(await replyOf(newer, `${frame} 04 01 61`, 2))).toBe("0001");
      await newer.close();
      const response = await post("7.1", "uint16", bytesOfHex(frame), headers);
      await expectProblem(response, 403, "scope_missing");
    },
  );

  it("WHOAMI of 7.1 needs no scope, and requests with a status are refused with 00", async () => {
    const headers = await bearerOf({ ns: "nobody", scopes: [] });
    const door = await openSocket("/throttr/7.1/uint16", headers);
    await whoami71(door);
    const onKeys = `${INSERT_A} 02 01 61 03 00 01 0200 01 61 04 01 61 ${SET_BB} 06 01 61 09 01 61`;
    const others = "11 01 61 12 01 61 13 01 0000 61 15 00000000 17 01 61";
    expect(hex(await replyOf(door, onKeys + others, 12))).toBe("00".repeat(12));
    await whoami71(door);
    expect(await unasked(door)).toBe("");
    await door.close();
  });
});

describe("5", () => {
  it.each([
    ["HTTP", openHttp],
    ["WebSocket", openWebSocket],
  ])("dialect 5 has INSERT, QUERY, UPDATE and PURGE over %s", async (_, open) => {
    for (const [size, n] of [
      ["uint8", 1],
      ["uint16", 2],
      ["uint32", 4],
      ["uint64", 8],
    ] as const) {
      const door = await open("5", size);
      const insert = `01 ${hexUint(5, n)} 06 ${hexUint(30, n)} 01 61`;
      expect(hex(await replyOf(door, insert + insert, 2))).toBe("0100");
      expect(hex(await replyOf(door, `03 00 02 ${hexUint(2, n)} 01 61`, 1))).toBe("01");
      expect(hex(await replyOf(door, `03 00 02 ${hexUint(4, n)} 01 61`, 1))).toBe("00");
      expect(hex(await replyOf(door, "02 01 61", 2 + 2 * n))).toMatch(
        new RegExp(`^01${hexUint(3, n)}06(${hexUint(29, n)}|${hexUint(30, n)})$`),
      );
      expect(hex(await replyOf(door, "04 01 61 04 01 61 02 01 61", 3))).toBe("010000");
      await door.close();
    }
  });

  const OTHERS = [
    0x00, 0x05, 0x06, 0x07, 0x08, 0x09, 0x0a, 0x0f, 0x10, 0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17,
    0x18, 0x19, 0x1a, 0xff,
  ];

  it("dialect 5 knows no other type", async () => {
    for (const type of OTHERS) {
      const body = bytesOfHex(`01 0500 04 1e00 01 61 ${hexUint(type, 1)} 01 61`);
      await expectProblem(await post("5", "uint16", body), 400, "request_type_unknown");
      const door = await openSocket("/throttr/5/uint16");
      expect(hex(await replyOf(door, `02 01 61 ${hexUint(type, 1)} 02 01 61`, 1))).toBe("00");
      expect((await door.closed).code, `type ${type}`).toBe(1002);
      expect(await unasked(door)).toBe("");
    }
  });
});

/** A door of dialect 2. */
interface PairDoor {
  /** Sends frames; replies come out of the inbox. */
  send(frames: Uint8Array): Promise<Inbox>;
  close(): Promise<void>;
}

async function postPairs(body: BodyInit, headers: HeadersInit = {}): Promise<Response> {
  return await server.fetch("http://localhost/throttr/2", { method: "POST", body, headers });
}

const openPairHttp = async (): Promise<PairDoor> => ({
  async send(frames) {
    const response = await postPairs(frames as BodyInit);
    expect(response.status).toBe(200);
    expect(response.headers.get("content-type")).toBe("application/octet-stream");
    const inbox = new Inbox();
    inbox.push(new Uint8Array(await response.arrayBuffer()));
    inbox.end();
    return inbox;
  },
  close: async () => {},
});

async function openPairSocket(headers: Record<string, string> = {}): Promise<PairDoor> {
  const door = await openSocket("/throttr/2", headers);
  return {
    async send(frames) {
      door.socket.send(frames);
      return door.inbox;
    },
    close: () => door.close(),
  };
}

async function openPairPort(): Promise<PairDoor> {
  const door = await openPort(9020);
  return {
    async send(frames) {
      await door.write(frames);
      return door.inbox;
    },
    close: () => door.close(),
  };
}

const PAIR_DOORS: readonly (readonly [name: string, open: () => Promise<PairDoor>])[] = [
  ["HTTP", openPairHttp],
  ["WebSocket", () => openPairSocket()],
  ["TCP", openPairPort],
];

/** Nothing is left of the reply to a body. In a stream it would come before the next id. */
async function expectNothingMore(inbox: Inbox): Promise<void> {
  if (inbox.isClosed) expect(await inbox.take(0)).toEqual(NOTHING);
}

/** A reply of so many bytes, as hex. */
async function pairHex(door: PairDoor, fields: string, bytes: number): Promise<string> {
  const inbox = await door.send(bytesOfHex(fields));
  const reply = await inbox.take(bytes);
  await expectNothingMore(inbox);
  return hex(reply);
}

const insert = (pair: Pair, quota: bigint, ttlType = 2, ttl = 3600n): PairRequest => ({
  type: "insert",
  pair,
  quota,
  ttlType,
  ttl,
});
const query = (pair: Pair): PairRequest => ({ type: "query", pair });
const purge = (pair: Pair): PairRequest => ({ type: "purge", pair });
const update = (pair: Pair, attribute: number, change: number, value: bigint): PairRequest => ({
  type: "update",
  pair,
  attribute,
  change,
  value,
});

const framesOf = (requests: readonly PairRequest[], firstId: number): Uint8Array<ArrayBuffer> =>
  concat(requests.map((request, i) => pairFrame((firstId + i) >>> 0, request)));

/** The replies to requests whose ids count from one on; fails when an id is not the one awaited. */
async function takeReplies(
  inbox: Inbox,
  requests: readonly PairRequest[],
  firstId: number,
): Promise<PairReply[]> {
  const replies: PairReply[] = [];
  for (const [i, { type }] of requests.entries()) {
    const head = await inbox.take(5);
    expect(u32At(head, 0)).toBe((firstId + i) >>> 0);
    expect([0, 1]).toContain(head[4]);
    const success = head[4] === 1;
    if (type !== "query" || !success) {
      replies.push({ success });
      continue;
    }
    const rest = await inbox.take(17);
    const found = { quota: u64At(rest, 0), ttlType: rest[8]!, ttl: u64At(rest, 9) };
    replies.push({ success, found });
  }
  await expectNothingMore(inbox);
  return replies;
}

/** Of each request its success, and of a query that found something the quota. */
async function outcomes(door: PairDoor, ...requests: PairRequest[]): Promise<(boolean | bigint)[]> {
  const inbox = await door.send(framesOf(requests, 0xfffffff8));
  const replies = await takeReplies(inbox, requests, 0xfffffff8);
  return replies.map(({ success, found }) => found?.quota ?? success);
}

/** What a query finds. */
async function found(door: PairDoor, pair: Pair): Promise<PairReply["found"]> {
  const inbox = await door.send(framesOf([query(pair)], 1));
  return (await takeReplies(inbox, [query(pair)], 1))[0]!.found;
}

const PAIR: Pair = ["con", "re"];
const C_R = "03 02 636f6e 7265";

describe.each(PAIR_DOORS)("2 over %s", (_, open) => {
  it("dialect 2 has four requests, each answered with its id", async () => {
    const door = await open();
    const insertion = `01 04030201 0700000000000000 02 100e000000000000 ${C_R}`;
    expect(await pairHex(door, `02 00000000 ${C_R}`, 5)).toBe("0000000000");
    expect(await pairHex(door, insertion, 5)).toBe("0403020101");
    expect(await pairHex(door, `02 ffffffff ${C_R}`, 22)).toMatch(
      /^ffffffff010700000000000000020f0e000000000000$/,
    );
    expect(await pairHex(door, `03 01000080 00 01 0500000000000000 ${C_R}`, 5)).toBe("0100008001");
    expect(await pairHex(door, `02 02000000 ${C_R}`, 22)).toMatch(/^02000000010c00000000000000/);
    expect(await pairHex(door, `03 02000000 00 02 0d00000000000000 ${C_R}`, 5)).toBe("0200000001");
    expect(await pairHex(door, `02 03000000 ${C_R}`, 22)).toMatch(/^03000000010000000000000000/);
    expect(await pairHex(door, `04 04000000 ${C_R}`, 5)).toBe("0400000001");
    expect(await pairHex(door, `04 05000000 ${C_R}`, 5)).toBe("0500000000");
    expect(await pairHex(door, `02 06000000 ${C_R}`, 5)).toBe("0600000000");
    expect(await pairHex(door, `03 07000000 00 00 0500000000000000 ${C_R}`, 5)).toBe("0700000000");
    await door.close();
  });

  it("an id of dialect 2 may come again, also in one batch", async () => {
    const door = await open();
    expect(await pairHex(door, `04 09000000 ${C_R}`.repeat(3), 15)).toBe("0900000000".repeat(3));
    await door.close();
  });

  it("INSERT of dialect 2 resets quota, unit and TTL of an existing pair", async () => {
    const door = await open();
    expect(await outcomes(door, insert(PAIR, 7n), insert(PAIR, 3n, 1, 5_000_000n))).toEqual([
      true,
      true,
    ]);
    const after = (await found(door, PAIR))!;
    expect(after).toMatchObject({ quota: 3n, ttlType: 1 });
    expect(Number(after.ttl)).toBeGreaterThan(4_900_000);
    expect(Number(after.ttl)).toBeLessThanOrEqual(5_000_000);
    expect(
      await outcomes(door, update(PAIR, 0, 1, 5n), insert(PAIR, 1n), query(PAIR), purge(PAIR)),
    ).toEqual([true, true, 1n, true]);
    expect(await outcomes(door, query(PAIR))).toEqual([false]);
    await door.close();
  });

  it.each([
    ["nanoseconds", 0, 3_600_000_000_000n, 3_540_000_000_000n],
    ["milliseconds", 1, 3_600_000n, 3_540_000n],
    ["seconds", 2, 3600n, 3540n],
  ])("dialect 2 counts time in %s", async (_, ttlType, ttl, least) => {
    const door = await open();
    expect(await outcomes(door, insert(PAIR, 9n, ttlType, ttl))).toEqual([true]);
    const first = (await found(door, PAIR))!;
    expect(first).toMatchObject({ quota: 9n, ttlType });
    expect(first.ttl).toBeGreaterThan(least);
    expect(first.ttl).toBeLessThanOrEqual(ttl);
    // INCREASE and PATCH in the pair's own unit, then DECREASE into the past.
    expect(await outcomes(door, update(PAIR, 1, 1, ttl))).toEqual([true]);
    const longer = (await found(door, PAIR))!;
    expect(longer.ttl).toBeGreaterThan(ttl + least);
    expect(longer.ttl).toBeLessThanOrEqual(ttl + ttl);
    expect(await outcomes(door, update(PAIR, 1, 2, ttl))).toEqual([true]);
    expect((await found(door, PAIR))!.ttl).toBeLessThanOrEqual(ttl);
    expect(await outcomes(door, update(PAIR, 1, 0, 3n * ttl))).toEqual([true]);
    expect((await found(door, PAIR))!.ttl).toBeGreaterThan(2n * ttl + least);
    expect(await outcomes(door, update(PAIR, 1, 2, 3n * ttl), query(PAIR))).toEqual([true, false]);
    await door.close();
  });

  it("a pair is absent when its time is over", async () => {
    const door = await open();
    const other: Pair = ["con", "other"];
    expect(
      await outcomes(door, insert(PAIR, 9n, 1, 250n), insert(other, 8n, 0, 250_000_000n)),
    ).toEqual([true, true]);
    expect(await outcomes(door, query(PAIR), query(other))).toEqual([9n, 8n]);
    await scheduler.wait(260);
    for (const pair of [PAIR, other]) {
      expect(
        await outcomes(
          door,
          query(pair),
          update(pair, 0, 0, 1n),
          update(pair, 1, 0, 9n),
          purge(pair),
        ),
      ).toEqual([false, false, false, false]);
    }
    await door.close();
  });

  it("a pair with a TTL of 0 expires at once, also when the pair existed", async () => {
    const door = await open();
    expect(
      await outcomes(door, insert(PAIR, 9n, 2, 0n), query(PAIR), insert(PAIR, 9n), query(PAIR)),
    ).toEqual([true, false, true, 9n]);
    expect(await outcomes(door, insert(PAIR, 9n, 1, 0n), query(PAIR))).toEqual([true, false]);
    await door.close();
  });

  it("dialect 2 refuses other TTL types, and stores nothing", async () => {
    const door = await open();
    const other: Pair = ["con", "other"];
    expect(await outcomes(door, insert(PAIR, 7n))).toEqual([true]);
    for (const ttlType of [3, 4, 5, 6, 7, 255]) {
      expect(
        await outcomes(
          door,
          insert(other, 9n, ttlType),
          query(other),
          insert(PAIR, 9n, ttlType),
          query(PAIR),
        ),
      ).toEqual([false, false, false, 7n]);
    }
    expect((await found(door, PAIR))!.ttlType).toBe(2);
    await door.close();
  });

  it("in dialect 2 an INCREASE that overflows is refused, and a DECREASE below zero leaves 0", async () => {
    const door = await open();
    const steps: [PairRequest, boolean | bigint][] = [
      [insert(PAIR, U64_MAX - 1n), true],
      [update(PAIR, 0, 1, 2n), false],
      [query(PAIR), U64_MAX - 1n],
      [update(PAIR, 0, 1, 1n), true],
      [query(PAIR), U64_MAX],
      [update(PAIR, 0, 1, 1n), false],
      [update(PAIR, 0, 1, U64_MAX), false],
      [query(PAIR), U64_MAX],
      [update(PAIR, 0, 2, U64_MAX), true],
      [update(PAIR, 0, 2, 1n), true],
      [query(PAIR), 0n],
      [update(PAIR, 0, 0, 5n), true],
      [update(PAIR, 0, 2, 6n), true],
      [query(PAIR), 0n],
    ];
    expect(await outcomes(door, ...steps.map(([request]) => request))).toEqual(
      steps.map(([, outcome]) => outcome),
    );
    await door.close();
  });

  it("dialect 2 refuses unknown attributes and changes", async () => {
    const door = await open();
    const unknown = [
      [2, 0],
      [255, 1],
      [0, 3],
      [0, 255],
      [1, 3],
      [1, 255],
    ].map(([attribute, change]) => update(PAIR, attribute!, change!, 0n));
    expect(await outcomes(door, insert(PAIR, 5n), ...unknown, query(PAIR))).toEqual([
      true,
      ...unknown.map(() => false),
      5n,
    ]);
    await door.close();
  });

  it("pairs are never mistaken for one another", async () => {
    const door = await open();
    const long = "\xff".repeat(255);
    const pairs: Pair[] = [
      ["ab", "c"],
      ["a", "bc"],
      ["abc", ""],
      ["", "abc"],
      ["c", "ab"],
      ["", ""],
      ["\0", ""],
      ["", "\0"],
      ["\0\0", ""],
      ["\0", "\0"],
      ["", "\0\0"],
      ["a\0", "b"],
      ["a", "\0b"],
      ["a", "b"],
      ["\x01", "\x01a"],
      ["\x01\x01", "a"],
      [long, long],
      [long, ""],
      ["", long],
      [long, long.slice(1)],
      [long.slice(1), long],
    ];
    const quotas = pairs.map((_, i) => BigInt(100 + i));
    expect(await outcomes(door, ...pairs.map(query))).toEqual(pairs.map(() => false));
    expect(await outcomes(door, ...pairs.map((pair, i) => insert(pair, quotas[i]!)))).toEqual(
      pairs.map(() => true),
    );
    expect(await outcomes(door, ...pairs.map(query))).toEqual(quotas);
    // Half of them are purged: the others stay.
    const [gone, kept] = [pairs.filter((_, i) => i % 2 === 0), pairs.filter((_, i) => i % 2 === 1)];
    expect(await outcomes(door, ...gone.map(purge))).toEqual(gone.map(() => true));
    expect(await outcomes(door, ...gone.map(query))).toEqual(gone.map(() => false));
    expect(await outcomes(door, ...kept.map(query))).toEqual(quotas.filter((_, i) => i % 2 === 1));
    await door.close();
  });

  it("requests of dialect 2 over all shards are answered in order", async () => {
    const door = await open();
    const pairs = Array.from({ length: 200 }, (_, i): Pair => [`consumer ${i % 7}`, `${i}`]);
    const requests = pairs.flatMap((pair, i) => [
      query(pair),
      insert(pair, BigInt(i)),
      query(pair),
      update(pair, 0, 1, 1000n),
      query(pair),
    ]);
    const replies = await outcomes(door, ...requests);
    expect(replies).toEqual(
      pairs.flatMap((_, i) => [false, true, BigInt(i), true, BigInt(1000 + i)]),
    );
    await door.close();
  });

  it("dialect 2 has a keyspace of its own", async () => {
    const door = await open();
    const http = await openHttp("7.3", "uint64");
    const bytes = ["abc", "ab\0c", "\x02\x01abc", "\x02abc", "\x02ab\x01c", "ab", "c", "ab\xffc"];
    const keys = bytes.map((key) => `${hexUint(key.length, 1)}${hex(bytesOf(key))}`);
    expect(await outcomes(door, insert(["ab", "c"], 5n))).toEqual([true]);
    const none = "00".repeat(keys.length);
    const each = (fields: string): string => keys.map((key) => fields + key).join("");
    expect(hex(await replyOf(http, each("02"), keys.length))).toBe(none);
    expect(hex(await replyOf(http, "07", 9))).toBe("01" + "0000000000000000");
    expect(hex(await replyOf(http, each("04"), keys.length))).toBe(none);
    const insertion = `01 ${hexUint(9, 8)} 06 ${hexUint(30, 8)}`;
    expect(hex(await replyOf(http, each(insertion), keys.length))).toBe("01".repeat(keys.length));
    expect(await outcomes(door, query(["ab", "c"]), purge(["ab", "c"]))).toEqual([5n, true]);
    const others = bytes.map((key): Pair => [key, ""]);
    expect(await outcomes(door, ...others.map(query), query(["", "abc"]))).toEqual(
      [...others, null].map(() => false),
    );
    expect((await replyOf(http, each("02"), 18 * keys.length))[0]).toBe(1);
    await door.close();
  });
});

describe("2", () => {
  it.each([
    ["WebSocket", openPairSocket],
    ["TCP", openPairPort],
  ])("frames of dialect 2 may come in any pieces over %s", async (_, open) => {
    const door = await open();
    const requests = [insert(PAIR, 5n), query(PAIR), update(PAIR, 0, 3, 6n), purge(PAIR)];
    const bytes = framesOf(requests, 77);
    let inbox = await door.send(bytes.slice(0, 1));
    for (let at = 1; at < bytes.length; at++) inbox = await door.send(bytes.slice(at, at + 1));
    const replies = await takeReplies(inbox, requests, 77);
    expect(replies.map(({ found, success }) => found?.quota ?? success)).toEqual([
      true,
      5n,
      false,
      true,
    ]);
    await door.close();
  });

  it("the doors of dialect 2 share their pairs", async () => {
    const doors = await Promise.all(PAIR_DOORS.map(([, open]) => open()));
    for (const [i, door] of doors.entries()) {
      expect(await outcomes(door, insert(PAIR, BigInt(i)))).toEqual([true]);
      for (const other of doors) expect(await outcomes(other, query(PAIR))).toEqual([BigInt(i)]);
    }
    for (const door of doors) await door.close();
  });

  it.each([0, 5, 7, 0x13, 255])("dialect 2 does not know the type %i", async (type) => {
    const head = framesOf([insert(PAIR, 5n)], 3);
    const tail = `${hexUint(type, 1)} 05000000 ${C_R}`;
    const body = concat([head, bytesOfHex(tail)]);
    await expectProblem(await postPairs(body), 400, "request_type_unknown");
    const door = await openSocket("/throttr/2");
    expect(hex(await replyOf(door, `02 04000000 ${C_R} ${tail}`, 5))).toBe("0400000000");
    expect((await door.closed).code).toBe(1002);
    const port = await openPort(9020);
    expect(hex(await replyOf(port, `02 04000000 ${C_R} ${tail}`, 5))).toBe("0400000000");
    await port.closed;
  });

  it.each(["02", "02 05000000", "02 05000000 03", `02 05000000 ${C_R.slice(0, -2)}`])(
    "a body of dialect 2 that ends inside a frame (%s) is refused with 400, and nothing is applied",
    async (tail) => {
      const body = concat([framesOf([insert(PAIR, 5n)], 3), bytesOfHex(tail)]);
      await expectProblem(await postPairs(body), 400, "body_truncated");
      expect(await outcomes(await openPairHttp(), query(PAIR))).toEqual([false]);
    },
  );

  it("dialect 2 has no sizes, so /throttr/2/uint64 is not found", async () => {
    await expectProblem(
      await post("2", "uint64", framesOf([query(PAIR)], 1)),
      404,
      "protocol_unknown",
    );
  });

  it("every namespace has its own pairs", async () => {
    const one = await openPairSocket(await bearerOf({ ns: "one" }));
    const two = await openPairSocket(await bearerOf({ ns: "two" }));
    expect(await outcomes(one, insert(PAIR, 5n))).toEqual([true]);
    expect(await outcomes(two, query(PAIR), insert(PAIR, 6n))).toEqual([false, true]);
    expect(await outcomes(one, query(PAIR))).toEqual([5n]);
    for (const door of [one, two]) await door.close();
  });

  it("a request of dialect 2 without its scope is refused with its id", async () => {
    const ns = "scopes";
    const reader = await openPairSocket(await bearerOf({ ns, scopes: ["read"] }));
    const writer = await openPairSocket(await bearerOf({ ns, scopes: ["write"] }));
    const nobody = await openPairSocket(await bearerOf({ ns, scopes: ["admin", "publish"] }));
    const all = [insert(PAIR, 5n), query(PAIR), update(PAIR, 0, 1, 1n), purge(PAIR)];
    expect(await outcomes(reader, ...all)).toEqual([false, false, false, false]);
    expect(await outcomes(nobody, ...all)).toEqual([false, false, false, false]);
    expect(await outcomes(writer, ...all.slice(0, 3))).toEqual([true, false, true]);
    expect(await outcomes(reader, ...all.slice(1))).toEqual([6n, false, false]);
    expect(await pairHex(reader, `04 0d0c0b0a ${C_R}`, 5)).toBe("0d0c0b0a00");
    for (const door of [reader, writer, nobody]) await door.close();
  });

  it("a body of dialect 2 with a request without its scope is refused with 403, and nothing is applied", async () => {
    const ns = "scopes";
    const reader = await bearerOf({ ns, scopes: ["read"] });
    const body = framesOf([query(PAIR), insert(PAIR, 5n)], 1);
    await expectProblem(await postPairs(body, reader), 403, "scope_missing");
    const writer = await bearerOf({ ns, scopes: ["write"] });
    const mixed = framesOf([insert(PAIR, 5n), query(PAIR)], 1);
    await expectProblem(await postPairs(mixed, writer), 403, "scope_missing");
    const response = await postPairs(framesOf([query(PAIR)], 1), reader);
    expect(hex(new Uint8Array(await response.arrayBuffer()))).toBe("0100000000");
  });

  it("key prefixes bind the consumer of a pair", async () => {
    const headers = await bearerOf({ ns: "prefixes", keyPrefixes: ["ab", "user:"] });
    const door = await openPairSocket(headers);
    const pairs: [Pair, boolean][] = [
      [["ab", "c"], true],
      [["abc", ""], true],
      [["user:1", "x"], true],
      [["a", "b"], false],
      [["a", "bab"], false],
      [["", "ab"], false],
      [["x", "ab"], false],
      [["use", "r:1"], false],
      [["\x02\x01ab", "c"], false],
    ];
    const allowed = pairs.map(([, isAllowed]) => isAllowed);
    expect(await outcomes(door, ...pairs.map(([pair]) => insert(pair, 5n)))).toEqual(allowed);
    expect(await outcomes(door, ...pairs.map(([pair]) => purge(pair)))).toEqual(allowed);
    for (const [pair, isAllowed] of pairs) {
      const response = await postPairs(framesOf([query(pair)], 9), headers);
      if (isAllowed) {
        expect(hex(new Uint8Array(await response.arrayBuffer()))).toBe("0900000000");
      } else {
        await expectProblem(response, 403, "prefix_missing");
      }
    }
    await door.close();
  });
});

describe("dialects without pushes", () => {
  it.each([
    ["5", () => openSocket("/throttr/5/uint16"), "02 01 61", "00"],
    ["2", () => openSocket("/throttr/2"), `02 07000000 ${C_R}`, "0700000000"],
    ["2 over TCP", () => openPort(9020), `02 07000000 ${C_R}`, "0700000000"],
  ])("a connection of %s gets nothing but replies", async (_, open, request, reply) => {
    const door: Door = await open();
    const publisher = await openSocket("/throttr/7.3/uint16");
    expect(hex(await replyOf(door, request, reply.length / 2))).toBe(reply);
    // To everybody, the publisher included: its own push tells that it was delivered.
    const push = `19010200${hex(bytesOf("*"))}6869`;
    expect(hex(await replyOf(publisher, "13 01 0200 2a 6869", 8))).toBe(`${push}01`);
    expect(await unasked(door)).toBe("");
    expect(hex(await replyOf(door, request, reply.length / 2))).toBe(reply);
    await publisher.close();
    await door.close();
  });
});

describe("2, any requests", () => {
  const pair = fc.constantFrom<Pair>(["a", "b"], ["ab", ""], ["", "ab"], ["\0", "a"]);
  const value = fc.oneof(
    fc.constantFrom(0n, 1n, 2n, 2n ** 32n - 1n, 2n ** 32n, 2n ** 63n, U64_MAX - 1n, U64_MAX),
    fc.bigInt(0n, 10n),
    fc.bigInt(0n, U64_MAX),
  );
  /** Times that are either over at once or so long that no run outlasts them, whatever is added and taken away. */
  const ttl = fc.constantFrom(0n, 10n ** 14n, 3n * 10n ** 14n, 2n ** 63n, U64_MAX - 1n, U64_MAX);
  const unknown = (known: number[]): fc.Arbitrary<number> =>
    fc.oneof(
      { weight: 9, arbitrary: fc.constantFrom(...known) },
      { weight: 1, arbitrary: fc.constantFrom(known.length, 255) },
    );
  const change = unknown([0, 1, 2]);
  const request: fc.Arbitrary<PairRequest> = fc.oneof(
    fc.record({
      type: fc.constant("insert" as const),
      pair,
      quota: value,
      ttlType: unknown([0, 1, 2]),
      ttl: fc.oneof(
        { weight: 1, arbitrary: ttl },
        { weight: 3, arbitrary: fc.constant(10n ** 14n) },
      ),
    }),
    fc.record({
      type: fc.constantFrom("query" as const, "query" as const, "purge" as const),
      pair,
    }),
    fc.record({
      type: fc.constant("update" as const),
      pair,
      attribute: fc.constant(0),
      change,
      value,
    }),
    fc.record({
      type: fc.constant("update" as const),
      pair,
      attribute: fc.constantFrom(1, 1, 1, 2),
      change,
      value: ttl,
    }),
  );
  const UNIT_NS = [1n, 1_000_000n, 1_000_000_000n];
  /** How far the clocks of model and server may be apart. */
  const DRIFT_NS = 60_000_000_000n;

  it("any requests of dialect 2 are answered as the model says", async () => {
    const socket = await openPairSocket();
    const doors = [socket, await openPairHttp()];
    const all: Pair[] = [
      ["a", "b"],
      ["ab", ""],
      ["", "ab"],
      ["\0", "a"],
    ];
    let runs = 0;
    const property = fc.asyncProperty(
      fc.array(request, { minLength: 1, maxLength: 60 }),
      fc.nat(2 ** 32 - 1),
      async (requests, firstId) => {
        const door = doors[runs++ % 2]!;
        await outcomes(door, ...all.map(purge));
        const model = new PairModel();
        const now = nowNs();
        const inbox = await door.send(framesOf(requests, firstId));
        const replies = await takeReplies(inbox, requests, firstId);
        for (const [i, reply] of replies.entries()) {
          const expected = model.execute(requests[i]!, now);
          const { found, success } = reply;
          expect({ i, success, quota: found?.quota, ttlType: found?.ttlType }).toEqual({
            i,
            success: expected.success,
            quota: expected.found?.quota,
            ttlType: expected.found?.ttlType,
          });
          if (expected.found === undefined || found === undefined) continue;
          const apart = found.ttl - expected.found.ttl;
          const allowed = DRIFT_NS / UNIT_NS[expected.found.ttlType]! + 1n;
          expect(apart <= allowed && apart >= -allowed, `request ${i}: ttl`).toBe(true);
        }
      },
    );
    await fc.assert(property, { seed, numRuns: 150 });
    await socket.close();
  });
});
