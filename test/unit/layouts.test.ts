/** Where the fields of every request lie, in every dialect and size: literal numbers from the protocol's tables. */
import { describe, expect, it } from "vitest";
import { protocolByName, type Protocol } from "../../src/wire/throttr/protocol.ts";
import {
  keyLength,
  layoutsOf,
  REQUEST_TYPES_END,
  Scope,
  Target,
  type Layout,
} from "../../src/wire/throttr/requests.ts";
import {
  FRAME_INCOMPLETE,
  FRAME_TOO_LARGE,
  FRAME_UNKNOWN,
  frameLength,
  RUN_ENDS,
  scanRun,
  valueLength,
  type Run,
} from "../../src/wire/throttr/scanner.ts";
import { unhex } from "../support/frames/index.ts";

const MAX = 1 << 20;
const NOBODY = 0;
const { read, write, publish, subscribe, admin } = Scope;
const { shard, channel, connection, namespace, nobody } = Target;

/** One request type of one protocol: what the text says of it. 0 stands for "no such field". */
interface Expected {
  header: number;
  /** Offset of the size of the key, the channel, or the consumer. */
  keySize: number;
  /** Offset of the size of the resource. */
  resourceSize?: number;
  valueSize?: number;
  valueSizeBytes?: number;
  /** Bytes of the key as they are kept: a pair is kept with its two sizes. */
  key?: number;
  value?: number;
  /** A whole frame, field by field. */
  frame: string;
  length: number;
}

interface Request {
  name: string;
  type: number;
  scope: number;
  target: Target;
  statusIn71: boolean;
}

const REQUESTS: readonly Request[] = [
  { name: "INSERT", type: 0x01, scope: write, target: shard, statusIn71: true },
  { name: "QUERY", type: 0x02, scope: read, target: shard, statusIn71: true },
  { name: "UPDATE", type: 0x03, scope: write, target: shard, statusIn71: true },
  { name: "PURGE", type: 0x04, scope: write, target: shard, statusIn71: true },
  { name: "SET", type: 0x05, scope: write, target: shard, statusIn71: true },
  { name: "GET", type: 0x06, scope: read, target: shard, statusIn71: true },
  { name: "LIST", type: 0x07, scope: read, target: namespace, statusIn71: false },
  { name: "INFO", type: 0x08, scope: read, target: namespace, statusIn71: false },
  { name: "STAT", type: 0x09, scope: read, target: shard, statusIn71: true },
  { name: "STATS", type: 0x10, scope: read, target: namespace, statusIn71: false },
  { name: "SUBSCRIBE", type: 0x11, scope: subscribe, target: connection, statusIn71: true },
  { name: "UNSUBSCRIBE", type: 0x12, scope: subscribe, target: connection, statusIn71: true },
  { name: "PUBLISH", type: 0x13, scope: publish, target: channel, statusIn71: true },
  { name: "CONNECTIONS", type: 0x14, scope: admin, target: namespace, statusIn71: false },
  { name: "CONNECTION", type: 0x15, scope: admin, target: namespace, statusIn71: true },
  { name: "CHANNELS", type: 0x16, scope: admin, target: namespace, statusIn71: false },
  { name: "CHANNEL", type: 0x17, scope: admin, target: namespace, statusIn71: true },
  { name: "WHOAMI", type: 0x18, scope: NOBODY, target: connection, statusIn71: false },
  { name: "EVENT", type: 0x19, scope: NOBODY, target: nobody, statusIn71: true },
];

/** A request of its type byte alone. */
const alone = (type: string): Expected => ({ header: 1, keySize: 0, frame: type, length: 1 });
/** A request of a key or a channel of three bytes. */
const named = (type: string): Expected => ({
  header: 2,
  keySize: 1,
  key: 3,
  frame: `${type} 03 6b6579`,
  length: 5,
});

/** The requests of 7.3 and 7.1 that are the same bytes in every size. */
const SAME_IN_ALL_SIZES: Readonly<Record<string, Expected>> = {
  QUERY: named("02"),
  PURGE: named("04"),
  GET: named("06"),
  LIST: alone("07"),
  INFO: alone("08"),
  STAT: named("09"),
  STATS: alone("10"),
  SUBSCRIBE: named("11"),
  UNSUBSCRIBE: named("12"),
  CONNECTIONS: alone("14"),
  CHANNELS: alone("16"),
  CHANNEL: named("17"),
  WHOAMI: alone("18"),
};

