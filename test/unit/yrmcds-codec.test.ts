/** The yrmcds protocol's codec: any cut of any stream, hostile lengths, both sides of every frame. */
import fc from "fast-check";
import { describe, expect, inject, it } from "vitest";
import { ByteWriter } from "../../src/wire/bytes.ts";
import { Target } from "../../src/wire/throttr/requests.ts";
import { FRAME_INCOMPLETE, FRAME_TOO_LARGE, RUN_ENDS } from "../../src/wire/throttr/scanner.ts";
import {
  decodeDumpEntry,
  decodeNumber,
  decodeReply,
  decodeStats,
  encodeRequest,
  type Request,
} from "../support/yrmcds/codec.ts";
import { writeDumpReplies, writePageEntry, type DumpForm } from "../../src/wire/yrmcds/dump.ts";
import { Opcode, Status } from "../../src/wire/yrmcds/protocol.ts";
import { writeError, writeNumber, writeSuccess } from "../../src/wire/yrmcds/replies.ts";
import { RequestView } from "../../src/wire/yrmcds/request.ts";
import { frameLength, scanRun } from "../../src/wire/yrmcds/scanner.ts";
import { STATS_ITEMS, writeStats, type StatsFigures } from "../../src/wire/yrmcds/stats.ts";
import { bytesOf, concat, hex, unhex, yrmcds } from "../support/frames/index.ts";
import { anyFrameArbitrary, frameArbitrary } from "../support/yrmcds/arbitraries.ts";
import { YrmcdsServer, framesOf } from "../support/yrmcds/server.ts";
import { runs } from "../support/runs.ts";

const seed = inject("seed");
const MAX = 1 << 20;
const ENGINE = { hashKey: { low: 1, high: 2 }, bytesMax: 16 << 20, isCounting: false };

const u32 = fc.oneof(fc.nat(0xffffffff), fc.constantFrom(0, 1, 0x7fffffff, 0x80000000, 0xffffffff));
const name = fc.oneof(
  fc.uint8Array({ minLength: 1, maxLength: 40 }),
  fc.constantFrom(255, 256, 65_535).map((length) => new Uint8Array(length).fill(7)),
);

function serverOf(): YrmcdsServer {
  return new YrmcdsServer(ENGINE, 2, "document", 1_700_000_000_000);
}

function written(write: (out: ByteWriter) => void): Uint8Array<ArrayBuffer> {
  // What lies in the writer's memory must not shine through.
  const out = new ByteWriter(1 << 17);
  out.bytes.fill(0xee);
  write(out);
  return out.take();
}

