/** What the dashboard makes of figures, states, rows and streams, before anything is drawn. */
import fc from "fast-check";
import { describe, expect, inject, it } from "vitest";
import {
  countsOfMinute,
  DecisionSamples,
  localShare,
  refusedShare,
  sumOf,
} from "../../src/dashboard/decisions.ts";
import {
  counted,
  formatBytes,
  formatCount,
  formatDuration,
  formatMoment,
  formatRate,
  formatShare,
  formatTile,
  shareOf,
} from "../../src/dashboard/format.ts";
import type { BufferRecord } from "../../src/client/index.ts";
import { indentedJson } from "../../src/dashboard/json-text.ts";
import { losesEnds, withEndsOf } from "../../src/dashboard/line-ends.ts";
import { pointsOfHour } from "../../src/dashboard/last-hour.ts";
import { storedKeyOf } from "../../src/dashboard/limit-record.ts";
import { readLimiterState } from "../../src/dashboard/limiter-state.ts";
import { bytesOfEscaped, bytesOfName, escapedBytes, pathOf } from "../../src/dashboard/names.ts";
import { ratesBetween, Slots } from "../../src/dashboard/rates.ts";
import { EventParser } from "../../src/dashboard/server-sent-events.ts";
import {
  millisecondsOf,
  strategyOf,
  STRATEGIES,
  type StrategyName,
} from "../../src/dashboard/strategies.ts";
import { beginningOf, formsOf, hexOf, nameText, valueIn } from "../../src/dashboard/value-text.ts";
import { ThrottrError } from "../../src/wire/edge/error.ts";
import { configurationOf } from "../../src/wire/edge/limit.ts";
import { tokenBucketCodec } from "../../src/wire/ratelimit/bucket-state.ts";
import { fixedWindowCodec } from "../../src/wire/ratelimit/fixed-window-state.ts";
import { slidingWindowCodec } from "../../src/wire/ratelimit/sliding-window-state.ts";
import { unescaped } from "../../src/worker/escaped-name.ts";

const seed = inject("seed");
const encoder = new TextEncoder();

describe("figures", () => {
  it("figures show all their digits, up to 2^64 - 1", () => {
    expect(formatCount(1_234_567)).toBe("1,234,567");
    expect(formatCount(2n ** 64n - 1n)).toBe("18,446,744,073,709,551,615");
    expect(formatTile(9_999_999)).toBe("9,999,999");
    expect(formatTile(12_345_678)).toBe("12.35M");
    expect([counted(1, "key"), counted(2, "key"), counted(0, "key")]).toEqual([
      "1 key",
      "2 keys",
      "0 keys",
    ]);
  });

  it.each([
    [0, "0.0"],
    [0.01, "< 0.1"],
    [0.05, "0.1"],
    [9.96, "10.0"],
    [99.94, "99.9"],
    [99.95, "100"],
    [12_345.6, "12,346"],
  ])("a rate of %d per second is shown as %s", (rate, text) => {
    expect(formatRate(rate)).toBe(text);
  });

  it.each([
    [0, "0 B"],
    [994.012, "994 B"],
    [1023, "1,023 B"],
    [1023.96, "1.0 KiB"],
    [1536, "1.5 KiB"],
    [1024 ** 2 - 1, "1.0 MiB"],
    [24 << 20, "24.0 MiB"],
    [2 ** 60, "1,024.0 PiB"],
  ])("%d bytes are shown as %s", (bytes, text) => {
    expect(formatBytes(bytes)).toBe(text);
  });

  it.each([
    [-5, "0 s"],
    [1, "1 s"],
    [59_000, "59 s"],
    [59_001, "1 min 00 s"],
    [245_000, "4 min 05 s"],
    [3_599_999, "1 h 00 min"],
    [7_380_000, "2 h 03 min"],
    [86_400_000, "1 d 00 h"],
    [86_400_000 * 3 + 3_600_000 * 4, "3 d 04 h"],
    [86_400_000 * 365 * 58, "58 y"],
  ])("%d ms are shown as %s", (ms, text) => {
    expect(formatDuration(ms)).toBe(text);
  });

  it("a tiny share is not shown as nothing, and a time beyond the calendar is still shown", () => {
    expect([0, 0.0001, 0.005, 0.37, 1].map(formatShare)).toEqual([
      "0 %",
      "0.1 %",
      "0.5 %",
      "37 %",
      "100 %",
    ]);
    expect([shareOf(1, 4), shareOf(5, 4), shareOf(1, 0)]).toEqual([0.25, 1, 0]);
    expect(formatMoment(1e17)).toBe("beyond all calendars");
    expect(formatMoment(0)).toMatch(/19(?:69|70)/);
  });
});

