/** The scanner: any cut of any stream gives the same frames; announced sizes reserve nothing. */
import fc from "fast-check";
import { describe, expect, inject, it } from "vitest";
import { OPEN_ACCESS } from "../../src/base/access.ts";
import type { Ending } from "../../src/objects/hub/ending.ts";
import { Session } from "../../src/objects/hub/session.ts";
import { protocolByName } from "../../src/wire/throttr/protocol.ts";
import { layoutsOf, REQUEST_TYPES_END, Target } from "../../src/wire/throttr/requests.ts";
import {
  FRAME_INCOMPLETE,
  FRAME_TOO_LARGE,
  FRAME_UNKNOWN,
  frameLength,
  scanRun,
  type Run,
} from "../../src/wire/throttr/scanner.ts";
import { protocolArbitrary, requestArbitrary } from "../support/engine/arbitraries.ts";
import { concat, frameOf, hex, protocolOf, unhex } from "../support/frames/index.ts";
import { runs } from "../support/runs.ts";

const seed = inject("seed");
const MAX = 1 << 20;

const stream = protocolArbitrary.chain((protocol) =>
  fc.record({
    protocol: fc.constant(protocol),
    requests: fc.array(requestArbitrary(protocol), { minLength: 1, maxLength: 20 }),
    cuts: fc.array(fc.nat(4000), { maxLength: 40 }),
  }),
);

describe("scanner", () => {
  it("the scanner finds the same frames in any cut of a stream", () => {
    const property = fc.property(stream, ({ protocol, requests, cuts }) => {
      const frames = requests.map((request) => frameOf(protocol, request));
      const bytes = concat(frames);
      const seen: string[] = [];
      const session = new Session({
        host: {
          send: () => {},
          hasReader: true,
          room: () => null,
          countPublished: () => {},
          close: () => expect.unreachable(),
          onIdle: () => {},
        },
        requests: {
          exchange: ({ bytes: some, count }, _, sink) => {
            let at = 0;
            for (let i = 0; i < count; i++) {
              const length = frameLength(
                layoutsOf(protocolOf(protocol)),
                some,
                at,
                some.length,
                MAX,
              );
              seen.push(hex(some.subarray(at, at + length)));
              at += length;
            }
            expect(at).toBe(some.length);
            sink.reply(new Uint8Array(count), true);
          },
        },
        protocol: protocolOf(protocol),
        access: { ...OPEN_ACCESS, namespace: "n" },
        limits: { FRAME_BYTES_MAX: MAX, UNANSWERED_BYTES_MAX: 4 * MAX },
        counts: new Float64Array(REQUEST_TYPES_END),
      });
      const ends = [...new Set([...cuts.map((cut) => cut % bytes.length), bytes.length])].toSorted(
        (a, b) => a - b,
      );
      ends.reduce((from, to) => {
        session.receive(bytes.slice(from, to));
        return to;
      }, 0);
      expect(seen).toEqual(frames.map(hex));
    });
    fc.assert(property, { seed, numRuns: runs(500) });
  });

  it.each([
    [
      "uint64 value size near 2^64",
      "uint64",
      "0504010000000000000001ffffffffffffffff",
      FRAME_TOO_LARGE,
    ],
    ["uint64 value size 2^32", "uint64", "05040100000000000000010000000001000000", FRAME_TOO_LARGE],
    ["uint32 value size 2^32 - 1", "uint32", "05040100000001ffffffff", FRAME_TOO_LARGE],
    ["type 0", "uint16", "00", FRAME_UNKNOWN],
    ["type 0xff", "uint16", "ff", FRAME_UNKNOWN],
    ["nothing", "uint16", "", FRAME_INCOMPLETE],
    ["header cut before the value size", "uint64", "05040100000000000000", FRAME_INCOMPLETE],
  ])("the scanner judges a frame by its header: %s", (_, size, bytes, expected) => {
    const layouts = layoutsOf(protocolByName("7.3", size)!);
    const data = unhex(bytes);
    expect(frameLength(layouts, data, 0, data.length, MAX)).toBe(expected);
  });

  it("the scanner says how many bytes it needs", () => {
    const layouts = layoutsOf(protocolByName("7.3", "uint16")!);
    const header = unhex("02016b" + "0504010001");
    const scan = (bytes: Uint8Array): Run =>
      scanRun(layouts, bytes, 0, bytes.length, MAX, new Float64Array(REQUEST_TYPES_END));
    const found = { target: Target.shard, frames: 1, end: 3, stop: FRAME_INCOMPLETE, needed: 7 };
    expect(scan(header)).toEqual(found);
    const known = unhex("05040100010400" + "6b");
    expect(scan(known).needed).toBe(7 + 1 + 4);
  });
});

