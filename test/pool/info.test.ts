/** What the server says of itself: INFO, STAT, STATS and the rows of connections, field by field. */
import { createExecutionContext, evictAllDurableObjects, reset } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { afterEach, describe, expect, it, vi } from "vitest";
import { Engine } from "../../src/engine/engine.ts";
import worker from "../../src/worker/index.ts";
import { serveTcp } from "../../src/worker/tcp.ts";
import { batchOf, hex, partsOf } from "../support/frames/index.ts";
import { Inbox, openPort, openSocket, pathOf, post, type Door } from "../support/pool/doors.ts";
import { bytesOfHex, hexUint, paddedText, rowsOf, u16At, u64At } from "../support/pool/reading.ts";
import { bearerOf } from "../support/pool/tokens.ts";
import { withSettings } from "../support/pool/variables.ts";

const PATH = "/throttr/7.3/uint16";
const INFO_BYTES = 433;
/** A row of a connection, behind its status. */
const CONNECTION_BYTES = 238;

const nowNs = (): bigint => BigInt(Date.now()) * 1_000_000n;

afterEach(async () => {
  await reset();
});

/** A namespace of its own, and what is asked of it over HTTP. */
interface Space {
  readonly headers: { authorization: string };
  ask(fields: string, size?: string): Promise<Uint8Array>;
  /** Asks for figures as of now, which the edge dialect has: STAT and STATS are the same frames there. */
  askLive(fields: string): Promise<Uint8Array>;
  info(size?: string): Promise<Info>;
}

let spaces = 0;

async function newSpace(send = post): Promise<Space> {
  return spaceOf(await bearerOf({ ns: `space-${++spaces}` }), send);
}

function spaceOf(headers: { authorization: string }, send = post): Space {
  const ask = async (fields: string, size = "uint16"): Promise<Uint8Array> => {
    const response = await send("7.3", size, bytesOfHex(fields), headers);
    expect(response.status).toBe(200);
    return new Uint8Array(await response.arrayBuffer());
  };
  const askLive = async (fields: string): Promise<Uint8Array> => {
    const response = await send("edge", "", bytesOfHex(fields), headers);
    expect(response.status).toBe(200);
    return new Uint8Array(await response.arrayBuffer());
  };
  return { headers, ask, askLive, info: async (size) => new Info(await ask("08", size)) };
}

/** A reply to INFO. */
class Info {
  readonly bytes: Uint8Array;

  constructor(reply: Uint8Array) {
    if (reply.length !== INFO_BYTES || reply[0] !== 1) throw new Error(`INFO: ${hex(reply)}`);
    this.bytes = reply;
  }

  /** The u64 with a number of the table. */
  at(index: number): bigint {
    return u64At(this.bytes, 1 + 8 * index);
  }

  /** Keys, counters, buffers, bytes on counters, bytes on buffers. */
  get held(): bigint[] {
    return [43, 44, 45, 46, 47].map((index) => this.at(index));
  }

  /** Subscriptions, distinct channels, connections. */
  get present(): bigint[] {
    return [48, 49, 51].map((index) => this.at(index));
  }
}

/** A request, how long its reply is, and where it is counted. */
interface Asked {
  name: string;
  frame: string;
  replyBytes: number;
  /** Number of its total in INFO; the number per minute follows. */
  infoIndex: number;
  /** Offset of its count in the row of a connection. */
  rowOffset: number;
}