/** The id of a connection. */
const ID = "00112233445566778899aabbccddeeff";
const BY_ID: Expected = { header: 17, keySize: 0, frame: `15 ${ID}`, length: 17 };
const BY_INDEX: Expected = { header: 5, keySize: 0, frame: "15 02000000", length: 5 };

const COUNTERS: Readonly<Record<string, Readonly<Record<string, Expected>>>> = {
  uint8: {
    INSERT: { header: 5, keySize: 4, key: 3, frame: "01 07 04 3c 03 6b6579", length: 8 },
    UPDATE: { header: 5, keySize: 4, key: 3, frame: "03 00 01 07 03 6b6579", length: 8 },
  },
  uint16: {
    INSERT: { header: 7, keySize: 6, key: 3, frame: "01 0700 04 3c00 03 6b6579", length: 10 },
    UPDATE: { header: 6, keySize: 5, key: 3, frame: "03 00 01 0700 03 6b6579", length: 9 },
  },
  uint32: {
    INSERT: {
      header: 11,
      keySize: 10,
      key: 3,
      frame: "01 07000000 04 3c000000 03 6b6579",
      length: 14,
    },
    UPDATE: { header: 8, keySize: 7, key: 3, frame: "03 00 01 07000000 03 6b6579", length: 11 },
  },
  uint64: {
    INSERT: {
      header: 19,
      keySize: 18,
      key: 3,
      frame: "01 0700000000000000 04 3c00000000000000 03 6b6579",
      length: 22,
    },
    UPDATE: {
      header: 12,
      keySize: 11,
      key: 3,
      frame: "03 00 01 0700000000000000 03 6b6579",
      length: 15,
    },
  },
};

const PUBLISHING: Readonly<Record<string, Expected>> = {
  uint8: {
    header: 3,
    keySize: 1,
    valueSize: 2,
    valueSizeBytes: 1,
    key: 3,
    value: 2,
    frame: "13 03 02 6b6579 7679",
    length: 8,
  },
  uint16: {
    header: 4,
    keySize: 1,
    valueSize: 2,
    valueSizeBytes: 2,
    key: 3,
    value: 2,
    frame: "13 03 0200 6b6579 7679",
    length: 9,
  },
  uint32: {
    header: 6,
    keySize: 1,
    valueSize: 2,
    valueSizeBytes: 4,
    key: 3,
    value: 2,
    frame: "13 03 02000000 6b6579 7679",
    length: 11,
  },
  uint64: {
    header: 10,
    keySize: 1,
    valueSize: 2,
    valueSizeBytes: 8,
    key: 3,
    value: 2,
    frame: "13 03 0200000000000000 6b6579 7679",
    length: 15,
  },
};

const SET_OF_7_3: Readonly<Record<string, Expected>> = {
  uint8: {
    header: 5,
    keySize: 3,
    valueSize: 4,
    valueSizeBytes: 1,
    key: 3,
    value: 2,
    frame: "05 04 3c 03 02 6b6579 7679",
    length: 10,
  },
  uint16: {
    header: 7,
    keySize: 4,
    valueSize: 5,
    valueSizeBytes: 2,
    key: 3,
    value: 2,
    frame: "05 04 3c00 03 0200 6b6579 7679",
    length: 12,
  },
  uint32: {
    header: 11,
    keySize: 6,
    valueSize: 7,
    valueSizeBytes: 4,
    key: 3,
    value: 2,
    frame: "05 04 3c000000 03 02000000 6b6579 7679",
    length: 16,
  },
  uint64: {
    header: 19,
    keySize: 10,
    valueSize: 11,
    valueSizeBytes: 8,
    key: 3,
    value: 2,
    frame: "05 04 3c00000000000000 03 0200000000000000 6b6579 7679",
    length: 24,
  },
};

