/** Ids of connections, and the rows that speak of them. */
import fc from "fast-check";
import { describe, expect, inject, it } from "vitest";
import {
  makeConnectionId,
  ownChannel,
  hubOfChannel,
  hubOfConnection,
} from "../../src/base/connection-id.ts";
import { PageReader, PageWriter } from "../../src/wire/page.ts";
import {
  CONNECTION_ROW_BYTES,
  COUNTED_ROW_BYTES,
  readConnectionRow,
  writeConnectionRow,
  writeFurtherCounts,
  type ConnectionRow,
} from "../../src/wire/throttr/connection-row.ts";
import { REQUEST_TYPES_END, RequestType } from "../../src/wire/throttr/requests.ts";
import { hex } from "../support/frames/index.ts";

const seed = inject("seed");

const place = fc.record({
  location: fc.string({
    unit: fc.integer({ min: 65, max: 90 }).map((code) => String.fromCharCode(code)),
    minLength: 3,
    maxLength: 3,
  }),
  index: fc.nat(255),
});
const random = fc.uint8Array({ minLength: 16, maxLength: 16 });

describe("connection ids", () => {
  it("connection ids are version 4 UUIDs that name their Hub", () => {
    const property = fc.property(place, random, (hub, bytes) => {
      const id = makeConnectionId(hub, bytes);
      expect(hex(id)).toMatch(/^[\da-f]{12}4[\da-f]{3}[89ab][\da-f]{15}$/);
      expect(hubOfConnection(id)).toEqual(hub);
      expect(hubOfChannel(ownChannel(id))).toEqual(hub);
      expect(hubOfChannel(ownChannel(id).toUpperCase() + "g")).toBe(null);
    });
    fc.assert(property, { seed });
  });

  it("connection ids keep all random bits that do not name the Hub", () => {
    const hub = { location: "FRA", index: 7 };
    const property = fc.property(random, (bytes) => {
      const id = makeConnectionId(hub, bytes);
      for (const at of [0, 1, 2, 3, 4, 5, 7, 9, 10, 11, 12]) expect(id[at]).toBe(bytes[at]);
    });
    fc.assert(property, { seed });
    // Ids of one Hub have nothing in common where they name it.
    const ends = Array.from({ length: 256 }, (_, i) => {
      const bytes = new Uint8Array(16).fill(i);
      return makeConnectionId(hub, bytes)[15]!;
    });
    expect(new Set(ends).size).toBeGreaterThan(100);
  });

  it("bytes that are not a connection id are not read as one", () => {
    expect(hubOfConnection(new Uint8Array(16))).toBe(null);
    expect(hubOfConnection(new Uint8Array(15))).toBe(null);
    expect(hubOfChannel("news")).toBe(null);
    expect(hubOfChannel("")).toBe(null);
  });
});

describe("the row of a connection", () => {
  const fieldOf = (ip: string): string => {
    const row = new Uint8Array(CONNECTION_ROW_BYTES);
    writeConnectionRow(row, new DataView(row.buffer), 0, {
      id: new Uint8Array(16),
      kind: 0,
      ip,
      port: 4242,
      connectedAtMs: 0,
      readBytes: 0,
      writeBytes: 0,
      publishedBytes: 0,
      receivedBytes: 0,
      allocatedBytes: 0,
      consumedBytes: 0,
      counts: new Float64Array(32),
    });
    return `${row[18]} ${hex(row.subarray(19, 35))}`;
  };
  const text = (ip: string): string => hex(new TextEncoder().encode(ip)).padEnd(32, "0");

  it.each([
    ["127.0.0.1", `4 ${text("127.0.0.1")}`],
    ["255.255.255.255", `4 ${text("255.255.255.255")}`],
    ["", `4 ${text("")}`],
    ["::1", `6 ${text("::1")}`],
    ["2001:db8::8a2e:1", `6 ${text("2001:db8::8a2e:1")}`],
    ["2001:db8:0:0:8:800:200c:417a", "6 20010db80000000000080800200c417a"],
    ["2001:db8::8:800:200c:417a", "6 20010db80000000000080800200c417a"],
    ["2001:0db8:0000:0000:0000::1", "6 20010db8000000000000000000000001"],
    ["::ffff:192.168.100.200", "6 00000000000000000000ffffc0a864c8"],
  ])(
    "the row of a connection has the address %s as text, or as 16 bytes when the text is too long",
    (ip, expected) => {
      expect(fieldOf(ip)).toBe(expected);
    },
  );
});

describe("a page of connections", () => {
  const counts = new Float64Array(REQUEST_TYPES_END);
  for (const type of [RequestType.insert, RequestType.whoami, RequestType.event, 0x20, 0x35, 0x3f])
    counts[type] = type;
  const row: ConnectionRow = {
    id: Uint8Array.from({ length: 16 }, (_, i) => i * 16 + 1),
    kind: 2,
    ip: "10.0.0.7",
    port: 4711,
    connectedAtMs: 1_790_000_000_123,
    readBytes: 11,
    writeBytes: 12,
    publishedBytes: 13,
    receivedBytes: 14,
    allocatedBytes: 15,
    consumedBytes: 16,
    counts,
  };

  function read(rowBytes: number, written: ConnectionRow): ConnectionRow {
    const page = new PageWriter(rowBytes, 1);
    const at = page.add(Uint8Array.of(1), 0, 1);
    writeConnectionRow(page.bytes, page.view, at, written);
    if (rowBytes === COUNTED_ROW_BYTES) writeFurtherCounts(page.view, at, written);
    const reader = new PageReader(page.take(true));
    expect(reader.next()).toBe(true);
    return readConnectionRow(reader);
  }

  it("a page of connections is read as it was written, with the counts of every request type", () => {
    expect(read(COUNTED_ROW_BYTES, row)).toEqual(row);
  });

  it("a page from a Hub that knows only the row of 7.3 lacks the counts without a place in that row", () => {
    expect(read(CONNECTION_ROW_BYTES, row)).toEqual({
      ...row,
      counts: counts.map((count, type) => (type < RequestType.event ? count : 0)),
    });
  });

  it.each([
    "",
    "127.0.0.1",
    "::1",
    "2001:db8::7",
    "2001:db8:1234:5678:9abc:def0:1234:5678",
    // Sixteen bytes that are ASCII, with colons.
    "2a3a:3a3a:2a3a:3a3a:2a3a:3a3a:2a3a:3a3a",
  ])("a page of connections has a connection from %s", (ip) => {
    expect(read(CONNECTION_ROW_BYTES, { ...row, ip }).ip).toBe(ip);
  });
});