/** Every request type with a distinct number of times; some succeed, some fail. One connection is there. */
const TRAFFIC: readonly (Asked & { times: number })[] = (
  [
    ["INSERT", "01 0500 06 1e00 01 61", 1, 3, 93],
    ["SET", "05 06 1e00 01 0200 62 7879", 1, 13, 101],
    ["QUERY", "02 01 61", 6, 5, 109],
    ["GET", "06 01 7a", 1, 11, 117],
    ["UPDATE", "03 00 01 0100 01 61", 1, 7, 125],
    ["PURGE", "04 01 7a", 1, 9, 133],
    ["LIST", "07", 1 + 8 + 16 + 2 * 13 + 2, 15, 141],
    ["INFO", "08", 433, 17, 149],
    ["STAT", "09 01 61", 33, 21, 157],
    ["STATS", "10", 1 + 8 + 16 + 2 * 33 + 2, 19, 165],
    ["PUBLISH", "13 01 0200 65 6869", 1, 27, 173],
    ["SUBSCRIBE", "11 01 63", 1, 23, 181],
    ["UNSUBSCRIBE", "12 01 64", 1, 25, 189],
    ["CONNECTIONS", "14", 1 + 8 + 16 + 237, 37, 197],
    ["CONNECTION", "15 00112233445566778899aabbccddeeff", 1, 35, 205],
    ["CHANNELS", "16", 1 + 8 + 16 + 3 * 25 + 1 + 1 + 32, 31, 213],
    ["CHANNEL", "17 01 65", 1, 29, 221],
    ["WHOAMI", "18", 17, 33, 229],
  ] as const
).map(([name, frame, replyBytes, infoIndex, rowOffset], i) => ({
  name,
  frame,
  replyBytes,
  infoIndex,
  rowOffset,
  times: i + 1,
}));

const sumOf = (value: (asked: (typeof TRAFFIC)[number]) => number): number =>
  TRAFFIC.reduce((sum, asked) => sum + asked.times * value(asked), 0);

const byName = (
  value: (asked: (typeof TRAFFIC)[number]) => bigint,
): Readonly<Record<string, bigint>> =>
  Object.fromEntries(TRAFFIC.map((asked) => [asked.name, value(asked)]));

const TRAFFIC_REQUESTS = sumOf(() => 1);
const TRAFFIC_READ = sumOf(({ frame }) => bytesOfHex(frame).length);
const TRAFFIC_WRITTEN = sumOf(({ replyBytes }) => replyBytes);

/** Sends all of it; fails when a reply has another length. Returns the id of the connection. */
async function sendTraffic(door: Door): Promise<string> {
  let id = "";
  for (const { name, frame, replyBytes, times } of TRAFFIC) {
    const reply = await door.exchange(bytesOfHex(frame.repeat(times)), times * replyBytes);
    expect(reply.length, `${name} x ${times}`).toBe(times * replyBytes);
    if (name === "WHOAMI") id = hex(reply.subarray(1, 17));
  }
  expect(await door.exchange(new Uint8Array(), 0)).toEqual(new Uint8Array());
  return id;
}

/** Waits until the minute has some seconds left. */
async function minuteWithoutTurn(): Promise<void> {
  const left = 60_000 - (Date.now() % 60_000);
  if (left < 3000) await scheduler.wait(left + 1);
}

