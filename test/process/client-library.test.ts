/**
 * What client libraries of other languages do, over the system's sockets: a pool of four connections
 * for each value size, requests matched to replies by order, pushes told apart by their first byte.
 */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { connect, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { configWithPorts, startServer, waitUntilReady, type Server } from "../../scripts/server.ts";
import { bytesOf, concat, hex, parseFragments, unhex } from "../support/frames/index.ts";

const HTTP_PORT = 18_797;
const PORTS: Readonly<Record<number, number>> = { 1: 18_798, 2: 18_799, 4: 18_800, 8: 18_801 };
const PAIRS_PORT = 18_802;
const POOL = 4;
const SECONDS = 4;

const folder = mkdtempSync(join(tmpdir(), "throttr-library-"));
let server: Server;

beforeAll(async () => {
  const config = join(folder, "wrangler.toml");
  const ports = { 9001: PORTS[1]!, 9002: PORTS[2]!, 9004: PORTS[4]!, 9008: PORTS[8]! };
  writeFileSync(config, configWithPorts({ ...ports, 9020: PAIRS_PORT }));
  server = startServer({ config, port: HTTP_PORT, persistTo: join(folder, "state") });
  await waitUntilReady(HTTP_PORT, [...Object.values(PORTS), PAIRS_PORT]);
});

afterAll(async () => {
  await server.kill();
  rmSync(folder, { recursive: true, force: true });
});

/** How long the reply that begins a buffer is; 0 when that can't be told yet. */
type ReplyLength = (bytes: Uint8Array) => number;

interface Asked {
  readonly length: ReplyLength;
  readonly resolve: (reply: Uint8Array) => void;
}

/** One connection of the library: a parser that knows what it has asked. */
class Connection {
  readonly pushes: string[] = [];
  readonly #size: number;
  readonly #socket: Socket;
  readonly #queue: Asked[] = [];
  #bytes: Uint8Array = new Uint8Array(0);

  private constructor(socket: Socket, size: number) {
    this.#socket = socket;
    this.#size = size;
    socket.on("data", (chunk: Buffer) => {
      this.#bytes = concat([this.#bytes, chunk]);
      while (this.#parse());
    });
  }

  static async open(port: number, size: number): Promise<Connection> {
    const socket = connect(port, "127.0.0.1");
    await new Promise((resolve, reject) => socket.once("connect", resolve).once("error", reject));
    return new Connection(socket, size);
  }

  request(frame: Uint8Array, length: ReplyLength = () => 1): Promise<Uint8Array> {
    const { promise, resolve } = Promise.withResolvers<Uint8Array>();
    this.#queue.push({ length, resolve });
    this.#socket.write(frame);
    return promise;
  }

  /** Requests in one write. */
  batch(requests: readonly (readonly [Uint8Array, ReplyLength])[]): Promise<Uint8Array[]> {
    const replies = requests.map(([, length]) => {
      const { promise, resolve } = Promise.withResolvers<Uint8Array>();
      this.#queue.push({ length, resolve });
      return promise;
    });
    this.#socket.write(concat(requests.map(([frame]) => frame)));
    return Promise.all(replies);
  }

  close(): void {
    this.#socket.destroy();
  }

  #parse(): boolean {
    if (this.#bytes.length === 0) return false;
    const isPush = this.#bytes[0] === 0x19;
    const length = isPush ? this.#pushLength() : (this.#queue[0]?.length(this.#bytes) ?? 0);
    if (length === 0 || this.#bytes.length < length) return false;
    const frame = this.#bytes.slice(0, length);
    this.#bytes = this.#bytes.slice(length);
    if (isPush) this.pushes.push(new TextDecoder().decode(frame.subarray(2 + this.#size)));
    else this.#queue.shift()!.resolve(frame);
    return true;
  }

  #pushLength(): number {
    const header = 2 + this.#size;
    if (this.#bytes.length < header) return 0;
    return header + this.#bytes[1]! + uint(this.#bytes, 2, this.#size);
  }
}

function uint(bytes: Uint8Array, at: number, size: number): number {
  let value = 0;
  for (let i = size - 1; i >= 0; i--) value = value * 256 + bytes[at + i]!;
  return value;
}

function le(value: number, size: number): Uint8Array {
  return Uint8Array.from({ length: size }, (_, i) => (i < 4 ? value >>> (8 * i) : 0));
}

const text = (name: string): Uint8Array => concat([Uint8Array.of(name.length), bytesOf(name)]);
/** A status, and so many bytes more on success. */
const status =
  (more: number): ReplyLength =>
  (bytes) =>
    bytes[0] === 1 ? 1 + more : 1;

describe.each([1, 2, 4, 8])("a library with values of %i bytes", (n) => {
  const key = (name: string): string => `${n}:${name}`;
  let pool: Connection[];

  const insert = (name: string, quota: number, ttl: number): Uint8Array =>
    concat([unhex("01"), le(quota, n), Uint8Array.of(SECONDS), le(ttl, n), text(key(name))]);
  const onKey = (type: number, name: string): Uint8Array =>
    concat([Uint8Array.of(type), text(key(name))]);
  const publish = (channel: string, payload: string): Uint8Array =>
    concat([
      Uint8Array.of(0x13, channel.length),
      le(payload.length, n),
      bytesOf(channel),
      bytesOf(payload),
    ]);
  const subscribe = (channel: string): Uint8Array => concat([unhex("11"), text(channel)]);
  /** An answer in fragments. */
  const fragmented =
    (rowBytes: number, hasNames: boolean): ReplyLength =>
    (bytes) => {
      if (bytes.length < 9) return 0;
      let at = 9;
      for (let left = uint(bytes, 1, 4); left > 0; left--) {
        if (bytes.length < at + 16) return 0;
        const rows = uint(bytes, at + 8, 4);
        const from = at + 16;
        at = from + rows * rowBytes;
        if (bytes.length < at) return 0;
        const named = hasNames ? rows : 0;
        for (let row = 0; row < named; row++) at += bytes[from + row * rowBytes]!;
      }
      return at;
    };

  beforeAll(async () => {
    pool = await Promise.all(Array.from({ length: POOL }, () => Connection.open(PORTS[n]!, n)));
  });
  afterAll(() => {
    for (const connection of pool) connection.close();
  });

  it("a library with values of this size counts, sets and gets", async () => {
    const [a, b] = pool as [Connection, Connection];
    expect(hex(await a.request(insert("counter", 7, 60)))).toBe("01");
    const query = await b.request(onKey(0x02, "counter"), status(1 + 2 * n));
    expect(uint(query, 1, n)).toBe(7);
    const decrease = concat([unhex("030002"), le(7, n), text(key("counter"))]);
    expect(hex(await a.request(decrease))).toBe("01");
    expect(hex(await a.request(decrease))).toBe("00");
    const set = concat([
      Uint8Array.of(0x05, SECONDS),
      le(60, n),
      Uint8Array.of(key("buffer").length),
      le(4, n),
      bytesOf(key("buffer") + "EHLO"),
    ]);
    expect(hex(await b.request(set))).toBe("01");
    const got = await a.request(onKey(0x06, "buffer"), status(1 + 2 * n + 4));
    expect(new TextDecoder().decode(got.subarray(-4))).toBe("EHLO");
    const [inserted, queried, purged] = await a.batch([
      [insert("batch", 1, 60), () => 1],
      [onKey(0x02, "batch"), status(1 + 2 * n)],
      [onKey(0x04, "batch"), () => 1],
    ]);
    expect([inserted![0], queried![0], purged![0]]).toEqual([1, 1, 1]);
  });

  it("a library with values of this size lists its two keys in order, with their figures", async () => {
    const [a] = pool as [Connection];
    const list = await a.request(unhex("07"), fragmented(11 + n, true));
    const rows = parseFragments(list, { hasStatus: true, rowBytes: 11 + n, hasNames: true });
    const names = rows.flatMap((fragment) => fragment.rows.map(({ name }) => name));
    expect(names.filter((name) => name.startsWith(`${n}:`))).toEqual([
      key("buffer"),
      key("counter"),
    ]);
    const stat = await a.request(onKey(0x09, "counter"), status(32));
    // Figures are those of the last whole minute's end: zeros, unless a minute has ended since the insert.
    expect([
      [0, 0],
      [1, 2],
    ]).toContainEqual([17, 25].map((at) => uint(stat, at, 8)));
    const stats = await a.request(unhex("10"), fragmented(33, true));
    expect(parseFragments(stats, { hasStatus: true, rowBytes: 33, hasNames: true })).toHaveLength(
      1,
    );
    const info = await a.request(unhex("08"), status(432));
    expect(uint(info, 1 + 8 * 43, 8)).toBe(names.length);
  });

  it("a library with values of this size finds its connections", async () => {
    const ids = await Promise.all(
      pool.map(async (connection) => (await connection.request(unhex("18"), status(16))).slice(1)),
    );
    const [a] = pool as [Connection];
    const connections = await a.request(unhex("14"), fragmented(237, false));
    const rows = parseFragments(connections, { hasStatus: true, rowBytes: 237, hasNames: false });
    const listed = rows.flatMap((fragment) =>
      fragment.rows.map(({ row }) => hex(row.subarray(0, 16))),
    );
    for (const id of ids) {
      expect(listed).toContain(hex(id));
      const row = await a.request(concat([unhex("15"), id]), status(237));
      expect(hex(row.subarray(1, 17))).toBe(hex(id));
      expect(new TextDecoder().decode(row.subarray(20, 29))).toBe("127.0.0.1");
    }
  });

  it("a library with values of this size publishes to a channel, to everybody and to a connection", async () => {
    const [a, b, c, d] = pool as [Connection, Connection, Connection, Connection];
    const channel = `news-${n}`;
    expect(hex(await b.request(subscribe(channel)))).toBe("01");
    expect(hex(await c.request(subscribe(channel)))).toBe("01");
    const listed = await a.request(concat([unhex("17"), text(channel)]), (bytes) =>
      bytes.length < 9 ? 0 : 9 + 40 * uint(bytes, 1, 4),
    );
    expect(uint(listed, 1, 8)).toBe(2);
    expect(hex(await a.request(publish(channel, "hi")))).toBe("01");
    expect(hex(await b.request(publish(channel, "me too")))).toBe("01");
    expect(hex(await a.request(publish("*", "all")))).toBe("01");
    const id = hex((await d.request(unhex("18"), status(16))).slice(1));
    expect(hex(await a.request(publish(id, "dm")))).toBe("01");
    const channels = await a.request(unhex("16"), fragmented(25, true));
    const shape = { hasStatus: true, rowBytes: 25, hasNames: true };
    const names = parseFragments(channels, shape).flatMap(({ rows }) =>
      rows.map(({ name }) => name),
    );
    expect(names).toEqual(expect.arrayContaining(["*", channel, id]));
    await expect.poll(() => [b.pushes, c.pushes].map((pushes) => pushes.length)).toEqual([3, 3]);
    expect(b.pushes).toEqual([`${channel}hi`, `${channel}me too`, "*all"]);
    expect(c.pushes).toEqual(b.pushes);
    expect(a.pushes).toEqual(["*all"]);
    expect(d.pushes).toEqual(["*all", `${id}dm`]);
    const unsubscribe = concat([unhex("12"), text(channel)]);
    expect(hex(await b.request(unsubscribe))).toBe("01");
    expect(hex(await c.request(unsubscribe))).toBe("01");
    expect(hex(await a.request(publish(channel, "nobody")))).toBe("00");
  });
});

it("a library of dialect 2 finds its replies by their ids", async () => {
  const socket = await Connection.open(PAIRS_PORT, 8);
  const pair = (consumer: string, resource: string): Uint8Array =>
    concat([Uint8Array.of(consumer.length, resource.length), bytesOf(consumer + resource)]);
  const insert = concat([unhex("0107000000"), le(5, 8), unhex("02"), le(60, 8), pair("ab", "c")]);
  const query = concat([unhex("0209000000"), pair("ab", "c")]);
  const [inserted, queried] = await socket.batch([
    [insert, () => 5],
    [query, () => 5 + 17],
  ]);
  expect(hex(inserted!)).toBe("0700000001");
  expect(hex(queried!).slice(0, 28)).toBe("0900000001" + "0500000000000000" + "02");
  const other = concat([unhex("020a000000"), pair("a", "bc")]);
  expect(hex(await socket.request(other, () => 5))).toBe("0a00000000");
  socket.close();
});