describe("streams", () => {
  const streamArbitrary = fc.array(fc.oneof(frameArbitrary, anyFrameArbitrary), {
    minLength: 1,
    maxLength: 15,
  });

  it("a stream gives the same replies in any cut", () => {
    const property = fc.property(
      streamArbitrary,
      fc.array(fc.nat(200_000), { maxLength: 40 }),
      (frames, cuts) => {
        const bytes = concat(frames);
        const expected = serverOf().open().receive(bytes);
        const connection = serverOf().open();
        const ends = [...new Set(cuts.map((cut) => cut % bytes.length))].toSorted((a, b) => a - b);
        const replies = [...ends, bytes.length].map((end, i) =>
          connection.receive(bytes.subarray(ends[i - 1] ?? 0, end)),
        );
        expect(hex(concat(replies))).toBe(hex(expected));
        expect(connection.pendingBytes).toBe(0);
      },
    );
    fc.assert(property, { seed, numRuns: runs(300) });
  });

  it("a stream gives the same replies a byte at a time, in the order of requests", () => {
    const frames = [
      encodeRequest({ type: "acquire", name: bytesOf("a"), resources: 1, maximum: 2 }, 1),
      yrmcds.rawFrame({
        magic: 0x80,
        opcode: 2,
        flags: 9,
        reserved: 9,
        opaque: 2,
        body: bytesOf("xyz"),
      }),
      encodeRequest({ type: "dump" }, 3),
      yrmcds.rawFrame({
        magic: 0x90,
        opcode: 0x77,
        flags: 0,
        reserved: 0,
        opaque: 4,
        body: bytesOf("x"),
      }),
      encodeRequest({ type: "get", name: bytesOf("a") }, 5),
    ];
    const connection = serverOf().open();
    const replies = Array.from(concat(frames), (byte) => connection.receive(Uint8Array.of(byte)));
    expect(hex(concat(replies))).toBe(
      [
        "91020000" + "00000004" + "00000001" + "00000001",
        "91020400" + "00000011" + "00000002" + hex(bytesOf("Invalid arguments")),
        "91110000" + "0000000f" + "00000003" + "00000001" + "00000000" + "00000001" + "000161",
        "91110000" + "00000000" + "00000003",
        "91128100" + "0000000f" + "00000004" + hex(bytesOf("Unknown command")),
        "91010000" + "00000004" + "00000005" + "00000001",
      ].join(""),
    );
  });

  it("a stream is cut into runs where the target changes", () => {
    const noop = encodeRequest({ type: "noop" }, 0);
    const stats = encodeRequest({ type: "stats" }, 0);
    const foreign = stats.slice().fill(0x70, 0, 1);
    const bytes = concat([noop, foreign, noop, stats, stats, noop, noop.subarray(0, 5)]);
    const runs = [];
    for (let at = 0; ;) {
      const run = scanRun(bytes, at, bytes.length, MAX);
      runs.push(run);
      at = run.end;
      if (run.stop !== RUN_ENDS) break;
    }
    const { shard, namespace, nobody } = Target;
    expect(runs).toEqual([
      { target: shard, frames: 3, end: 36, stop: RUN_ENDS, needed: 1 },
      { target: namespace, frames: 1, end: 48, stop: RUN_ENDS, needed: 1 },
      { target: namespace, frames: 1, end: 60, stop: RUN_ENDS, needed: 1 },
      { target: shard, frames: 1, end: 72, stop: FRAME_INCOMPLETE, needed: 12 },
    ]);
    expect(scanRun(bytes, 72, bytes.length, MAX)).toEqual({
      target: nobody,
      frames: 0,
      end: 72,
      stop: FRAME_INCOMPLETE,
      needed: 12,
    });
  });

  it.each([
    [MAX - 12, "incomplete"],
    [MAX - 11, "too large"],
    [0x7fffffff, "too large"],
    [0x80000000, "too large"],
    [0xfffffff4, "too large"],
    [0xffffffff, "too large"],
  ])("an announced body of %i bytes is judged by its header: %s", (bodyBytes, verdict) => {
    for (const magic of [0x90, 0x12]) {
      const header = yrmcds.rawFrame({
        magic,
        opcode: 2,
        flags: 0,
        reserved: 0,
        opaque: 0,
        body: new Uint8Array(0),
      });
      new DataView(header.buffer).setUint32(4, bodyBytes);
      for (let bytes = 0; bytes < 12; bytes++) {
        expect(frameLength(header, 0, bytes, MAX)).toBe(FRAME_INCOMPLETE);
      }
      const length = frameLength(header, 0, 12, MAX);
      expect(length).toBe(verdict === "too large" ? FRAME_TOO_LARGE : MAX);
      const run = scanRun(header, 0, 12, MAX);
      expect(run.stop).toBe(verdict === "too large" ? FRAME_TOO_LARGE : FRAME_INCOMPLETE);
      expect(run.needed).toBe(verdict === "too large" ? 12 : MAX);

      const server = serverOf();
      const connection = server.open(MAX);
      const acquire = { type: "acquire", name: bytesOf("a"), resources: 1, maximum: 1 } as const;
      const replies = connection.receive(concat([encodeRequest(acquire, 1), header]));
      // What came before is answered; the header alone is kept, or the connection ends.
      expect(framesOf(replies)).toHaveLength(1);
      expect(connection.isOpen).toBe(verdict !== "too large");
      expect(connection.pendingBytes).toBe(12);
      const get = encodeRequest({ type: "get", name: bytesOf("a") }, 1);
      const held = decodeNumber(decodeReply(server.open().receive(get), 0).body);
      expect(held).toBe(verdict === "too large" ? 0 : 1);
    }
  });
});

describe("requests", () => {
  const requestArbitrary: fc.Arbitrary<Request> = fc.oneof(
    fc.record({ type: fc.constantFrom("noop" as const, "stats" as const, "dump" as const) }),
    fc.record({ type: fc.constant("get" as const), name }),
    fc.record({ type: fc.constant("acquire" as const), name, resources: u32, maximum: u32 }),
    fc.record({ type: fc.constant("release" as const), name, resources: u32 }),
  );

  it("requests are read as they were written, wherever their bytes lie", () => {
    const view = new RequestView();
    const property = fc.property(requestArbitrary, u32, fc.nat(9), (request, opaque, offset) => {
      const frame = encodeRequest(request, opaque);
      const bytes = concat([new Uint8Array(offset).fill(0x90), frame, Uint8Array.of(1, 2, 3)]);
      view.read(bytes, offset);
      expect(view.length).toBe(frame.length);
      expect(view.opcode).toBe(Opcode[request.type]);
      expect(view.opaque).toBe(opaque);
      const isInvalid =
        request.type === "acquire" &&
        (request.resources === 0 || request.maximum < request.resources);
      expect(view.status).toBe(isInvalid ? Status.invalidArguments : Status.success);
      if (isInvalid || !("name" in request)) {
        expect(view.nameBytes).toBe(0);
        return;
      }
      const { nameAt, nameBytes } = view;
      expect(hex(bytes.subarray(nameAt, nameAt + nameBytes))).toBe(hex(request.name));
      if ("resources" in request) expect(view.resources).toBe(request.resources);
      if ("maximum" in request) expect(view.maximum).toBe(request.maximum);
    });
    fc.assert(property, { seed, numRuns: runs(500) });
  });

  it.each([
    ["name", () => encodeRequest({ type: "get", name: new Uint8Array(0) }, 0)],
    ["name", () => encodeRequest({ type: "get", name: new Uint8Array(65_536) }, 0)],
    ["resources", () => encodeRequest({ type: "release", name: bytesOf("a"), resources: -1 }, 0)],
    [
      "maximum",
      () =>
        encodeRequest(
          { type: "acquire", name: bytesOf("a"), resources: 1, maximum: 4_294_967_296 },
          0,
        ),
    ],
    ["opaque", () => encodeRequest({ type: "noop" }, 0.5)],
  ])("requests are refused when their %s does not fit", (field, encode) => {
    expect(encode).toThrow(new RegExp(`^${field}: `));
  });
});