describe("rates", () => {
  const at = (atMs: number, totals: Record<string, number>) => ({ atMs, totals });

  it("rates are what came between two polls, per second", () => {
    expect(ratesBetween(at(1000, { GET: 10 }), at(3000, { GET: 40, SET: 4 }))).toEqual({
      GET: 15,
      SET: 2,
    });
  });

  it("a rate is unknown after one poll, across a long gap, or when the clock stood still", () => {
    expect(ratesBetween(null, at(0, { GET: 1 }))).toBeNull();
    expect(ratesBetween(at(0, {}), at(10_001, {}))).toBeNull();
    expect(ratesBetween(at(5, {}), at(5, {}))).toBeNull();
  });

  it("a total that has gone down lacks the last counts of an object, and has no rate", () => {
    expect(ratesBetween(at(0, { GET: 1000 }), at(1000, { GET: 993 }))).toEqual({ GET: 0 });
  });

  it("rates keep their slots, and the surplus shares the last one", () => {
    const slots = new Slots(2);
    slots.assign({ GET: 0, SET: 1, PURGE: 3 });
    expect(slots.names).toEqual(["PURGE", "SET"]);
    slots.assign({ GET: 100, SET: 50 });
    expect(slots.names).toEqual(["PURGE", "SET"]);
    expect(slots.valuesOf({ GET: 100, SET: 50, LIST: 2 })).toEqual([0, 50, 102]);
  });

  it("free slots go to rates that come later", () => {
    const slots = new Slots(2);
    slots.assign({ GET: 1 });
    slots.assign({ GET: 1, SET: 2, LIST: 3 });
    expect(slots.names).toEqual(["GET", "LIST"]);
  });
});

describe("event streams", () => {
  const STREAM =
    'retry: 3000\n\nid: 0\n\ndata: {"a":1}\n\n: alive\n\nevent: base64\r\ndata: aGk=\r\n\r\ndata:x\ndata: y\n\ndata\n\n';
  const EVENTS = [
    { type: "message", data: '{"a":1}' },
    { type: "base64", data: "aGk=" },
    { type: "message", data: "x\ny" },
    { type: "message", data: "" },
  ];

  it(`events of a stream are the same wherever it is cut (seed ${seed})`, () => {
    const cuts = fc.array(fc.nat(STREAM.length), { maxLength: 12 });
    fc.assert(
      fc.property(cuts, (places) => {
        const parser = new EventParser();
        const ends = [...places.toSorted((a, b) => a - b), STREAM.length];
        const events = ends.flatMap((end, i) => parser.push(STREAM.slice(ends[i - 1] ?? 0, end)));
        expect(events).toEqual(EVENTS);
      }),
      { seed },
    );
  });

  it("an event stream with an endless line is refused", () => {
    const parser = new EventParser();
    parser.push("data: ");
    expect(() => parser.push("x".repeat((4 << 20) + 1))).toThrow("no end of line");
  });
});

