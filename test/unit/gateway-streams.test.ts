/** What the gateway finds in the two streams of a connection: requests, and the replies to them. */
import { existsSync, readFileSync } from "node:fs";
import { resolve } from "node:path";
import fc from "fast-check";
import { describe, expect, inject, it } from "vitest";
import { spokenByName, type SpokenProtocol } from "../../src/cli/gateway/spoken.ts";
import {
  REPLY_BYTES_AIM,
  REQUESTS_MAX,
  Unanswered,
  WINDOW_BYTES,
} from "../../src/cli/gateway/unanswered.ts";
import { bytesOf, concat, unhex } from "../support/frames/index.ts";

const seed = inject("seed");
const folder = [process.env.VECTORS, "../shared/vectors", "test/vectors"].find(
  (folder) => folder !== undefined && existsSync(folder),
)!;

const protocolNamed = (name: string): SpokenProtocol => spokenByName(name, "uint16")!.protocol;

function le(value: number, size: number): Uint8Array {
  return Uint8Array.from({ length: size }, (_, i) => (i < 4 ? (value >>> (8 * i)) & 0xff : 0));
}

function be(value: number, size: number): Uint8Array {
  return le(value, size).toReversed();
}

const zeros = (length: number): Uint8Array => new Uint8Array(length);
const one = (byte: number): Uint8Array => Uint8Array.of(byte);

/** A request and a reply that the server may give it. */
interface Exchange {
  readonly request: Uint8Array;
  readonly reply: Uint8Array;
}

const bodyBytes = fc.oneof(fc.nat(40), fc.nat(3000));
const status = fc.boolean();

/** Rows in fragments, with names behind the rows of each. */
function fragments(
  counts: readonly number[],
  rowBytes: number,
  nameBytes: readonly number[] | null,
): Uint8Array {
  const parts = counts.map((rows, index) => {
    const sizes = Array.from({ length: rows }, (_, i) =>
      nameBytes === null ? 0 : (nameBytes[i % Math.max(1, nameBytes.length)] ?? 0),
    );
    return concat([
      le(index + 1, 8),
      le(rows, 8),
      ...sizes.map((size) => concat([one(size), zeros(rowBytes - 1).fill(1)])),
      ...sizes.map((size) => zeros(size).fill(0x19)),
    ]);
  });
  return concat([one(1), le(counts.length, 8), ...parts]);
}

const fragmented = (type: number, rowBytes: number, hasNames: boolean): fc.Arbitrary<Exchange> =>
  fc
    .tuple(fc.array(fc.nat(5), { maxLength: 4 }), fc.array(fc.nat(255), { maxLength: 5 }), status)
    .map(([counts, names, isDone]) => ({
      request: one(type),
      reply: isDone ? fragments(counts, rowBytes, hasNames ? names : null) : one(0),
    }));

const keyed = (type: number, before: number, more: (body: number) => Uint8Array) =>
  fc.tuple(fc.nat(255), bodyBytes, status).map(([keyBytes, body, isDone]): Exchange => ({
    request: concat([one(type), zeros(before), one(keyBytes), zeros(keyBytes)]),
    reply: isDone ? concat([one(1), more(body)]) : one(0),
  }));

