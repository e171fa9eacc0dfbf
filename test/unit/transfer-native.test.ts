/** The export of a server that speaks Throttr's own protocol: pushes between replies, any cuts, nonsense. */
import { once } from "node:events";
import { createServer, type AddressInfo, type Server, type Socket } from "node:net";
import fc from "fast-check";
import { afterEach, describe, expect, inject, it } from "vitest";
import { NativeSource } from "../../src/cli/transfer/native/native-source.ts";
import { Engine } from "../../src/engine/engine.ts";
import { ThrottrError } from "../../src/wire/edge/error.ts";
import type { StoredRecord } from "../../src/wire/edge/transfer.ts";
import { protocolByName, type Protocol } from "../../src/wire/throttr/protocol.ts";
import { layoutsOf } from "../../src/wire/throttr/requests.ts";
import { frameEnd } from "../../src/wire/throttr/scanner.ts";
import {
  batchIn,
  BUFFER,
  bytesOf,
  concat,
  COUNTER,
  EDGE,
  KEEP,
  partsOf,
  restore,
  type TransferRecord,
} from "../support/frames/index.ts";
import { finish } from "../support/engine/steps.ts";
import { runs } from "../support/runs.ts";

const seed = inject("seed");
const NOW_MS = 1_700_000_000_000;
const END_NS = BigInt(NOW_MS + 1000) * 1_000_000n;
const NOTHING = new Uint8Array(0);
const TIMEOUT_MS = 500;
const UNITS = ["ns", "us", "ms", "s", "min", "h"];
const U64_MAX = 2n ** 64n - 1n;

const engineOf = (): Engine =>
  new Engine({ hashKey: { low: seed, high: 1 }, bytesMax: 64 << 20, isCounting: false });

/** The answer to LIST. */
function listOf(engine: Engine, { valueSize, dialect, keyspace }: Protocol): Uint8Array {
  const query = { rows: "list", valueSize, keyspace, prefixes: [] } as const;
  const { parts } = engine.listing.plan(query, 0);
  const fragments = parts.reduce((sum, part) => sum + part.fragments, 0);
  const head = new Uint8Array(8);
  new DataView(head.buffer).setBigUint64(0, BigInt(fragments), true);
  const body = finish(engine.listing.fragments(query, parts, 2 ** 32, 1));
  return concat([dialect === "7.1" ? NOTHING : Uint8Array.of(1), head, body]);
}

function pushOf({ valueSize, dialect }: Protocol, payload: number): Uint8Array {
  const size = new Uint8Array(valueSize);
  size[0] = payload;
  const bytes = new Uint8Array(payload).fill(1);
  if (dialect === "7.1") return concat([Uint8Array.of(0x03), size, bytes]);
  return concat([Uint8Array.of(0x19, 1), size, Uint8Array.of(0x2a), bytes]);
}

let server: Server | null = null;
const sockets = new Set<Socket>();
afterEach(() => {
  for (const socket of sockets) socket.destroy();
  sockets.clear();
  server?.close();
  server = null;
});

/** Listens, and gives each frame to `answer`. */
async function listen(
  protocol: Protocol,
  answer: (frame: Uint8Array, socket: Socket) => Uint8Array | null,
  chunkBytes = Infinity,
): Promise<number> {
  const layouts = layoutsOf(protocol);
  server = createServer((socket) => {
    sockets.add(socket);
    socket.on("error", () => {});
    let rest: Uint8Array = NOTHING;
    socket.on("data", (chunk: Buffer) => {
      rest = concat([rest, chunk]);
      while (rest.length > 0) {
        const end = frameEnd(layouts, rest, 0);
        if (end <= 0 || end > rest.length) return;
        const reply = answer(rest.slice(0, end), socket);
        rest = rest.slice(end);
        if (reply === null) continue;
        for (let at = 0; at < reply.length; at += chunkBytes) {
          socket.write(reply.subarray(at, Math.min(reply.length, at + chunkBytes)));
        }
      }
    });
  });
  await new Promise<void>((resolve) => server!.listen(0, "127.0.0.1", resolve));
  return (server.address() as AddressInfo).port;
}

const sourceOf = (port: number, protocol: Protocol, prefix = NOTHING, signal?: AbortSignal) =>
  new NativeSource({
    address: { host: "127.0.0.1", port },
    protocol,
    prefix,
    timeoutMs: TIMEOUT_MS,
    signal: signal ?? new AbortController().signal,
  });