describe("replies", () => {
  it("replies have exactly these bytes", () => {
    expect(hex(written((out) => writeSuccess(out, Opcode.release, 0xfffe0080)))).toBe(
      "9103000000000000fffe0080",
    );
    expect(hex(written((out) => writeNumber(out, Opcode.get, 1, 0xffffffff)))).toBe(
      "910100000000000400000001ffffffff",
    );
    const errors = [
      [Status.notFound, "9102010000000009000000074e6f7420666f756e64"],
      [Status.invalidArguments, "910204000000001100000007496e76616c696420617267756d656e7473"],
      [
        Status.resourceNotAvailable,
        "9102210000000016000000075265736f75726365206e6f7420617661696c61626c65",
      ],
      [Status.notAcquired, "910222000000000c000000074e6f74206163717569726564"],
      [Status.unknownCommand, "911281000000000f00000007556e6b6e6f776e20636f6d6d616e64"],
      [Status.outOfMemory, "910282000000000b000000074f75744f664d656d6f7279"],
    ] as const;
    for (const [status, expected] of errors) {
      expect(hex(written((out) => writeError(out, Opcode.acquire, 7, status)))).toBe(expected);
    }
  });

  it("Dump has both forms of entry", () => {
    const entries: [consumption: number, maximum: number, name: Uint8Array][] = [
      [0, 100, bytesOf("bbb")],
      [0xffffffff, 0xfffffffe, new Uint8Array(65_535).fill(3)],
    ];
    const page = written((out) => {
      for (const [consumption, maximum, name] of entries) {
        writePageEntry(out, consumption, maximum, concat([bytesOf(".."), name]), 2, name.length);
      }
    });
    const replies = (form: DumpForm): Uint8Array[] =>
      framesOf(written((out) => writeDumpReplies(out, 0xdeadbeef, form, page)));
    expect(hex(replies("document")[0]!)).toBe(
      "9111000000000011deadbeef" + "00000000" + "00000000" + "00000064" + "0003626262",
    );
    expect(hex(replies("today")[0]!)).toBe(
      "911100000000000ddeadbeef" + "00000000" + "00000064" + "0003626262",
    );
    for (const form of ["document", "today"] as const) {
      const decoded = replies(form).map((frame) => {
        const { opcode, status, opaque, body } = decodeReply(frame, 0);
        expect([opcode, status, opaque]).toEqual([Opcode.dump, Status.success, 0xdeadbeef]);
        return decodeDumpEntry(body, form)!;
      });
      expect(decoded.map(({ consumption, maximum }) => [consumption, maximum])).toEqual(
        entries.map(([consumption, maximum]) => [consumption, maximum]),
      );
      expect(decoded.map(({ name }) => hex(name))).toEqual(entries.map(([, , name]) => hex(name)));
    }
    expect(decodeDumpEntry(new Uint8Array(0), "document")).toBeNull();
  });

  it("Stats has 15 items in decimal", () => {
    const figures = Object.fromEntries(
      STATS_ITEMS.map((item, i) => [item, i === 2 ? Number.MAX_SAFE_INTEGER : i * 11]),
    ) as StatsFigures;
    const reply = decodeReply(
      written((out) => writeStats(out, 5, figures)),
      0,
    );
    expect([reply.opcode, reply.status, reply.opaque]).toEqual([Opcode.stats, 0, 5]);
    expect(decodeStats(reply.body)).toEqual(
      STATS_ITEMS.map((item) => [item, String(figures[item])]),
    );
    expect(hex(reply.body.subarray(0, 12))).toBe("00070001" + hex(bytesOf("objects0")));
  });

  it("bytes that do not begin a reply are refused", () => {
    expect(() => decodeReply(unhex("900000000000000000000000"), 0)).toThrow(/^magic: /);
  });
});