const SET_OF_7_1: Readonly<Record<string, Expected>> = {
  uint8: {
    header: 5,
    keySize: 3,
    valueSize: 4,
    valueSizeBytes: 1,
    key: 3,
    value: 2,
    frame: "05 04 3c 03 02 6b6579 7679",
    length: 10,
  },
  uint16: {
    header: 6,
    keySize: 4,
    valueSize: 5,
    valueSizeBytes: 1,
    key: 3,
    value: 2,
    frame: "05 04 3c00 03 02 6b6579 7679",
    length: 11,
  },
  uint32: {
    header: 8,
    keySize: 6,
    valueSize: 7,
    valueSizeBytes: 1,
    key: 3,
    value: 2,
    frame: "05 04 3c000000 03 02 6b6579 7679",
    length: 13,
  },
  uint64: {
    header: 12,
    keySize: 10,
    valueSize: 11,
    valueSizeBytes: 1,
    key: 3,
    value: 2,
    frame: "05 04 3c00000000000000 03 02 6b6579 7679",
    length: 17,
  },
};

/** Consumer of three bytes, resource of two; request id 1. */
const PAIRS: Readonly<Record<string, Expected>> = {
  INSERT: {
    header: 24,
    keySize: 22,
    resourceSize: 23,
    key: 7,
    frame: "01 01000000 0700000000000000 02 3c00000000000000 03 02 636f6e 7265",
    length: 29,
  },
  QUERY: {
    header: 7,
    keySize: 5,
    resourceSize: 6,
    key: 7,
    frame: "02 01000000 03 02 636f6e 7265",
    length: 12,
  },
  UPDATE: {
    header: 17,
    keySize: 15,
    resourceSize: 16,
    key: 7,
    frame: "03 01000000 00 01 0700000000000000 03 02 636f6e 7265",
    length: 22,
  },
  PURGE: {
    header: 7,
    keySize: 5,
    resourceSize: 6,
    key: 7,
    frame: "04 01000000 03 02 636f6e 7265",
    length: 12,
  },
};

interface Case extends Expected {
  title: string;
  dialect: string;
  protocol: Protocol;
  request: Request;
}

const SIZES = ["uint8", "uint16", "uint32", "uint64"];

function casesOf(
  dialect: string,
  size: string | undefined,
  expected: Readonly<Record<string, Expected>>,
): Case[] {
  const protocol = protocolByName(dialect, size)!;
  return Object.entries(expected).map(([name, fields]) => ({
    ...fields,
    title: `${name} of ${dialect}${size === undefined ? "" : `/${size}`}`,
    dialect,
    protocol,
    request: REQUESTS.find((request) => request.name === name)!,
  }));
}

const KNOWN: readonly Case[] = [
  ...SIZES.flatMap((size) => [
    ...casesOf("7.3", size, {
      ...SAME_IN_ALL_SIZES,
      ...COUNTERS[size],
      SET: SET_OF_7_3[size]!,
      PUBLISH: PUBLISHING[size]!,
      CONNECTION: BY_ID,
      EVENT: { ...PUBLISHING[size]!, frame: PUBLISHING[size]!.frame.replace(/^13/, "19") },
    }),
    ...casesOf("7.1", size, {
      ...SAME_IN_ALL_SIZES,
      ...COUNTERS[size],
      SET: SET_OF_7_1[size]!,
      PUBLISH: PUBLISHING[size]!,
      CONNECTION: BY_INDEX,
    }),
    ...casesOf("5", size, {
      QUERY: SAME_IN_ALL_SIZES.QUERY!,
      PURGE: SAME_IN_ALL_SIZES.PURGE!,
      ...COUNTERS[size],
    }),
  ]),
  ...casesOf("2", undefined, PAIRS),
];

const bytesOfFrame = (frame: string): Uint8Array<ArrayBuffer> => unhex(frame.replaceAll(" ", ""));

const layoutOf = ({ protocol, request }: Case): Layout => layoutsOf(protocol)[request.type]!;

const scan = (protocol: Protocol, bytes: Uint8Array): Run =>
  scanRun(layoutsOf(protocol), bytes, 0, bytes.length, MAX, new Float64Array(REQUEST_TYPES_END));