async function recordsOf(source: NativeSource): Promise<StoredRecord[]> {
  const records: StoredRecord[] = [];
  for await (const page of source.pages()) records.push(...page);
  return records;
}

async function codeOf(run: Promise<unknown>): Promise<string> {
  try {
    await run;
    return "";
  } catch (error) {
    return error instanceof ThrottrError ? error.code : String(error);
  }
}

/** Answers as a server with an engine does, with pushes now and then. */
function answering(engine: Engine, protocol: Protocol, pushes: readonly number[]) {
  let replies = 0;
  return (frame: Uint8Array): Uint8Array => {
    const isOfKey = frame[0] === 0x02 || frame[0] === 0x06;
    const push = isOfKey ? pushes[replies++ % Math.max(1, pushes.length)] : undefined;
    const before = push === undefined || push === 0 ? NOTHING : pushOf(protocol, push);
    const batch = batchIn([{ protocol, frames: [frame] }]);
    const reply =
      frame[0] === 0x07
        ? listOf(engine, protocol)
        : frame[0] === 0x12
          ? Uint8Array.of(1)
          : partsOf(engine.apply(batch, NOW_MS))[0]!.replies.slice();
    return concat([before, reply]);
  };
}

const recordArbitrary: fc.Arbitrary<TransferRecord> = fc.oneof(
  fc.record({
    kind: fc.constant(COUNTER),
    unit: fc.integer({ min: 1, max: 6 }),
    expiresNs: fc.bigInt({ min: END_NS, max: U64_MAX }),
    quota: fc.bigInt({ min: 0n, max: 200n }),
  }),
  fc.record({
    kind: fc.constant(BUFFER),
    unit: fc.integer({ min: 1, max: 6 }),
    expiresNs: fc.bigInt({ min: END_NS, max: U64_MAX }),
    value: fc.string({ unit: fc.constantFrom("\0", "a", "\xff"), maxLength: 100 }),
  }),
);
const keyArbitrary = fc.string({
  unit: fc.constantFrom("a", "b", "\x19", "\x03", "\0"),
  maxLength: 8,
});