describe("states of limiters", () => {
  const NOW_MS = 1_790_000_000_000;
  const nowNs = BigInt(NOW_MS) * 1_000_000n;

  it("limiter states are read as their codecs write them", () => {
    expect(readLimiterState(tokenBucketCodec.encode({ amount: 8.25, atNs: nowNs }))).toEqual({
      strategy: "Token bucket",
      summary: "8.25 tokens left",
      wholeAtMs: null,
      fields: [
        { label: "Tokens left", text: "8.25" },
        { label: "Last refill", atMs: NOW_MS },
      ],
    });
    const windows = [
      { name: "hour", count: 1200, startNs: nowNs },
      { name: "day", count: 3, startNs: nowNs - 5_000_000n },
    ];
    expect(readLimiterState(fixedWindowCodec("x").encode(windows))).toEqual({
      strategy: "Fixed window",
      summary: "hour 1,200 used, day 3 used",
      wholeAtMs: null,
      fields: [
        { label: "hour: used", text: "1,200" },
        { label: "hour: window start", atMs: NOW_MS },
        { label: "day: used", text: "3" },
        { label: "day: window start", atMs: NOW_MS - 5 },
      ],
    });
    const sliding = slidingWindowCodec.encode({ current: 4, previous: 9, startNs: nowNs });
    expect(readLimiterState(sliding)).toMatchObject({ summary: "4 used", fields: { length: 3 } });
    const composite = `51|23|1|day|5|${nowNs}$42|${nowNs}`;
    expect(readLimiterState(composite)).toMatchObject({ summary: "5 used", wholeAtMs: NOW_MS });
  });

  it.each([
    [`11|8|${nowNs}|10|1`, "Token bucket"],
    [`32|1.5|${nowNs}`, "Leaky bucket"],
    [`31|1.5|${nowNs}|10|1`, "Leaky bucket"],
    [`42|${nowNs}`, "GCRA"],
    [`41|${nowNs}|1000|5000`, "GCRA"],
    [`21|5|${nowNs}|60000000000`, "Fixed window"],
    [`22|5|${nowNs}|`, "Fixed window"],
    [`51|23|1|day|5|${nowNs}$42|${nowNs}`, "Composite: fixed window and GCRA"],
    [`cmp1|22|5|${nowNs}|$11|8|${nowNs}|10|1`, "Composite: fixed window and token bucket"],
  ])("a limiter state of every version is read that names its strategy: %s", (text, strategy) => {
    expect(readLimiterState(text)?.strategy).toBe(strategy);
  });

  it.each([
    "",
    "12",
    "12|8",
    "12|x|1",
    "99|1|2",
    "v1|8|5|10|1",
    "51|12|1|2",
    "hello",
    "51|hello$42|5",
    `12|8|${"1".repeat(2000)}`,
  ])("a damaged limiter state is not read as a state: %s", (text) => {
    expect(readLimiterState(text)).toBeNull();
  });
});