describe.each(KNOWN)("$title", (known) => {
  const layout = layoutOf(known);
  const bytes = bytesOfFrame(known.frame);
  const lengthOf = (end: number): number =>
    frameLength(layoutsOf(known.protocol), bytes, 0, end, MAX);

  it("the frame has its fields where the table puts them", () => {
    expect(layout.name).toBe(known.request.name);
    expect({
      header: layout.headerBytes,
      keySize: layout.keySizeAt,
      resourceSize: layout.pairSizeAt,
      valueSize: layout.valueSizeAt,
      valueSizeBytes: layout.valueSizeBytes,
    }).toEqual({
      header: known.header,
      keySize: known.keySize,
      resourceSize: known.resourceSize ?? 0,
      valueSize: known.valueSize ?? 0,
      valueSizeBytes: known.valueSizeBytes ?? 0,
    });
  });

  it("the header tells the length of the frame", () => {
    expect(bytes.length).toBe(known.length);
    for (let end = 0; end < known.header; end++) expect(lengthOf(end)).toBe(FRAME_INCOMPLETE);
    for (let end = known.header; end <= bytes.length; end++)
      expect(lengthOf(end)).toBe(known.length);
    expect(frameLength(layoutsOf(known.protocol), bytes, 0, bytes.length, known.length)).toBe(
      known.length,
    );
  });

  it("the frame is found behind another one in a stream", () => {
    const stream = new Uint8Array(2 * known.length + 3);
    stream.set(bytes, 3);
    stream.set(bytes, 3 + known.length);
    expect(
      frameLength(layoutsOf(known.protocol), stream, 3 + known.length, stream.length, MAX),
    ).toBe(known.length);
  });

  if (known.key !== undefined) {
    it("the frame is too large when the limit is one byte less", () => {
      const limit = known.length - 1;
      expect(frameLength(layoutsOf(known.protocol), bytes, 0, bytes.length, limit)).toBe(
        FRAME_TOO_LARGE,
      );
    });

    it("the layout says where key and value begin, and how long they are", () => {
      expect(keyLength(layout, bytes, 0)).toBe(known.key);
      if (known.value !== undefined) expect(valueLength(layout, bytes, 0)).toBe(known.value);
      const name = known.dialect === "2" ? "636f6e7265" : "6b6579";
      const key = unhex((known.dialect === "2" ? "0302" : "") + name);
      expect(bytes.subarray(layout.keyAt, layout.keyAt + known.key!)).toEqual(key);
      expect(bytes.subarray(layout.keyAt + known.key!)).toEqual(
        unhex(known.value === undefined ? "" : "7679"),
      );
    });

    it("the name may be empty, or have 255 bytes", () => {
      const { header, keySize, resourceSize, value = 0 } = known;
      const changed = bytes.slice(0, header);
      const shape = (first: number, second: number): number => {
        changed[keySize] = first;
        if (resourceSize !== undefined) changed[resourceSize] = second;
        return frameLength(layoutsOf(known.protocol), changed, 0, header, MAX);
      };
      const resource = resourceSize === undefined ? 0 : 255;
      expect(shape(0, 0)).toBe(header + value);
      expect(shape(255, 0)).toBe(header + 255 + value);
      expect(shape(255, 255)).toBe(header + 255 + resource + value);
    });
  }

  it("the request needs its scope, and is answered by its target", () => {
    expect(layout.scope).toBe(known.request.scope);
    expect(layout.target).toBe(known.request.target);
  });

  it("the reply has a status, or none", () => {
    expect(layout.hasStatus).toBe(known.dialect === "7.1" ? known.request.statusIn71 : true);
  });

  it("frames of the type are scanned as one run unless they ask the whole namespace", () => {
    const two = new Uint8Array(2 * known.length);
    two.set(bytes, 0);
    two.set(bytes, known.length);
    const counts = new Float64Array(REQUEST_TYPES_END);
    const run = scanRun(layoutsOf(known.protocol), two, 0, two.length, MAX, counts);
    const frames = known.request.target === namespace ? 1 : 2;
    expect(run).toMatchObject({
      target: known.request.target,
      frames,
      end: frames * known.length,
      stop: frames === 1 ? RUN_ENDS : FRAME_INCOMPLETE,
    });
    expect([...counts.keys()].filter((type) => counts[type] !== 0)).toEqual([known.request.type]);
    expect(counts[known.request.type]).toBe(frames);
  });
});