function throttrExchange(n: number): fc.Arbitrary<Exchange> {
  const small = (body: number): number => (n === 1 ? body % 256 : body);
  const payload = (type: number): fc.Arbitrary<Exchange> =>
    fc.tuple(fc.nat(255), bodyBytes, status).map(([channel, body, isDone]) => ({
      request: concat([one(type), one(channel), le(small(body), n), zeros(channel + small(body))]),
      reply: one(isDone ? 1 : 0),
    }));
  return fc.oneof(
    keyed(0x01, 2 * n + 1, () => zeros(0)),
    keyed(0x02, 0, () => zeros(1 + 2 * n)),
    keyed(0x03, 2 + n, () => zeros(0)),
    keyed(0x04, 0, () => zeros(0)),
    keyed(0x06, 0, (body) => concat([zeros(1 + n), le(small(body), n), zeros(small(body))])),
    fc.tuple(fc.nat(255), bodyBytes).map(([key, body]) => ({
      request: concat([
        one(0x05),
        zeros(1 + n),
        one(key),
        le(small(body), n),
        zeros(key + small(body)),
      ]),
      reply: one(1),
    })),
    fragmented(0x07, 11 + n, true),
    status.map((isDone) => ({
      request: one(0x08),
      reply: isDone ? concat([one(1), zeros(432)]) : one(0),
    })),
    keyed(0x09, 0, () => zeros(32)),
    fragmented(0x10, 33, true),
    keyed(0x11, 0, () => zeros(0)),
    keyed(0x12, 0, () => zeros(0)),
    payload(0x13),
    fragmented(0x14, 237, false),
    status.map((isDone) => ({
      request: concat([one(0x15), zeros(16)]),
      reply: isDone ? concat([one(1), zeros(237)]) : one(0),
    })),
    fragmented(0x16, 25, true),
    keyed(0x17, 0, (body) => concat([le(body % 9, 8), zeros(40 * (body % 9)).fill(0x19)])),
    fc.constant({ request: one(0x18), reply: concat([one(1), zeros(16).fill(0x19)]) }),
    payload(0x19),
  );
}

const edgeExchange: fc.Arbitrary<Exchange> = fc.oneof(
  throttrExchange(8),
  fc
    .tuple(fc.integer({ min: 0x20, max: 0x2c }), fc.nat(255), bodyBytes, bodyBytes, status)
    .map(([type, key, body, reply, isDone]) => ({
      request: concat([one(type), one(0), one(key), le(body, 4), zeros(key + body)]),
      reply: concat([one(isDone ? 1 : 2), le(reply, 4), zeros(reply).fill(0x19)]),
    })),
);

const pairExchange: fc.Arbitrary<Exchange> = fc
  .tuple(fc.constantFrom(1, 2, 3, 4), fc.nat(0xffff), fc.nat(255), fc.nat(255), status)
  .map(([type, id, consumer, resource, isDone]) => {
    const before = { 1: 17, 2: 0, 3: 10, 4: 0 }[type]!;
    const sizes = Uint8Array.of(consumer, resource);
    const request = [one(type), le(id, 4), zeros(before), sizes, zeros(consumer + resource)];
    const more = isDone && type === 2 ? zeros(17) : zeros(0);
    return {
      request: concat(request),
      reply: concat([le(id, 4), one(isDone ? 1 : 0), more]),
    };
  });

const yrmcdsFrame = (magic: number, opcode: number, code: number, body: number): Uint8Array =>
  concat([Uint8Array.of(magic, opcode, code, 0), be(body, 4), zeros(4), zeros(body).fill(0x91)]);

const yrmcdsExchange: fc.Arbitrary<Exchange> = fc
  .tuple(
    fc.constantFrom(0x00, 0x01, 0x02, 0x03, 0x10, 0x11, 0x55),
    fc.nat(600),
    fc.constantFrom(0x00, 0x01, 0x04, 0x21),
    fc.array(fc.integer({ min: 1, max: 300 }), { maxLength: 4 }),
  )
  .map(([opcode, body, code, entries]) => ({
    request: yrmcdsFrame(0x90, opcode, 0, body),
    reply:
      opcode === 0x11 && code === 0
        ? concat([...entries, 0].map((entry) => yrmcdsFrame(0x91, 0x11, 0, entry)))
        : yrmcdsFrame(0x91, opcode === 0x55 ? 0x12 : opcode, code, body % 40),
  }));

const push = (n: number): fc.Arbitrary<Uint8Array> =>
  fc
    .tuple(fc.nat(40), fc.nat(200))
    .map(([channel, payload]) =>
      concat([Uint8Array.of(0x19, channel), le(payload, n), zeros(channel + payload).fill(1)]),
    );