describe("INFO", () => {
  it("INFO of an untouched namespace is zeros, except for time and version", async () => {
    const space = await newSpace();
    const before = Date.now();
    const info = await space.info();
    expect(Number(info.at(0))).toBeGreaterThanOrEqual(Math.floor(before / 1000) - 2);
    expect(Number(info.at(0))).toBeLessThanOrEqual(Date.now() / 1000 + 2);
    for (let index = 1; index <= 51; index++) {
      // INFO may or may not count itself: requests, info, read bytes, write bytes.
      if ([1, 2, 17, 18, 39, 40, 41, 42, 50].includes(index)) continue;
      expect(info.at(index), `field ${index}`).toBe(0n);
    }
    expect(paddedText(info.bytes, 417, 16)).toMatch(/^[\x21-\x7e]+$/);
  });

  it("INFO says since when the server runs", async () => {
    const space = await newSpace();
    await space.ask("01 0500 06 1e00 01 61");
    const [first, second] = [await space.info(), await space.info()];
    expect(first.at(50)).toBeGreaterThan(nowNs() - 3_600_000_000_000n);
    expect(first.at(50)).toBeLessThanOrEqual(nowNs());
    expect(second.at(50)).toBe(first.at(50));
  });

  it("INFO counts requests by type, their bytes, and records", async () => {
    await minuteWithoutTurn();
    const space = await newSpace();
    const door = await openSocket(PATH, space.headers);
    const before = await space.info();
    await sendTraffic(door);
    const after = await space.info();
    const grown = (index: number): bigint => after.at(index) - before.at(index);
    // The INFO that came before, or the one that came after, has counted itself.
    const expected = byName(({ name, times }) => BigInt(name === "INFO" ? times + 1 : times));
    expect(byName(({ infoIndex }) => grown(infoIndex))).toEqual(expected);
    expect(byName(({ infoIndex }) => grown(infoIndex + 1))).toEqual(expected);
    for (const [index, expected] of [
      [1, TRAFFIC_REQUESTS + 1],
      [39, TRAFFIC_READ + 1],
      [41, TRAFFIC_WRITTEN + INFO_BYTES],
    ] as const) {
      expect(grown(index), `field ${index}`).toBe(BigInt(expected));
      expect(grown(index + 1), `field ${index + 1}`).toBe(BigInt(expected));
    }
    expect(after.held).toEqual([2n, 1n, 1n, 2n, 2n]);
    expect(after.present).toEqual([3n, 3n, 1n]);
    await door.close();
  });

  it("INFO counts EVENT in the total of requests, although it is always refused", async () => {
    const space = await newSpace();
    const door = await openSocket(PATH, space.headers);
    const before = await space.info();
    const replies = await door.exchange(bytesOfHex("19 01 0200 65 6869".repeat(5)), 5);
    expect(hex(replies)).toBe("0000000000");
    const after = await space.info();
    // The INFO that came before is counted, too.
    expect([after.at(1) - before.at(1), after.at(2) - before.at(2)]).toEqual([6n, 6n]);
    await door.close();
  });

  it("INFO counts requests over HTTP", async () => {
    const space = await newSpace();
    const before = await space.info();
    const body = "01 0500 06 1e00 01 61 02 01 61 02 01 62 07 13 01 0000 63";
    const reply = await space.ask(body);
    expect(reply.length).toBe(1 + 6 + 1 + (1 + 8 + 16 + 13 + 1) + 1);
    const after = await space.info();
    const grown = [1, 3, 5, 15, 17, 27, 39, 41].map((index) => after.at(index) - before.at(index));
    const read = BigInt(bytesOfHex(body).length + 1);
    expect(grown).toEqual([6n, 1n, 2n, 1n, 1n, 1n, read, BigInt(reply.length + INFO_BYTES)]);
  });

  it("INFO keeps the totals of connections that have ended", async () => {
    const space = await newSpace();
    const door = await openSocket(PATH, space.headers);
    await door.exchange(bytesOfHex("02 01 61 02 01 61 18"), 19);
    const before = await space.info();
    expect([before.at(5), before.at(33), before.at(51)]).toEqual([2n, 1n, 1n]);
    await door.close();
    await expect.poll(async () => (await space.info()).present).toEqual([0n, 0n, 0n]);
    const after = await space.info();
    expect([after.at(5), after.at(6), after.at(33)]).toEqual([2n, 2n, 1n]);
    expect(after.at(39)).toBe(before.at(39) + after.at(17) - before.at(17));
  });

  it.each([
    ["uint8", 1],
    ["uint16", 2],
    ["uint32", 4],
    ["uint64", 8],
  ])(
    "INFO counts a counter with the bytes of a value in %s, and a buffer with its own",
    async (size, n) => {
      const space = await newSpace();
      const keys = Array.from({ length: 9 }, (_, i) => `01 ${hexUint(0x61 + i, 1)}`);
      await space.ask(keys.map((key) => `01 0500 06 1e00 ${key}`).join(""));
      await space.ask("05 06 1e00 01 0500 7a 6162636465 05 06 1e00 01 0000 79");
      expect((await space.info(size)).held).toEqual([11n, 9n, 2n, BigInt(9 * n), 5n]);
      await space.ask("04 01 61 04 01 62 05 06 1e00 01 0700 7a 61626364656667");
      expect((await space.info(size)).held).toEqual([9n, 7n, 2n, BigInt(7 * n), 7n]);
    },
  );

  it("INFO leaves out expired records", async () => {
    const space = await newSpace();
    await space.ask("01 0500 06 1e00 01 61 05 06 1e00 01 0200 62 7879");
    // 120 ms, and none at all.
    await space.ask("01 0500 03 7800 01 63 05 03 7800 01 0300 64 78797a 01 0500 03 0000 01 65");
    await scheduler.wait(130);
    expect((await space.info()).held).toEqual([2n, 1n, 1n, 2n, 2n]);
    expect((await space.ask("10")).length).toBe(1 + 8 + 16 + 2 * 33 + 2);
  });

  it("INFO counts subscriptions, channels and connections", async () => {
    const space = await newSpace();
    const first = await openSocket(PATH, space.headers);
    const second = await openSocket("/throttr/7.1/uint64", space.headers);
    expect((await space.info()).present).toEqual([4n, 3n, 2n]);
    await first.exchange(bytesOfHex("11 01 61 11 01 62 11 01 62"), 3);
    await second.exchange(bytesOfHex("11 01 61"), 1);
    expect((await space.info()).present).toEqual([7n, 5n, 2n]);
    await first.exchange(bytesOfHex("12 01 2a 12 01 61"), 2);
    expect((await space.info()).present).toEqual([5n, 5n, 2n]);
    await second.exchange(bytesOfHex("12 01 2a"), 1);
    expect((await space.info()).present).toEqual([4n, 4n, 2n]);
    await second.close();
    await expect.poll(async () => (await space.info()).present).toEqual([2n, 2n, 1n]);
    await first.close();
    await expect.poll(async () => (await space.info()).present).toEqual([0n, 0n, 0n]);
  });

  it.each(["65", "2a"])(
    "CHANNEL lists subscriptions of one millisecond to %s in their order, also after hibernation",
    async (channel) => {
      const space = await newSpace();
      vi.useFakeTimers({ toFake: ["Date"], now: Date.now() });
      const ids: string[] = [];
      const doors: Door[] = [];
      for (let i = 0; i < 8; i++) {
        const door = await openSocket(PATH, space.headers);
        const frames = channel === "2a" ? "18" : `18 11 01 ${channel}`;
        const replies = await door.exchange(bytesOfHex(frames), channel === "2a" ? 17 : 18);
        ids.push(hex(replies.subarray(1, 17)));
        doors.push(door);
      }
      vi.useRealTimers();
      const listed = async (): Promise<string[]> => {
        const reply = await space.ask(`17 01 ${channel}`);
        const count = Number(u64At(reply, 1));
        return Array.from({ length: count }, (_, i) =>
          hex(reply.subarray(9 + 40 * i, 25 + 40 * i)),
        );
      };
      expect(await listed()).toEqual(ids);
      await evictAllDurableObjects();
      expect(await listed()).toEqual(ids);
      for (const door of doors) await door.close();
    },
  );

  it("INFO is of one namespace", async () => {
    const [one, two] = [await newSpace(), await newSpace()];
    const door = await openSocket(PATH, one.headers);
    await sendTraffic(door);
    const info = await two.info();
    expect(byName(({ name, infoIndex }) => (name === "INFO" ? 0n : info.at(infoIndex)))).toEqual(
      byName(() => 0n),
    );
    expect(info.at(1)).toBeLessThanOrEqual(1n);
    expect(info.at(17)).toBeLessThanOrEqual(1n);
    expect(info.at(39)).toBeLessThanOrEqual(1n);
    expect(info.at(41)).toBeLessThanOrEqual(BigInt(INFO_BYTES));
    expect([...info.held, ...info.present]).toEqual(Array.from({ length: 8 }, () => 0n));
    expect(hex(await two.ask("14 16"))).toBe(("01" + "0000000000000000").repeat(2));
    await door.close();
  });
});