describe("request types that a dialect does not have", () => {
  const known: Readonly<Record<string, readonly number[]>> = {
    "7.3": [
      0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x07, 0x08, 0x09, 0x10, 0x11, 0x12, 0x13, 0x14, 0x15,
      0x16, 0x17, 0x18, 0x19,
    ],
    "7.1": [
      0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x07, 0x08, 0x09, 0x10, 0x11, 0x12, 0x13, 0x14, 0x15,
      0x16, 0x17, 0x18,
    ],
    "5": [0x01, 0x02, 0x03, 0x04],
    "2": [0x01, 0x02, 0x03, 0x04],
  };
  const doors: readonly (readonly [dialect: string, size: string | undefined])[] = [
    ...["7.3", "7.1", "5"].flatMap((dialect) => SIZES.map((size) => [dialect, size] as const)),
    ["2", undefined],
  ];

  it.each(doors)(
    "in %s %s every other byte is an unknown type, whatever follows",
    (dialect, size) => {
      const protocol = protocolByName(dialect, size)!;
      const stream = new Uint8Array(600);
      const types = Array.from({ length: 256 }, (_, type) => type).filter((type) => {
        stream[0] = type;
        return frameLength(layoutsOf(protocol), stream, 0, stream.length, MAX) !== FRAME_UNKNOWN;
      });
      expect(types).toEqual(known[dialect]);
    },
  );

  it.each(doors)("in %s %s a scan stops before an unknown type", (dialect, size) => {
    const protocol = protocolByName(dialect, size)!;
    const query = bytesOfFrame(dialect === "2" ? "02 01000000 01 01 61 62" : "02 01 61");
    const stream = new Uint8Array(query.length + 1);
    stream.set(query);
    stream[query.length] = 0x1a;
    expect(scan(protocol, stream)).toMatchObject({
      frames: 1,
      end: query.length,
      stop: FRAME_UNKNOWN,
    });
  });

  it("the tables name each known type once for each size", () => {
    for (const [dialect, types] of Object.entries(known)) {
      const named = KNOWN.filter((one) => one.dialect === dialect).map(({ request }) => request);
      const copies = dialect === "2" ? 1 : 4;
      expect(named.map(({ type }) => type).toSorted((a, b) => a - b)).toEqual(
        types.flatMap((type) => Array.from({ length: copies }, () => type)),
      );
    }
  });
});

describe("value sizes", () => {
  it.each([
    ["7.3", "uint8", "05 04 3c 01 ff 6b", 5 + 1 + 255],
    ["7.3", "uint16", "05 04 3c00 01 0102 6b", 7 + 1 + 513],
    ["7.3", "uint32", "05 04 3c000000 01 01020300 6b", 11 + 1 + 197_121],
    ["7.3", "uint64", "05 04 3c00000000000000 01 0102030000000000 6b", 19 + 1 + 197_121],
    ["7.1", "uint8", "05 04 3c 01 ff 6b", 5 + 1 + 255],
    ["7.1", "uint16", "05 04 3c00 01 ff 6b", 6 + 1 + 255],
    ["7.1", "uint32", "05 04 3c000000 01 ff 6b", 8 + 1 + 255],
    ["7.1", "uint64", "05 04 3c00000000000000 01 ff 6b", 12 + 1 + 255],
    ["7.3", "uint16", "13 01 0102 6b", 4 + 1 + 513],
    ["7.1", "uint16", "13 01 0102 6b", 4 + 1 + 513],
    ["7.3", "uint16", "19 01 0102 6b", 4 + 1 + 513],
    ["7.1", "uint64", "13 01 0102030000000000 6b", 10 + 1 + 197_121],
  ])("the value of %s %s %s has %i bytes of size", (dialect, size, header, length) => {
    const bytes = bytesOfFrame(header);
    const layouts = layoutsOf(protocolByName(dialect, size)!);
    expect(frameLength(layouts, bytes, 0, bytes.length, MAX)).toBe(length);
  });
});

it("requests with different targets are different runs", () => {
  const protocol = protocolByName("7.3", "uint16")!;
  const stream = bytesOfFrame(
    "02 01 61 | 13 01 0000 62 | 11 01 62 | 07 | 07 | 18".replace(/\|/g, ""),
  );
  const ends: [Target, number][] = [];
  for (let at = 0; at < stream.length;) {
    const run = scan(protocol, stream.subarray(at));
    ends.push([run.target, run.frames]);
    at += run.end;
  }
  expect(ends).toEqual([
    [shard, 1],
    [channel, 1],
    [connection, 1],
    [namespace, 1],
    [namespace, 1],
    [connection, 1],
  ]);
});