describe("values", () => {
  it("values are shown as JSON, text or hex, the most telling form first", () => {
    expect(formsOf(encoder.encode('{"a":[1]}'))).toEqual(["json", "text", "hex"]);
    expect(formsOf(encoder.encode("12"))).toEqual(["text", "hex"]);
    expect(formsOf(encoder.encode("{not json"))).toEqual(["text", "hex"]);
    expect(formsOf(Uint8Array.of(0xff))).toEqual(["hex"]);
  });

  it("JSON has the numbers and names of the value, also those that JavaScript has no numbers for", () => {
    expect(indentedJson(' [1, {"a": 2,"b":[], "c" : { } }]', 1000)).toBe(
      '[\n  1,\n  {\n    "a": 2,\n    "b": [],\n    "c": {}\n  }\n]',
    );
    const shown = valueIn("json", encoder.encode('{"id":9007199254740993,"x":1e400,"id":-0}'));
    expect(shown.text).toBe('{\n  "id": 9007199254740993,\n  "x": 1e400,\n  "id": -0\n}');
  });

  it(`JSON is indented as JavaScript does it (seed ${seed})`, () => {
    const spaces = fc.constantFrom(undefined, 1, "\t", "\n");
    fc.assert(
      fc.property(fc.jsonValue(), spaces, (value, space) => {
        const text = JSON.stringify([value, value], null, space);
        expect(indentedJson(text, Infinity)).toBe(JSON.stringify(JSON.parse(text), null, 2));
      }),
      { seed },
    );
  });

  it("the dashboard says that a value is cut if it is long as it is shown", () => {
    const list = encoder.encode(`[${"1,".repeat(20_000)}1]`);
    expect(valueIn("text", list).isCut).toBe(false);
    const json = valueIn("json", list);
    expect([json.isCut, json.text.length]).toEqual([true, 65_536]);
    const deep = encoder.encode("[".repeat(100_000) + "]".repeat(100_000));
    expect(valueIn("json", deep).text.length).toBe(65_536);
    expect(valueIn("text", encoder.encode("é".repeat(65_536))).isCut).toBe(false);
  });

  it("a changed value keeps CRLF at the ends of its lines, and one that was not changed all that it has", () => {
    expect(withEndsOf("a\r\nb\r\n", "a\nc\n")).toBe("a\r\nc\r\n");
    expect(withEndsOf("a\nb", "a\nc")).toBe("a\nc");
    expect(withEndsOf("a", "a\nc")).toBe("a\nc");
    for (const mixed of ["a\r\nb\n", "a\rb", "a\n\r\n", "a\r"]) {
      expect(losesEnds(mixed)).toBe(true);
      expect(withEndsOf(mixed, mixed.replace(/\r\n?/g, "\n"))).toBe(mixed);
      expect(withEndsOf(mixed, "x\ny")).toBe("x\ny");
    }
    expect(["a\r\nb\r\n", "a\nb", "", "a"].map(losesEnds)).not.toContain(true);
  });

  it("a message that is cut in the middle of a character is shown as text", () => {
    const message = encoder.encode("aé😀");
    const shown = [2, 3, 4, 5, 6].map((bytesMax) => beginningOf(message, bytesMax));
    expect(shown.map(({ text }) => text)).toEqual(["a", "aé", "aé", "aé", "aé"]);
    expect(shown.every(({ isCut, isHex }) => isCut && !isHex)).toBe(true);
    expect(beginningOf(message, 7)).toEqual({ text: "aé😀", isCut: false, isHex: false });
    // Without its end the message itself is not text.
    expect(beginningOf(message.subarray(0, 6), 6).isHex).toBe(true);
  });

  it("hex has sixteen bytes in a row", () => {
    const rows = hexOf(Uint8Array.from({ length: 18 }, (_, i) => i + 0x40)).split("\n");
    expect(rows).toEqual([
      "000000  40 41 42 43 44 45 46 47 48 49 4a 4b 4c 4d 4e 4f  @ABCDEFGHIJKLMNO",
      "000010  50 51                                            PQ",
    ]);
    expect(hexOf(Uint8Array.of(0, 0x7f))).toContain("··");
  });

  it("long values are cut", () => {
    const long = new Uint8Array(100_000).fill(0x61);
    const text = valueIn("text", long);
    expect([text.isCut, text.text.length]).toEqual([true, 65_536]);
    const hex = valueIn("hex", long);
    expect(hex.isCut).toBe(true);
    expect(hex.text.split("\n")).toHaveLength(4096);
  });

  it("names are shown on one line", () => {
    expect(nameText(encoder.encode("user:é"))).toBe("user:é");
    expect(nameText(encoder.encode("a\nb"))).toBe("a\\x0ab");
    expect(nameText(Uint8Array.of(0xff, 0x41, 0x5c))).toBe("\\xffA\\x5c");
    expect(nameText(new Uint8Array(0))).toBe("(empty)");
  });

  it(`no two names look alike (seed ${seed})`, () => {
    expect(nameText(encoder.encode("a\\x00"))).toBe("a\\x5cx00");
    expect(nameText(encoder.encode("DOMAIN\\user"))).toBe("DOMAIN\\user");
    expect(nameText(encoder.encode("(empty)"))).toBe("\\x28empty)");
    // Pages show spaces in a row as one, and none at an end.
    expect(
      ["a b", "a  b", " a b", "a b ", "a\u00a0b"].map((n) => nameText(encoder.encode(n))),
    ).toEqual(["a b", "a\\x20\\x20b", "\\x20a\\x20b", "a\\x20b\\x20", "a\\xc2\\xa0b"]);
    const part = fc.constantFrom(
      "a",
      "\\",
      "\\x5c",
      "\\x00",
      "\\X00",
      "x00",
      "\0",
      "é",
      "\xff",
      "(empty)",
    );
    const name = fc.array(part, { maxLength: 4 }).map((parts) =>
      // The part of one byte that is not UTF-8.
      Buffer.concat(parts.map((text) => Buffer.from(text, text === "\xff" ? "latin1" : "utf8"))),
    );
    fc.assert(
      fc.property(name, name, (one, other) => {
        expect(nameText(one) === nameText(other)).toBe(one.equals(other));
      }),
      { seed, numRuns: 5000 },
    );
  });
});