/** The reply of STAT: reads and writes per minute, reads, writes. */
const statReply = (reads: number, writes: number): string =>
  `01${hexUint(reads, 8)}${hexUint(writes, 8)}`.concat(hexUint(reads, 8), hexUint(writes, 8));

describe("STAT", () => {
  it("STAT counts successful INSERT, UPDATE and QUERY of a counter", async () => {
    const space = await newSpace();
    const stat = async (): Promise<string> => hex(await space.askLive("09 01 61"));
    expect(await stat()).toBe("00");
    await space.ask("01 0500 06 1e00 01 61");
    expect(await stat()).toBe(statReply(0, 1));
    await space.ask("02 01 61 02 01 61 02 01 61");
    expect(await stat()).toBe(statReply(3, 1));
    // Patch, increase and decrease of the quota; patch of the TTL.
    await space.ask("03 00 00 0700 01 61 03 00 01 0100 01 61 03 00 02 0200 01 61");
    await space.ask("03 01 00 1e00 01 61");
    expect(await stat()).toBe(statReply(3, 5));
  });

  it("STAT counts successful SET, UPDATE and GET of a buffer", async () => {
    const space = await newSpace();
    const stat = async (): Promise<string> => hex(await space.askLive("09 01 62"));
    await space.ask("05 06 1e00 01 0200 62 7879");
    expect(await stat()).toBe(statReply(0, 1));
    await space.ask("05 06 1e00 01 0300 62 78797a 06 01 62 06 01 62 03 01 01 0100 01 62");
    expect(await stat()).toBe(statReply(2, 3));
  });

  it("STAT does not count failures, nor requests about records", async () => {
    const space = await newSpace();
    await space.ask("01 0500 06 1e00 01 61 05 06 1e00 01 0200 62 7879");
    // INSERT over both, SET over the counter, GET of the counter, QUERY of the buffer.
    const failing = [
      "01 0500 06 1e00 01 61",
      "01 0500 06 1e00 01 62",
      "05 06 1e00 01 0200 61 7879",
      "06 01 61",
      "02 01 62",
      // Below zero, beyond the maximum, unknown attribute and change, quota of a buffer.
      "03 00 02 0600 01 61",
      "03 00 01 ffff 01 61",
      "03 02 00 0100 01 61",
      "03 00 03 0100 01 61",
      "03 01 03 0100 01 61",
      "03 00 00 0100 01 62",
      // TTL types that there are not.
      "05 00 1e00 01 0200 62 7879",
      "05 07 1e00 01 0200 62 7879",
    ];
    expect(hex(await space.ask(failing.join("")))).toBe("00".repeat(failing.length));
    await space.ask("07 10 08 09 01 61 09 01 62");
    expect(hex(await space.askLive("09 01 61"))).toBe(statReply(0, 1));
    expect(hex(await space.askLive("09 01 62"))).toBe(statReply(0, 1));
  });

  it("STAT begins with zero for a record that is created again", async () => {
    const space = await newSpace();
    const stat = async (): Promise<string> => hex(await space.askLive("09 01 61"));
    await space.ask("01 0500 06 1e00 01 61 02 01 61 02 01 61 03 00 01 0100 01 61");
    expect(await stat()).toBe(statReply(2, 2));
    await space.ask("04 01 61");
    expect(await stat()).toBe("00");
    await space.ask("01 0500 06 1e00 01 61");
    expect(await stat()).toBe(statReply(0, 1));
    await space.ask("02 01 61 04 01 61 05 06 1e00 01 0200 61 7879");
    expect(await stat()).toBe(statReply(0, 1));
  });

  it("STAT begins with zero for a record created after its predecessor expired", async () => {
    const space = await newSpace();
    await space.ask("01 0500 03 6400 01 61 02 01 61 03 00 01 0100 01 61");
    await scheduler.wait(110);
    expect(hex(await space.askLive("09 01 61"))).toBe("00");
    await space.ask("01 0500 06 1e00 01 61 02 01 61");
    expect(hex(await space.askLive("09 01 61"))).toBe(statReply(1, 1));
  });

  it("STAT counts requests over every door and in every size", async () => {
    const space = await newSpace();
    await space.ask("01 0500 06 1e00 01 61");
    const door = await openSocket("/throttr/7.1/uint64", space.headers);
    await door.exchange(bytesOfHex("02 01 61 02 01 61"), 2 * 18);
    await space.ask("02 01 61", "uint8");
    expect(hex(await space.askLive("09 01 61"))).toBe(statReply(3, 1));
    await door.close();
  });
});