describe("an export from another server", () => {
  it("an export from a native server has all its records, whatever is pushed and however replies are cut", async () => {
    const property = fc.asyncProperty(
      fc.uniqueArray(fc.tuple(keyArbitrary, recordArbitrary), {
        maxLength: 60,
        selector: ([key]) => key,
      }),
      fc.constantFrom("7.3", "7.1"),
      fc.constantFrom("uint8", "uint16", "uint32", "uint64"),
      fc.array(fc.nat(60), { maxLength: 4 }),
      fc.constantFrom(1, 7, Infinity),
      async (records, dialect, size, pushes, chunkBytes) => {
        const protocol = protocolByName(dialect, size)!;
        const engine = engineOf();
        const frames = records.map(([key, record]) => restore(key, KEEP, record));
        engine.apply(batchIn([{ protocol: EDGE, frames }]), NOW_MS);
        const port = await listen(protocol, answering(engine, protocol, pushes), chunkBytes);
        const found = await recordsOf(sourceOf(port, protocol));
        server!.close();
        const expected = records.map(([key, { kind, unit, expiresNs, quota, value }]) => ({
          key: bytesOf(key),
          kind: kind === COUNTER ? "counter" : "buffer",
          ...(kind === COUNTER ? { quota } : { value: bytesOf(value!) }),
          unit: UNITS[unit - 1],
          expiresAtNs: expiresNs,
        }));
        const byKey = (list: readonly { key: unknown }[]) =>
          list.toSorted((a, b) => (String(a.key) < String(b.key) ? -1 : 1));
        expect(byKey(found as { key: unknown }[])).toEqual(byKey(expected));
      },
    );
    await fc.assert(property, { seed, numRuns: runs(60) });
  });

  it("an export from a native server asks for many records in batches, and loses none", async () => {
    const protocol = protocolByName("7.3", "uint16")!;
    const engine = engineOf();
    const names = Array.from({ length: 3333 }, (_, i) => `${"k".repeat(i % 200)}:${i}`);
    const frames = names.map((name) =>
      restore(name, KEEP, { kind: COUNTER, unit: 4, expiresNs: END_NS, quota: 1n }),
    );
    engine.apply(batchIn([{ protocol: EDGE, frames }]), NOW_MS);
    const port = await listen(protocol, answering(engine, protocol, [0, 0, 5]));
    const all = await recordsOf(sourceOf(port, protocol));
    const keys = all.map(({ key }) => new TextDecoder().decode(key as Uint8Array));
    expect(keys.toSorted()).toEqual(names.toSorted());
    const some = await recordsOf(sourceOf(port, protocol, bytesOf("kkk")));
    expect(some).toHaveLength(names.filter((name) => name.startsWith("kkk")).length);
  });

  it("an export from a native server leaves out records that vanish meanwhile, and says so", async () => {
    const protocol = protocolByName("7.3", "uint16")!;
    const engine = engineOf();
    const frames = Array.from({ length: 100 }, (_, i) =>
      restore(`k${i}`, KEEP, { kind: COUNTER, unit: 4, expiresNs: END_NS, quota: BigInt(i) }),
    );
    engine.apply(batchIn([{ protocol: EDGE, frames }]), NOW_MS);
    const answer = answering(engine, protocol, []);
    let asked = 0;
    const port = await listen(protocol, (frame) =>
      frame[0] === 0x02 && asked++ % 4 === 0 ? Uint8Array.of(0) : answer(frame),
    );
    const source = sourceOf(port, protocol);
    expect(await recordsOf(source)).toHaveLength(75);
    expect(source.remarks()).toEqual(["25 records disappeared during the export"]);
  });

  const protocol = protocolByName("7.3", "uint64")!;
  const huge = new Uint8Array(8).fill(0xff);
  const one = Uint8Array.of(1, 0, 0, 0, 0, 0, 0, 0);
  const row = concat([Uint8Array.of(1, 1, 4), huge, one, bytesOf("k")]);

  it.each<[string, string, Uint8Array | null, Uint8Array | null]>([
    ["scope_missing", "LIST is refused", Uint8Array.of(0), null],
    ["reply_invalid", "a reply begins with something else", Uint8Array.of(0x48), null],
    [
      "reply_invalid",
      "fragments are out of order",
      concat([Uint8Array.of(1), one, huge, one]),
      null,
    ],
    ["reply_invalid", "a fragment has no end", concat([Uint8Array.of(1), one, one, huge]), null],
    [
      "reply_invalid",
      "a value has no end",
      concat([Uint8Array.of(1), one, one, one, row]),
      concat([Uint8Array.of(1, 4), one, huge]),
    ],
    ["timeout", "nothing is said", null, null],
    ["timeout", "a value does not come", concat([Uint8Array.of(1), one, one, one, row]), null],
  ])("an export from a native server fails with %s where %s", async (code, _, list, value) => {
    const port = await listen(protocol, (frame) => {
      if (frame[0] === 0x12) return Uint8Array.of(1);
      return frame[0] === 0x07 ? list : value;
    });
    expect(await codeOf(recordsOf(sourceOf(port, protocol)))).toBe(code);
  });

  it("an export from a native server fails with its connection, and ends when it is told to", async () => {
    const port = await listen(protocol, (frame, socket) => {
      if (frame[0] === 0x12) return Uint8Array.of(1);
      socket.end(Uint8Array.of(1, 1, 0));
      return null;
    });
    expect(await codeOf(recordsOf(sourceOf(port, protocol)))).toBe("connection_failed");
    server!.close();
    const silent = await listen(protocol, (frame) => (frame[0] === 0x12 ? Uint8Array.of(1) : null));
    const aborter = new AbortController();
    setTimeout(() => aborter.abort(), 50);
    expect(await codeOf(recordsOf(sourceOf(silent, protocol, NOTHING, aborter.signal)))).toBe(
      "aborted",
    );
    server!.close();
    expect(await codeOf(recordsOf(sourceOf(1, protocol)))).toBe("connection_failed");
  });

  it("an export closes its connections where the server greets, as servers of other protocols do", async () => {
    const ended: Promise<unknown>[] = [];
    server = createServer((socket) => {
      sockets.add(socket);
      ended.push(once(socket, "close"));
      socket.on("error", () => {}).resume();
      socket.write("SSH-2.0-OpenSSH\r\n");
    });
    await once(server.listen(0, "127.0.0.1"), "listening");
    const { port } = server.address() as AddressInfo;
    expect(await codeOf(recordsOf(sourceOf(port, protocol)))).toBe("reply_invalid");
    await Promise.all(ended);
    expect(ended).toHaveLength(5);
  });
});