describe("names of the JSON door", () => {
  it(`names pass through a path unchanged (seed ${seed})`, () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 40 }), (name) => {
        const url = new URL(
          pathOf("/v1/semaphores/", "name", name, "/holders"),
          "http://localhost",
        );
        const [, part] = /^\/v1\/semaphores\/([\w%-]+)\/holders$/.exec(url.pathname)!;
        const elsewhere = /^\?name=([%\w]*)$/.exec(url.search)?.[1];
        expect(Uint8Array.from(unescaped(elsewhere ?? part!)!, (c) => c.charCodeAt(0))).toEqual(
          name,
        );
      }),
      { seed },
    );
  });

  it.each(["", ".", ".."])("names that a path cannot have go into the query: %j", (name) => {
    const path = pathOf("/v1/semaphores/", "name", encoder.encode(name), "/holders?limit=9");
    const escaped = name.replaceAll(".", "%2e");
    expect(path).toBe(`/v1/semaphores/-/holders?limit=9&name=${escaped}`);
    expect(new URL(path, "http://localhost").pathname).toBe("/v1/semaphores/-/holders");
  });

  it(`names pass through the address of the dashboard unchanged (seed ${seed})`, () => {
    fc.assert(
      fc.property(fc.uint8Array(), (name) => {
        expect(bytesOfEscaped(escapedBytes(name))).toEqual(name);
      }),
      { seed },
    );
    expect(bytesOfEscaped("a:é%zz")).toEqual(encoder.encode("a:é%zz"));
  });

  it("names are shown as text, or as base64 when they are not text", () => {
    expect(bytesOfName({ name: "é" }, "name")).toEqual(encoder.encode("é"));
    expect(bytesOfName({ nameBase64: "/wA=" }, "name")).toEqual(Uint8Array.of(255, 0));
  });
});

describe("records of limits", () => {
  /** Calls of a server that has these keys; a counter is of another kind. */
  const serverOf = (keys: Readonly<Record<string, "buffer" | "counter">>) => ({
    asked: [] as string[],
    get(key: string | Uint8Array) {
      const name = Buffer.from(key).toString();
      this.asked.push(name);
      if (Buffer.from(key).length > 255)
        return Promise.reject(new ThrottrError("key_invalid", "long"));
      if (keys[name] === "counter")
        return Promise.reject(new ThrottrError("kind_mismatch", "counter"));
      return Promise.resolve(keys[name] === undefined ? null : ({} as BufferRecord));
    },
  });
  const { signal } = new AbortController();

  it.each([
    [{ "a:1": "buffer" }, "a:1"],
    [{ "a:1:c": "buffer" }, "a:1:c"],
    [{ "a:1": "counter", "a:1:c": "buffer" }, "a:1"],
    [{}, "a:1"],
  ] as const)("of %j the state of a limit is in %s", async (keys, stored) => {
    const found = await storedKeyOf(serverOf(keys), encoder.encode("a:1"), signal);
    expect(Buffer.from(found).toString()).toBe(stored);
  });

  it.each([254, 255])("a key of %d bytes is that of no composite", async (length) => {
    const key = "k".repeat(length);
    const server = serverOf({ [key]: "buffer" });
    expect(Buffer.from(await storedKeyOf(server, encoder.encode(key), signal)).toString()).toBe(
      key,
    );
    expect(server.asked).toEqual([]);
  });
});