/** Cuts bytes into chunks of these lengths, over and over. */
function* cut(bytes: Uint8Array, lengths: readonly number[]): Generator<Uint8Array> {
  for (let at = 0, i = 0; at < bytes.length; i++) {
    const length = lengths[i % lengths.length]!;
    yield bytes.subarray(at, at + length);
    at += length;
  }
}

const cuts = fc.array(fc.oneof(fc.integer({ min: 1, max: 3 }), fc.integer({ min: 1, max: 500 })), {
  minLength: 1,
  maxLength: 6,
});

const PROTOCOLS: readonly [name: string, fc.Arbitrary<Exchange>, fc.Arbitrary<Uint8Array>][] = [
  ["7.3/uint8", throttrExchange(1), push(1)],
  ["7.3/uint16", throttrExchange(2), push(2)],
  ["7.3/uint32", throttrExchange(4), push(4)],
  ["7.3/uint64", throttrExchange(8), push(8)],
  ["edge", edgeExchange, push(8)],
  ["2", pairExchange, fc.constant(zeros(0))],
  ["yrmcds", yrmcdsExchange, fc.constant(zeros(0))],
  ["yrmcds/today", yrmcdsExchange, fc.constant(zeros(0))],
];

describe.each(PROTOCOLS)("a connection of %s", (name, exchange, pushed) => {
  it("knows at every byte how many requests are unanswered, however both streams are cut", () => {
    const property = fc.property(
      fc.array(fc.tuple(exchange, pushed), { minLength: 1, maxLength: 12 }),
      cuts,
      cuts,
      (exchanges, requestCuts, replyCuts) => {
        const unanswered = new Unanswered(protocolNamed(name));
        const ends: number[] = [];
        let end = 0;
        for (const [{ request }] of exchanges) ends.push((end += request.length));
        let sentBytes = 0;
        for (const chunk of cut(concat(exchanges.map(([{ request }]) => request)), requestCuts)) {
          if (unanswered.admit(chunk) < chunk.length) return;
          sentBytes += chunk.length;
          expect(unanswered.requests).toBe(ends.filter((end) => end <= sentBytes).length);
        }
        expect(unanswered.bytes).toBe(sentBytes);
        const replies = exchanges.flatMap(([{ reply }, push]) => [push, reply]);
        const replyEnds: number[] = [];
        end = 0;
        for (const [{ reply }, push] of exchanges) {
          replyEnds.push((end += push.length + reply.length));
        }
        let receivedBytes = 0;
        for (const chunk of cut(concat(replies), replyCuts)) {
          unanswered.received(chunk);
          receivedBytes += chunk.length;
          expect(unanswered.requests).toBe(replyEnds.filter((end) => end > receivedBytes).length);
        }
        expect(unanswered.bytes).toBe(0);
      },
    );
    fc.assert(property, { seed, numRuns: 300 });
  });
});

interface Recorded {
  size?: string;
  scenario: string;
  conn: string;
  request_hex: string;
  response_hex: string;
  op?: string;
}

function recorded(name: string): Recorded[] {
  return readFileSync(resolve(folder, name), "utf8")
    .split("\n")
    .filter((line) => line !== "")
    .map((line) => JSON.parse(line) as Recorded);
}

it.each([
  ["throttr/uint16.jsonl", "7.3/uint16"],
  ["throttr/uint64.jsonl", "7.3/uint64"],
  ["yrmcds/document.jsonl", "yrmcds"],
  ["yrmcds/today.jsonl", "yrmcds/today"],
])("recorded exchanges of %s are followed to their end", (file, name) => {
  const connections = new Map<string, Unanswered>();
  let whole = 0;
  for (const { size = "", scenario, conn, request_hex, response_hex } of recorded(file)) {
    const key = `${size} ${scenario} ${conn.split(".")[0]}`;
    const unanswered = connections.get(key) ?? new Unanswered(protocolNamed(name));
    connections.set(key, unanswered);
    for (const byte of unhex(request_hex)) expect(unanswered.admit(one(byte))).toBe(1);
    const asked = unanswered.requests;
    for (const byte of unhex(response_hex)) unanswered.received(one(byte));
    expect(unanswered.requests).toBe(0);
    if (asked > 0) whole++;
  }
  expect(whole).toBeGreaterThan(5);
});