// An estimate from this minute and the last one: exact at once, and when two minutes have passed.
describe("per minute", () => {
  const protocol = { dialect: "edge", valueSize: 8 };
  const MINUTE = 28_333_333 * 60_000;

  /** What STAT says some seconds after ten reads and a write, with the time of both behind a full minute. */
  function statLater(readAtS: number, askedAtS: number): string {
    const hashKey = { low: 1, high: 2 };
    const engine = new Engine({ hashKey, bytesMax: 1 << 20, isCounting: true });
    const apply = (fields: string, atS: number): Uint8Array => {
      const batch = batchOf([{ protocol, frames: [bytesOfHex(fields)] }]);
      return partsOf(engine.apply(batch, MINUTE + atS * 1000))[0]!.replies;
    };
    apply(`01 ${hexUint(5, 8)} 06 ${hexUint(30, 8)} 01 61`, readAtS);
    for (let i = 0; i < 10; i++) apply("02 01 61", readAtS);
    return hex(apply("09 01 61", askedAtS));
  }

  it.each([
    ["in the same minute", 1, 59],
    ["just behind the turn of the minute", 59, 60],
  ])("a figure per minute counts the last 60 seconds: %s", (_, readAtS, askedAtS) => {
    expect(statLater(readAtS, askedAtS)).toBe(statReply(10, 1));
  });

  it.each([
    ["two minutes later", 59, 180],
    ["an hour later", 30, 3600],
  ])("a figure per minute counts nothing: %s", (_, readAtS, askedAtS) => {
    const zero = hexUint(0, 16);
    expect(statLater(readAtS, askedAtS)).toBe(`01${zero}${hexUint(10, 8)}${hexUint(1, 8)}`);
  });
});