describe("limiter forms", () => {
  const fields: Readonly<Record<string, string>> = {
    burst: "10",
    rate: "0.5",
    limit: "7",
    window: "2",
    unit: "min",
    secondary: "gcra",
    "name.0": "hour",
    "limit.0": "100",
    "window.0": "1",
    "unit.0": "h",
    "name.1": "day",
    "limit.1": "500",
    "window.1": "1",
    "unit.1": "d",
  };
  const field = (name: string): string => fields[name] ?? "";

  it("the form makes strategies that limiters accept", () => {
    for (const name of Object.keys(STRATEGIES) as StrategyName[]) {
      expect(configurationOf(strategyOf(name, field, 2)).strategy).toBe(name);
    }
    expect(strategyOf("composite", field, 2)).toEqual({
      strategy: "composite",
      primary: {
        strategy: "fixed_window",
        quotas: [
          { name: "hour", limit: 100, windowMs: 3_600_000 },
          { name: "day", limit: 500, windowMs: 86_400_000 },
        ],
      },
      secondary: { strategy: "gcra", burst: 10, rate: 0.5 },
    });
  });

  it("the form leaves wrong values to the limiter, which names the field", () => {
    const zero = (name: string): string => (name.startsWith("unit") ? "s" : "0");
    expect(() => configurationOf(strategyOf("token_bucket", zero, 1))).toThrow(/burst/);
    expect(() => configurationOf(strategyOf("fixed_window", zero, 1))).toThrow(/quotas\[0\]/);
  });

  it.each([
    ["token_bucket", "burst", "", 'burst_invalid: burst: expected a number, got ""'],
    ["gcra", "rate", "abc", 'rate_invalid: rate per second: expected a number, got "abc"'],
    ["sliding_window", "limit", "1,5", 'limit_invalid: limit: expected a number, got "1,5"'],
    ["sliding_window", "window", "x", 'window_invalid: window: expected a number, got "x"'],
    ["composite", "limit.1", "-", 'limit_invalid: quota 2: limit: expected a number, got "-"'],
    [
      "fixed_window",
      "window.0",
      " ",
      'window_invalid: quota 1: window: expected a number, got " "',
    ],
  ] as const)(
    "the form names the field that is not a number: %s, %s",
    (strategy, wrong, text, message) => {
      const read = (name: string): string => (name === wrong ? text : field(name));
      expect(() => strategyOf(strategy, read, 2)).toThrow(
        new ThrottrError(message.split(":")[0]!, message.slice(message.indexOf(": ") + 2)),
      );
    },
  );

  it("the form reads units of time", () => {
    expect(millisecondsOf("1.5", "s")).toBe(1500);
    expect(millisecondsOf("", "s")).toBeNaN();
    expect(millisecondsOf("1", "weeks")).toBeNaN();
    expect(millisecondsOf("1", "toString")).toBeNaN();
  });
});

describe("the last hour", () => {
  const MINUTE_MS = 60_000;
  const nowMs = 1_700_000_065_000;
  const current = nowMs - (nowMs % MINUTE_MS);
  const minute = (ago: number): number => current - ago * MINUTE_MS;
  const options = { lines: 1, nowMs };

  it("a chart of the last hour has a point at the end of each minute, and one for the present", () => {
    const points = pointsOfHour(new Map(), [], options);
    expect(points).toHaveLength(60);
    expect(points.at(-1)!.atMs).toBe(nowMs);
    expect(points.at(-2)!.atMs).toBe(current);
    expect(points[0]!.atMs).toBe(minute(58));
    expect(points.every(({ values }) => values === null)).toBe(true);
  });

  it("counts of a minute are shown per second, and a minute that is not listed was quiet", () => {
    const counts = new Map([
      [minute(10), [600]],
      [minute(8), [60]],
      [minute(7), null],
    ]);
    const values = pointsOfHour(counts, [], options).map(({ values }) => values?.[0] ?? null);
    expect(values.slice(-13, -8)).toEqual([null, null, 10, 0, 1]);
    expect(values.slice(-8).every((value) => value === null)).toBe(true);
  });

  it("minutes that the server does not know yet are the mean of what was seen", () => {
    const seen = (ms: number, value: number | null) => ({
      atMs: ms,
      values: value === null ? null : [value],
    });
    const live = [
      seen(minute(2), 99),
      seen(minute(1), 2),
      seen(minute(1) + 59_999, 4),
      seen(current, null),
      seen(current + 1000, 7),
    ];
    const counts = new Map([[minute(2), [60]]]);
    const values = pointsOfHour(counts, live, options).map(({ values }) => values?.[0] ?? null);
    expect(values.slice(-4)).toEqual([null, 1, 3, 7]);
  });
});