describe("what may be sent", () => {
  const protocol = protocolNamed("7.3/uint16");
  const query = concat([one(0x02), one(10), zeros(10)]);
  const getK = concat([one(0x06), one(1), bytesOf("k")]);
  const many = (frame: Uint8Array, count: number): Uint8Array =>
    concat(Array.from({ length: count }, () => frame));
  /** A reply to GET, with so many bytes in all. */
  const got = (bytes: number): Uint8Array =>
    concat([one(1), zeros(3), le(bytes - 6, 2), zeros(bytes - 6)]);
  /** A connection where such requests have had such replies. */
  const used = (request: Uint8Array, reply: Uint8Array, times = 200): Unanswered => {
    const unanswered = new Unanswered(protocol);
    for (let i = 0; i < times; i++) {
      unanswered.admit(request);
      unanswered.received(reply);
    }
    return unanswered;
  };

  it("is a window of bytes, which moves while requests are answered, not only when all are", () => {
    const unanswered = used(query, one(0));
    const requests = many(query, 1 << 20);
    const sentBytes = unanswered.admit(requests.subarray(0, WINDOW_BYTES / 2));
    expect(sentBytes).toBe(WINDOW_BYTES / 2);
    const rest = requests.subarray(sentBytes);
    expect(unanswered.admit(rest)).toBe(WINDOW_BYTES / 2 - unanswered.bytes + sentBytes);
    expect(unanswered.bytes).toBeLessThanOrEqual(WINDOW_BYTES);
  });

  it("moves on by what was answered", () => {
    const unanswered = used(query, one(0));
    expect(unanswered.admit(many(query, 60_000))).toBe(60_000 * query.length);
    unanswered.received(zeros(50_000));
    expect(unanswered.requests).toBe(10_000);
    expect(unanswered.bytes).toBeLessThan(10_000 * query.length + 8192);
    expect(unanswered.bytes).toBeGreaterThanOrEqual(10_000 * query.length);
  });

  it("ends in the middle of a frame, and goes on there", () => {
    const unanswered = used(query, one(0));
    const value = 60_000;
    const frame = concat([one(0x05), zeros(3), one(1), le(value, 2), zeros(1 + value)]);
    const frames = many(frame, 40);
    let sentBytes = 0;
    let replies = 0;
    while (sentBytes < frames.length) {
      const admitted = unanswered.admit(frames.subarray(sentBytes));
      sentBytes += admitted;
      expect(unanswered.bytes).toBeLessThanOrEqual(WINDOW_BYTES);
      if (admitted > 0) continue;
      unanswered.received(one(1));
      replies++;
    }
    expect(replies).toBeGreaterThan(20);
  });

  it("is never nothing of the rest of a frame, which is not answered before", () => {
    const unanswered = new Unanswered(protocolNamed("7.3/uint32"));
    const value = 2 << 20;
    unanswered.admit(concat([one(0x05), zeros(5), one(1), le(value, 4), zeros(1)]));
    const portion = zeros(64 << 10);
    for (let leftBytes = value; leftBytes > 1;) {
      const admitted = unanswered.admit(portion.subarray(0, leftBytes - 1));
      expect(admitted).toBeGreaterThan(0);
      leftBytes -= admitted;
    }
    expect(unanswered.requests).toBe(0);
  });

  it("is a number of requests, whatever their bytes", () => {
    const purge = unhex("0400");
    const unanswered = used(purge, one(0));
    expect(unanswered.admit(many(purge, 2 * REQUESTS_MAX))).toBe(REQUESTS_MAX * purge.length);
    expect(unanswered.requests).toBe(REQUESTS_MAX);
  });

  it.each([1, 100, 1000, 10_000, 60_000])(
    "is so much that the replies, if they are of %i bytes as before, are 8 MiB",
    (bytes) => {
      const unanswered = used(getK, bytes === 1 ? one(0) : got(bytes));
      unanswered.admit(many(getK, 100_000));
      // Powers of two are counted; and a value may be larger than the last ones.
      const expected = REPLY_BYTES_AIM / Math.max(bytes, 1024);
      expect(unanswered.requests).toBeLessThanOrEqual(expected);
      expect(unanswered.requests).toBeGreaterThan(expected / 2 - 1);
    },
  );

  it("is less as soon as one reply was large, and more some while after", () => {
    const unanswered = used(getK, got(1000));
    unanswered.admit(getK);
    unanswered.received(got(60_000));
    unanswered.admit(many(getK, 10_000));
    expect(unanswered.requests).toBe(REPLY_BYTES_AIM / 65_536);
    unanswered.received(many(got(1000), unanswered.requests));
    unanswered.admit(many(getK, 10_000));
    expect(unanswered.requests).toBeGreaterThan(4000);
  });

  it("is careful before the first reply, and then not where replies are small", () => {
    const unanswered = new Unanswered(protocol);
    unanswered.admit(many(query, 100_000));
    expect(unanswered.requests).toBe(REPLY_BYTES_AIM / 512);
    const lists = new Unanswered(protocol);
    lists.admit(zeros(100).fill(0x07));
    expect(lists.requests).toBe(8);
    const values = new Unanswered(protocol);
    values.admit(many(getK, 10_000));
    expect(values.requests).toBe(512);
  });

  it("is one request at least, however large its reply", () => {
    const unanswered = used(one(0x07), concat([one(1), le(1, 8), le(1, 8), le(1 << 24, 8)]), 0);
    expect(unanswered.admit(one(0x07))).toBe(1);
    const reply = fragments([2_000_000], 13, []);
    for (let at = 0; at < reply.length; at += 1 << 20) {
      unanswered.received(reply.subarray(at, at + (1 << 20)));
    }
    expect(unanswered.requests).toBe(0);
    expect(unanswered.admit(unhex("0707"))).toBe(1);
  });

  it("does not depend on pushes, which nobody asked for", () => {
    const unanswered = used(getK, got(1000));
    for (let i = 0; i < 50; i++) {
      unanswered.received(concat([one(0x19), one(1), le(50_000, 2), zeros(1 + 50_000)]));
    }
    unanswered.admit(many(getK, 10_000));
    expect(unanswered.requests).toBe(8192);
  });
});