describe("STATS", () => {
  it("STATS has a row for each record, in the order of keys", async () => {
    const space = await newSpace();
    expect(hex(await space.ask("10"))).toBe("01" + "0000000000000000");
    await space.ask("05 06 1e00 02 0200 6162 7879 01 0500 06 1e00 01 61 01 0500 06 1e00 01 62");
    await space.ask("01 0500 06 1e00 00 01 0500 06 1e00 01 63 04 01 63");
    await space.ask("02 01 61 06 02 6162 06 02 6162 03 00 01 0100 01 62 02 01 62 02 01 7a");
    const reply = await space.askLive("10");
    expect(reply[0]).toBe(1);
    const rows = rowsOf(reply.subarray(1), 33, true);
    expect(rows.map(({ name, bytes }) => [name, hex(bytes.subarray(1))])).toEqual(
      (
        [
          ["", 0, 1],
          ["a", 1, 1],
          ["ab", 2, 1],
          ["b", 1, 2],
        ] as const
      ).map(([name, reads, writes]) => [name, statReply(reads, writes).slice(2)]),
    );
  });
});

describe("without metrics", () => {
  const protocol = { dialect: "edge", valueSize: 8 };
  const insertion = `01 ${hexUint(5, 8)} 06 ${hexUint(30, 8)} 01 61`;
  const frames = [insertion, "02 01 61", `03 00 01 ${hexUint(1, 8)} 01 61`, "09 01 61"];

  it.each([
    [false, "01" + "00".repeat(32)],
    [true, statReply(1, 2)],
  ])("without metrics STAT finds the record and shows zeros (counting: %s)", (isCounting, stat) => {
    const engine = new Engine({ hashKey: { low: 1, high: 2 }, bytesMax: 1 << 20, isCounting });
    const batch = batchOf([{ protocol, frames: frames.map(bytesOfHex) }]);
    const replies = partsOf(engine.apply(batch, 1_700_000_000_000))[0]!.replies;
    const found = `01${hexUint(5, 8)}06${hexUint(29, 8)}`;
    expect(hex(replies)).toBe("01" + found + "01" + stat);
  });

  /** Asks a deployment whose variable is off. */
  const postUncounted: typeof post = async (dialect, size, body, headers) =>
    await postTo(pathOf(dialect, size), body, headers ?? {});

  const postTo = async (path: string, body: BodyInit, headers: HeadersInit): Promise<Response> => {
    const request = new Request(`http://localhost${path}`, { method: "POST", body, headers });
    return await worker.fetch(
      request as Parameters<typeof worker.fetch>[0],
      { ...env, METRICS: "off" } as Env,
      createExecutionContext(),
    );
  };

  it("without metrics a server shows zeros, and serves all requests", async () => {
    await withSettings({ METRICS: "off" }, async () => {
      const space = await newSpace(postUncounted);
      const door = await openSocket(PATH, space.headers);
      const id = await sendTraffic(door);
      expect(hex(await space.ask("09 01 61"))).toBe("01" + "00".repeat(32));
      const [a, b] = rowsOf((await space.ask("10")).subarray(1), 33, true);
      expect([hex(a!.bytes), hex(b!.bytes)]).toEqual([
        "01" + "00".repeat(32),
        "01" + "00".repeat(32),
      ]);
      expect((await postTo("/channels/x", "message", space.headers)).status).toBe(200);
      const info = await space.info();
      for (let index = 1; index <= 42; index++) expect(info.at(index), `field ${index}`).toBe(0n);
      expect(info.held).toEqual([2n, 1n, 1n, 2n, 2n]);
      expect(info.present).toEqual([3n, 3n, 1n]);
      const row = (await space.ask(`15 ${id}`)).subarray(1);
      expect(byName(({ rowOffset }) => u64At(row, rowOffset))).toEqual(byName(() => 0n));
      await door.close();
    });
  });
});