describe("dialects", () => {
  it("dialect 5 knows counters only", () => {
    const layouts = layoutsOf(protocolByName("5", "uint16")!);
    expect(layouts.flatMap((layout, type) => (layout === undefined ? [] : [type]))).toEqual([
      1, 2, 3, 4,
    ]);
  });

  it("dialect 7.1 gives the value size of SET one byte", () => {
    const layouts = layoutsOf(protocolByName("7.1", "uint64")!);
    const frame = unhex("05" + "04" + "0100000000000000" + "01" + "02" + "6b" + "4142");
    expect(frameLength(layouts, frame, 0, frame.length, MAX)).toBe(frame.length);
  });

  it.each([
    ["7.4", "uint16"],
    ["7.3", "uint128"],
    ["constructor", "uint16"],
    ["7.3", "toString"],
  ])("there is no protocol of dialect %s with the size %s", (dialect, size) => {
    expect(protocolByName(dialect, size)).toBeUndefined();
  });
});

describe("session", () => {
  function sessionOf(protocolName: string) {
    const endings: Ending[] = [];
    const sent: number[] = [];
    const pending: (() => void)[] = [];
    const session: Session = new Session({
      host: {
        send: (replies) => sent.push(replies.length),
        hasReader: true,
        room: () => null,
        countPublished: () => {},
        close: (ending) => endings.push(ending),
        onIdle: () => {},
      },
      requests: {
        exchange: ({ count }, _, sink) =>
          void pending.push(() => sink.reply(new Uint8Array(count), true)),
      },
      protocol: protocolByName("7.3", protocolName)!,
      access: { ...OPEN_ACCESS, namespace: "n" },
      limits: { FRAME_BYTES_MAX: 1000, UNANSWERED_BYTES_MAX: 5000 },
      counts: new Float64Array(REQUEST_TYPES_END),
    });
    return { session, endings, sent, pending };
  }

  it("a session answers all frames before an unknown type, then closes with 1002", () => {
    const { session, endings, sent, pending } = sessionOf("uint16");
    session.receive(unhex("02016b" + "02016b" + "77" + "02016b"));
    session.receive(unhex("02016b"));
    expect(endings).toEqual([]);
    pending.shift()!();
    expect(sent).toEqual([2]);
    expect(endings).toHaveLength(1);
    expect(endings[0]!.code).toBe(1002);
    expect(endings[0]!.reason).toContain("0x77");
    expect(pending).toEqual([]);
  });

  it("a session answers everything before it ends", () => {
    const { session, endings, sent, pending } = sessionOf("uint16");
    session.receive(unhex("02016b"));
    session.receive(unhex("02016b02"));
    session.finish();
    pending.shift()!();
    pending.shift()!();
    expect(sent).toEqual([1, 1]);
    expect(endings).toEqual([{ code: 1000, reason: "" }]);
  });

  it("a session refuses a large frame when its header announces it", () => {
    const { session, endings } = sessionOf("uint64");
    session.receive(unhex("0504010000000000000001ffffffffffffff7f"));
    expect(endings[0]!.code).toBe(1009);
  });

  it("a session does not execute frames after its token has expired", () => {
    const { session, endings, pending } = sessionOf("uint16");
    session.receive(unhex("02016b" + "02"));
    session.expire();
    session.receive(unhex("016b" + "02016b"));
    expect(endings).toEqual([]);
    pending.shift()!();
    expect(pending).toEqual([]);
    expect(endings[0]!.code).toBe(1008);
  });

  it("a session bounds the bytes that wait for replies", () => {
    const { session, endings } = sessionOf("uint16");
    session.receive(unhex("02016b"));
    for (let i = 0; i < 1000 && endings.length === 0; i++)
      session.receive(unhex("02016b".repeat(10)));
    expect(endings[0]!.code).toBe(1013);
  });
});