describe("what can't be followed", () => {
  it("is 7.1, whose replies may begin like its pushes: it has no window", () => {
    const unanswered = new Unanswered(protocolNamed("7.1/uint16"));
    expect(unanswered.isFollowed).toBe(false);
    expect(unanswered.admit(zeros(5 << 20))).toBe(5 << 20);
    unanswered.received(zeros(5 << 20));
    expect(unanswered.admit(zeros(5 << 20))).toBe(5 << 20);
  });

  it.each([
    ["a reply that nobody asked for", "7.3/uint16", "", "01"],
    ["an unknown status", "7.3/uint16", "18", "07"],
    ["a reply of another magic", "yrmcds", "900000000000000000000000", "900000000000000000000000"],
    ["a packet that nobody asked for", "yrmcds", "", "910000000000000000000000"],
  ])("is %s: told once, and no window from then on", (_what, name, request, reply) => {
    const unanswered = new Unanswered(protocolNamed(name));
    unanswered.admit(unhex(request));
    expect(() => unanswered.received(unhex(reply))).toThrow("a reply");
    expect(unanswered.isFollowed).toBe(false);
    expect(unanswered.admit(zeros(5 << 20))).toBe(5 << 20);
    expect(() => unanswered.received(unhex(reply))).not.toThrow();
  });

  it("is what comes behind an unknown request: the server answers what came before, and closes", () => {
    const unanswered = new Unanswered(protocolNamed("7.3/uint16"));
    unanswered.admit(unhex("1818ff1818"));
    unanswered.admit(unhex("18"));
    expect(unanswered.requests).toBe(2);
  });
});