/** The row of a connection, by its id. */
async function rowOf(space: Space, id: string): Promise<Uint8Array> {
  const reply = await space.ask(`15 ${id}`);
  expect(reply.length).toBe(CONNECTION_BYTES);
  expect(reply[0]).toBe(1);
  return reply.subarray(1);
}

const idOf = async (door: Door): Promise<string> =>
  hex((await door.exchange(bytesOfHex("18"), 17)).subarray(1));

function expectTraffic(row: Uint8Array): void {
  expect(u64At(row, 45)).toBe(BigInt(TRAFFIC_READ));
  expect(u64At(row, 53)).toBe(BigInt(TRAFFIC_WRITTEN));
  expect(byName(({ rowOffset }) => u64At(row, rowOffset))).toEqual(
    byName(({ times }) => BigInt(times)),
  );
}

function expectBetween(time: bigint, from: bigint, to: bigint): void {
  expect(time).toBeGreaterThanOrEqual(from - 1_000_000n);
  expect(time).toBeLessThanOrEqual(to + 1_000_000n);
}

/** A TCP connection from an address: what the runtime would hand over. */
async function openPortFrom(remoteAddress: string): Promise<Door> {
  const toServer = new IdentityTransformStream();
  const toClient = new IdentityTransformStream();
  const socket = {
    opened: Promise.resolve({ localAddress: "127.0.0.1:9002", remoteAddress }),
    readable: toServer.readable,
    writable: toClient.writable,
    close: async () => {},
  };
  const served = serveTcp(socket as unknown as Socket, env);
  const writer = toServer.writable.getWriter();
  const inbox = new Inbox();
  const ended = (async () => {
    for await (const chunk of toClient.readable as ReadableStream<Uint8Array>) inbox.push(chunk);
    inbox.end();
  })();
  return {
    async exchange(request, replyBytes) {
      if (request.length > 0) await writer.write(request);
      return await inbox.take(replyBytes);
    },
    close: async () => {
      await writer.close();
      await Promise.all([served, ended]);
    },
  };
}

/** The namespace of those who bring no token. */
const anyone = (): Space => spaceOf({} as { authorization: string });