describe("decisions of limiters", () => {
  const rate = (total: number, perMinute = 0) => ({ total, perMinute });
  const rates = (allowed: number, refused: number, errors = 0, local = 0) => ({
    allowed: rate(allowed, allowed),
    refused: rate(refused, refused),
    errors: rate(errors, errors),
    local: rate(local, local),
  });

  it("the sum of limiters includes those that are not told apart", () => {
    const limits = [
      { name: "a", ...rates(1, 2, 3, 1) },
      { name: "b", ...rates(10, 20, 30, 25) },
    ];
    expect(sumOf({ limits, others: rates(100, 200, 300) })).toEqual(rates(111, 222, 333, 26));
    expect(sumOf({ limits: [], others: null })).toEqual(rates(0, 0));
  });

  it("the refused share is of the last minute, and of no decisions there is none", () => {
    expect(refusedShare(rates(1, 3))).toBe(0.75);
    expect(refusedShare({ ...rates(5, 5), allowed: rate(5), refused: rate(5) })).toBeNull();
  });

  it("the local share is of all decisions of the last minute, and of no decisions there is none", () => {
    expect(localShare(rates(5, 3, 9, 6))).toBe(0.75);
    // Decisions and those among them are rounded one by one.
    expect(localShare(rates(1, 0, 0, 2))).toBe(1);
    expect(localShare(rates(0, 0, 1, 0))).toBeNull();
  });

  it("rates come from two answers of the same shards", () => {
    const samples = new DecisionSamples();
    const add = (atMs: number, allowed: number, refused: number, unreachableShards: number[]) =>
      samples.add({ atMs, rates: rates(allowed, refused), unreachableShards });
    add(0, 10, 20, []);
    expect(samples.rates).toBeNull();
    add(2000, 30, 21, []);
    expect(samples.rates).toEqual({ allowed: 10, refused: 0.5, errors: 0 });
    // Without the totals of shard 1, and with them again.
    add(4000, 10, 10, [1]);
    expect(samples.rates).toBeNull();
    add(6000, 50, 30, []);
    expect(samples.rates).toBeNull();
    add(8000, 50, 32, []);
    expect(samples.points).toEqual([
      { atMs: 0, values: null },
      { atMs: 2000, values: [10, 0.5] },
      { atMs: 4000, values: null },
      { atMs: 6000, values: null },
      { atMs: 8000, values: [0, 1] },
    ]);
  });

  it("a limiter that a minute of the history leaves out had no decisions only if those that it names had all", () => {
    const counts = (allowed: number, errors = 0) => ({ allowed, refused: 1, errors });
    const byLimit = { api: counts(20), login: counts(3, 7) };
    const of = (allowed: number, name: string | null, named: typeof byLimit | object = byLimit) =>
      countsOfMinute({ limits: { allowed, refused: 2, errors: 7 }, byLimit: { ...named } }, name);
    expect(of(500, null)).toEqual([500, 2]);
    expect(of(23, "login")).toEqual([3, 1]);
    expect(of(23, "other")).toEqual([0, 0]);
    expect(of(23, "toString")).toEqual([0, 0]);
    expect(of(24, "other")).toBeNull();
    // Names of a minute get lost with a report, and its sums come with the next one.
    expect(of(23, "other", {})).toBeNull();
  });
});