describe("the row of a connection", () => {
  it("the row of a WebSocket has its id, address, time and traffic", async () => {
    const space = await newSpace();
    const from = nowNs();
    const address = { "cf-connecting-ip": "203.0.113.7" };
    const door = await openSocket(PATH, { ...space.headers, ...address });
    const to = nowNs();
    const id = await sendTraffic(door);
    const row = await rowOf(space, id);
    expect(hex(row.subarray(0, 16))).toBe(id);
    expect([...row.subarray(16, 19)]).toEqual([0, 2, 4]);
    expect(paddedText(row, 19, 16)).toBe("203.0.113.7");
    expectBetween(u64At(row, 37), from, to);
    expectTraffic(row);
    const all = await space.ask("14");
    expect(rowsOf(all.subarray(1), 237, false).map(({ bytes }) => hex(bytes))).toEqual([hex(row)]);
    await door.close();
    await expect.poll(async () => hex(await space.ask(`15 ${id}`))).toBe("00");
    expect(hex(await space.ask("14"))).toBe("01" + "0000000000000000");
  });

  it("the row of a TCP connection has its id, its time and its traffic", async () => {
    const space = anyone();
    const from = nowNs();
    const door = await openPort(9002);
    const id = await sendTraffic(door);
    const row = await rowOf(space, id);
    expect(hex(row.subarray(0, 16))).toBe(id);
    expect([...row.subarray(16, 18)]).toEqual([0, 0]);
    expectBetween(u64At(row, 37), from, nowNs());
    expectTraffic(row);
    await door.close();
    await expect.poll(async () => hex(await space.ask(`15 ${id}`))).toBe("00");
  });

  it.each([
    ["203.0.113.77:40001", 4, "203.0.113.77", 40_001],
    ["255.255.255.255:65535", 4, "255.255.255.255", 65_535],
    ["[::1]:1", 6, "::1", 1],
    ["[2001:db8::8a2e:1]:443", 6, "2001:db8::8a2e:1", 443],
    ["[2001:db8::1234]:256", 6, "2001:db8::1234", 256],
  ])(
    "the row of a TCP connection from %s has its address",
    async (remoteAddress, version, text, port) => {
      const door = await openPortFrom(remoteAddress);
      const row = await rowOf(anyone(), await idOf(door));
      expect([...row.subarray(16, 19)]).toEqual([0, 0, version]);
      expect(paddedText(row, 19, 16)).toBe(text);
      expect(u16At(row, 35)).toBe(port);
      await door.close();
    },
  );

  it.each([
    ["2001:db8:85a3:8d3:1319:8a2e:370:7348", "20010db885a308d313198a2e03707348"],
    ["2001:db8:85a3::8a2e:370:7334", "20010db885a3000000008a2e03707334"],
    ["::ffff:203.0.113.77", "00000000000000000000ffffcb00714d"],
    ["2001:db8::8a2e:12", "20010db800000000000000008a2e0012"],
    ["fe80::ff:fe00:1234:5678", "fe8000000000000000fffe0012345678"],
  ])("the row of a WebSocket from %s has the address in 16 raw bytes", async (ip, raw) => {
    const space = await newSpace();
    const door = await openSocket(PATH, { ...space.headers, "cf-connecting-ip": ip });
    const row = await rowOf(space, await idOf(door));
    expect([...row.subarray(16, 19)]).toEqual([0, 2, 6]);
    expect(hex(row.subarray(19, 35))).toBe(raw);
    await door.close();
  });

  it("the row of a connection counts what it published and received", async () => {
    const space = await newSpace();
    const publisher = await openSocket(PATH, space.headers);
    const subscriber = await openSocket(PATH, space.headers);
    const bystander = await openSocket(PATH, space.headers);
    await subscriber.exchange(bytesOfHex("11 01 63"), 1);
    const payload = "68656c6c6f".repeat(20);
    expect(hex(await publisher.exchange(bytesOfHex(`13 01 6400 63 ${payload}`), 1))).toBe("01");
    expect((await subscriber.inbox.take(105)).length).toBe(105);
    const rows: Uint8Array[] = [];
    for (const door of [publisher, subscriber, bystander])
      rows.push(await rowOf(space, await idOf(door)));
    const [published, received] = [61, 69].map((at) => rows.map((row) => u64At(row, at)));
    // The payload, or the frame that carries it.
    expect([100n, 105n]).toContain(published![0]);
    expect([100n, 105n]).toContain(received![1]);
    expect(published!.slice(1)).toEqual([0n, 0n]);
    expect([received![0], received![2]]).toEqual([0n, 0n]);
    for (const door of [publisher, subscriber, bystander]) await door.close();
  });

  it("the row of a connection outlives hibernation", async () => {
    const space = await newSpace();
    const address = { "cf-connecting-ip": "203.0.113.7" };
    const door = await openSocket(PATH, { ...space.headers, ...address });
    const id = await sendTraffic(door);
    const before = await rowOf(space, id);
    expectTraffic(before);
    await scheduler.wait(20);
    await evictAllDurableObjects();
    expect(hex(await rowOf(space, id))).toBe(hex(before));
    await evictAllDurableObjects();
    expect((await door.exchange(bytesOfHex("02 01 61 02 01 61 18"), 29)).length).toBe(29);
    const after = await rowOf(space, id);
    expect(hex(after.subarray(0, 45))).toBe(hex(before.subarray(0, 45)));
    const grown = (at: number): bigint => u64At(after, at) - u64At(before, at);
    expect(grown(45)).toBe(7n);
    expect(grown(53)).toBe(29n);
    expect(byName(({ rowOffset }) => grown(rowOffset))).toEqual(
      byName(({ name }) => (name === "QUERY" ? 2n : name === "WHOAMI" ? 1n : 0n)),
    );
    expect((await space.info()).present).toEqual([3n, 3n, 1n]);
    await door.close();
  });
});
