/** The checkers of records: they accept what the server promises, and refuse forged histories with the promise that is broken. */
import { describe, expect, it } from "vitest";
import { ClockHistory } from "../../simulator/checks/clocks.ts";
import { History, Moments } from "../../simulator/checks/history.ts";
import {
  checkRecords,
  checkReplyOrder,
  type RecordCall,
  type RecordTerms,
} from "../../simulator/checks/records.ts";
import {
  leftOfMs,
  leftOfTtl,
  type RecordAnswer,
  type RecordOperation,
} from "../../support/models/record.ts";
import { forge, type ForgedCall } from "../../support/simulator/forge.ts";

const KEPT_MS = 10_000;

const termsOf = (clocks = new ClockHistory()): RecordTerms => ({
  clocks,
  objectOf: () => "shard 0",
  answersKept: { fromMs: KEPT_MS, toMs: KEPT_MS },
});

type Forged = ForgedCall<RecordOperation, RecordAnswer>;
type More = Partial<Forged>;

const ms = (count: number) => ({ count, unit: 3 });
const HOUR = ms(3_600_000);
/** A life that ends beyond the range, and what is left of it: until the year 2554. */
const FAR = ms(2 ** 44);
const FAR_LEFT = 16_651_375_770_000n;
const key = "k";
const throttr = { key, dialect: "throttr" } as const;
const edge = { key, dialect: "edge" } as const;

const insert = (quota: bigint, ttl = HOUR): RecordOperation => ({
  ...throttr,
  name: "insert",
  quota,
  ttl,
});
const set = (value: string, ttl = HOUR): RecordOperation => ({
  ...throttr,
  name: "set",
  value,
  ttl,
});
const add = (by: bigint, once?: string): RecordOperation => ({
  ...edge,
  name: "increment",
  by,
  ttl: HOUR,
  ...(once === undefined ? {} : { once }),
});
const change = (change: "patch" | "increase" | "decrease", amount: bigint): RecordOperation => ({
  ...throttr,
  name: "change",
  change,
  amount,
});
const expire = (change: "patch" | "increase" | "decrease", amount: number): RecordOperation => ({
  ...edge,
  name: "expire",
  change,
  amount,
  unit: 3,
});
const swap = (expected: string | null, value: string | null): RecordOperation => ({
  ...edge,
  name: "compareAndSet",
  expected,
  value,
  ttl: HOUR,
});
const query: RecordOperation = { ...throttr, name: "query" };
const get: RecordOperation = { ...throttr, name: "get" };
const purge: RecordOperation = { ...throttr, name: "purge" };

const ok: RecordAnswer = { success: true };
const no: RecordAnswer = { success: false };
const at = (quota: bigint): RecordAnswer => ({ success: true, record: { quota } });
const holding = (value: string): RecordAnswer => ({ success: true, record: { value } });

const call = (
  begunMs: number,
  endedMs: number | null,
  operation: RecordOperation,
  outcome: Forged["outcome"],
  more: More = {},
): Forged => ({ begunMs, endedMs, operation, outcome, ...more });
const unknown = (begunMs: number, operation: RecordOperation, more: More = {}): Forged =>
  call(begunMs, null, operation, "unknown", more);

function judge(calls: readonly Forged[], terms = termsOf()) {
  return checkRecords(forge(calls), terms);
}

type Case = readonly [title: string, calls: readonly Forged[], clocks?: ClockHistory];

function clockOf(...steps: [atMs: number, offsetMs: number][]): ClockHistory {
  const clocks = new ClockHistory();
  for (const [atMs, offsetMs] of steps) clocks.set("shard 0", atMs, offsetMs);
  return clocks;
}

/** The shard restarts at a moment, and its clock is so much ahead from then on; before that it is 33 s ahead. */
function restartAt(atMs: number, offsetMs: number): ClockHistory {
  const clocks = clockOf([-10_000, 33_000], [atMs, offsetMs]);
  clocks.start("shard 0", atMs);
  return clocks;
}

const CORRECT: readonly Case[] = [
  ["without a call", []],
  [
    "of counters",
    [
      call(0, 5, insert(3n), ok),
      call(6, 8, insert(4n), no),
      call(9, 12, change("increase", 2n), ok),
      call(13, 15, change("decrease", 6n), no),
      call(16, 18, add(5n), at(10n)),
      call(20, 25, query, at(10n)),
      call(26, 27, get, no),
      call(28, 29, purge, ok),
      call(30, 31, purge, no),
      call(32, 33, query, { success: false, record: null }),
    ],
  ],
  [
    "of buffers",
    [
      call(0, 5, set("a"), ok),
      call(6, 7, set("bc"), ok),
      call(8, 9, get, holding("bc")),
      call(10, 11, query, no),
      call(12, 13, add(1n), { code: "kind_mismatch" }),
      call(14, 15, swap("a", "x"), { success: false, record: { value: "bc" } }),
      call(16, 17, swap("bc", "x"), ok),
      call(18, 19, swap("x", null), ok),
      call(20, 21, swap(null, "new"), ok),
      call(22, 23, get, holding("new")),
    ],
  ],
  [
    "of equal calls on two connections, where another comes before the one that ends first",
    [
      call(0, 1, set("a"), ok),
      call(2, 20, purge, ok, { connection: 1 }),
      call(3, 10, set("b"), ok, { connection: 2 }),
      call(4, 11, purge, ok, { connection: 2 }),
    ],
  ],
  [
    "of a long answer that is not kept for its idempotency key",
    [
      call(0, 1, set("x".repeat(2000)), ok),
      call(
        2,
        3,
        { ...swap("a", "b"), once: "k" },
        {
          success: false,
          record: { value: "x".repeat(2000) },
        },
      ),
      call(4, 5, set("y".repeat(2000)), ok),
      call(
        6,
        7,
        { ...swap("a", "b"), once: "k" },
        {
          success: false,
          record: { value: "y".repeat(2000) },
        },
      ),
    ],
  ],
  [
    "of a clock that went back: callers get the platform's time, of which more is left",
    [
      call(0, 10, insert(1n), ok),
      call(70, 80, expire("patch", 1000), { success: true, record: { left: leftOfMs(1111) } }),
    ],
    clockOf([-10_000, 50_000], [20, 0]),
  ],
  [
    "of a restart with a clock that went back: the shard continues from the time of its last row, though a read has seen a later time",
    [
      call(0, 1, insert(1n, ms(3458)), ok),
      call(70, 71, query, { success: true, record: { left: leftOfMs(3388) } }),
      call(1450, 1460, query, { success: true, record: { left: leftOfMs(3842) } }),
    ],
    restartAt(1400, 0),
  ],
  [
    "of a record that has ended, and that a read finds again where its shard restarted with a clock that went back",
    [
      call(0, 1, insert(1n, ms(88)), ok),
      call(200, 201, expire("patch", 3_600_000), { record: null }),
      call(450, 451, query, at(1n)),
      call(700, 701, query, no),
    ],
    restartAt(400, 0),
  ],
  [
    "of a clock that went forwards while the shard was ahead: that adds up",
    [
      call(0, 10, insert(1n), ok),
      call(70, 80, expire("patch", 3_600_000), {
        success: true,
        record: { left: leftOfMs(3_695_000) },
      }),
    ],
    clockOf([-10_000, 50_000], [20, 0], [30, 50_000], [40, 0]),
  ],
  ["of calls at once, in either order", [call(0, 9, add(1n), at(3n)), call(1, 8, add(2n), at(2n))]],
  [
    "of an unknown call that took effect long after its client gave up",
    [
      call(0, 1, insert(0n), ok),
      call(2, 3, add(7n), "unknown"),
      call(4, 5, query, at(0n)),
      call(90, 91, query, at(7n)),
    ],
  ],
  [
    "of unknown calls, some of which took effect",
    [
      call(0, 1, insert(0n), ok),
      ...[1n, 2n, 4n, 8n].map((by, i) => unknown(2 + i, add(by))),
      call(10, 11, query, at(10n)),
      call(12, 13, query, at(11n)),
    ],
  ],
  [
    "of a refused call",
    [call(0, 1, insert(1n), ok), call(2, 3, add(5n), "refused"), call(4, 5, query, at(1n))],
  ],
  [
    "of quotas that are too large for their reader",
    [
      call(0, 1, insert(1000n), ok),
      call(2, 3, { ...throttr, name: "query", valueBytes: 1 }, at(255n)),
      call(4, 5, { ...throttr, name: "change", change: "increase", amount: 1n, valueBytes: 1 }, no),
    ],
  ],
  [
    "of the range of a quota",
    [
      call(0, 1, insert(2n ** 64n - 1n), ok),
      call(2, 3, change("increase", 1n), no),
      call(4, 5, add(1n), { code: "quota_overflow" }),
      call(6, 7, query, at(2n ** 64n - 1n)),
    ],
  ],
  [
    "of dialect 2",
    [
      call(0, 1, { key, dialect: "pairs", name: "insert", quota: 5n, ttl: HOUR }, ok),
      call(2, 3, { key, dialect: "pairs", name: "insert", quota: 6n, ttl: HOUR }, ok),
      call(4, 5, { key, dialect: "pairs", name: "change", change: "decrease", amount: 9n }, ok),
      call(6, 7, { key, dialect: "pairs", name: "query" }, at(0n)),
    ],
  ],
  [
    "of a record that is read before and after its end",
    [
      call(0, 10, insert(1n, ms(1000)), ok),
      call(980, 990, query, { success: true, record: { quota: 1n, left: leftOfTtl(15n, 3) } }),
      call(1020, 1025, query, no),
      call(1030, 1035, insert(2n), ok),
    ],
  ],
  [
    "of a record that ends during a call: it is there",
    [
      call(0, 10, insert(1n, ms(1000)), ok),
      call(990, 1015, query, at(1n)),
      call(1020, 1030, query, no),
    ],
  ],
  [
    "of a record that ends during a call: it is gone",
    [call(0, 10, insert(1n, ms(1000)), ok), call(990, 1015, query, no)],
  ],
  [
    "of an end beyond the range, which comes nearer from read to read",
    [
      call(0, 1, insert(1n, FAR), ok),
      call(2, 3, query, { success: true, record: { left: leftOfTtl(FAR_LEFT, 3) } }),
      call(900, 901, query, { success: true, record: { left: leftOfTtl(FAR_LEFT - 898n, 3) } }),
    ],
  ],
  [
    "of an end beyond the range that was brought near, and pushed back a little",
    [
      call(0, 1, insert(1n, FAR), ok),
      call(2, 3, expire("decrease", Number(FAR_LEFT) - 200), ok),
      call(4, 5, expire("increase", 100), ok),
      call(900, 901, query, no),
    ],
  ],
  [
    "of changed TTLs",
    [
      call(0, 10, insert(1n, ms(1000)), ok),
      call(20, 30, expire("increase", 1000), { record: { left: leftOfMs(1980) } }),
      call(1500, 1510, query, at(1n)),
      call(1520, 1530, expire("patch", 100), { record: { left: leftOfMs(100) } }),
      call(1640, 1650, query, no),
    ],
  ],
  [
    "of a TTL that is moved into the past",
    [
      call(0, 10, insert(1n, ms(1000)), ok),
      call(20, 30, expire("decrease", 2000), { record: null }),
      call(31, 32, query, no),
    ],
  ],
  [
    "of a clock that jumped forwards, and ended a record early",
    [call(0, 10, insert(1n, ms(60_000)), ok), call(200, 210, query, no)],
    clockOf([100, 90_000]),
  ],
  [
    "of a clock that went back, and let a record live a ninth longer",
    [
      call(0, 10, insert(1n, ms(60_000)), ok),
      call(65_000, 65_010, query, at(1n)),
      call(67_000, 67_010, query, no),
    ],
    clockOf([-10_000, 50_000], [-5000, 0]),
  ],
  [
    "of calls that are repeated under one idempotency key",
    [
      call(0, 1, add(2n, "x"), "unknown"),
      call(2, 3, add(2n, "x"), at(2n)),
      call(4, 5, add(1n), at(3n)),
      call(6, 7, add(2n, "x"), at(2n)),
      call(8, 9, query, at(3n)),
    ],
  ],
  [
    "of a repeated call whose first arrives last",
    [
      unknown(0, add(2n, "x")),
      call(2, 3, add(2n, "x"), at(2n)),
      call(8, 9, query, at(2n)),
      call(10, 11, query, at(2n)),
    ],
  ],
  [
    "of an idempotency key that is forgotten",
    [call(0, 1, add(2n, "x"), at(2n)), call(KEPT_MS + 10, KEPT_MS + 11, add(2n, "x"), at(4n))],
  ],
  [
    "of an idempotency key that is forgotten right after a repetition",
    [
      call(0, 1, add(2n, "x"), at(2n)),
      call(KEPT_MS - 20, KEPT_MS - 10, add(2n, "x"), at(2n)),
      call(KEPT_MS + 10, KEPT_MS + 11, add(2n, "x"), at(4n)),
    ],
  ],
  [
    "of an idempotency key that is forgotten right after a repetition, whose first call got no answer",
    [
      call(0, 1, add(2n, "x"), "unknown"),
      call(KEPT_MS - 20, KEPT_MS - 10, add(2n, "x"), at(2n)),
      call(KEPT_MS + 10, KEPT_MS + 11, add(2n, "x"), at(4n)),
    ],
  ],
  [
    "of an idempotency key that is used for another call",
    [call(0, 1, add(2n, "x"), at(2n)), call(2, 3, add(3n, "x"), { code: "idempotency_conflict" })],
  ],
  [
    "of an idempotency key of a call that failed",
    [
      call(0, 1, set("a"), ok),
      call(2, 3, add(2n, "x"), { code: "kind_mismatch" }),
      call(4, 5, purge, ok),
      call(6, 7, add(2n, "x"), at(2n)),
    ],
  ],
  [
    "of a connection whose requests are under way together",
    [
      call(0, 10, set("a"), ok, { connection: 1 }),
      call(1, 11, get, holding("a"), { connection: 1 }),
      call(2, 12, set("b"), ok, { connection: 1 }),
      call(3, 13, get, holding("b"), { connection: 1 }),
    ],
  ],
];

describe("a correct history is accepted", () => {
  for (const [title, calls, clocks] of CORRECT) {
    it(title, () => {
      const { violations, undecided } = judge(calls, termsOf(clocks));
      expect(violations.map(({ promise, message }) => `${promise}: ${message}`)).toEqual([]);
      expect(undecided).toEqual([]);
    });
  }
});

type ForgedCase = readonly [
  title: string,
  promise: string,
  message: RegExp,
  calls: readonly Forged[],
  clocks?: ClockHistory,
];

const FORGED: readonly ForgedCase[] = [
  [
    "an end beyond the range that was brought nearer by an hour, and a record that is gone",
    "Order per key",
    /more than 15999996\d+ ms left/,
    [
      call(0, 1, insert(1n, FAR), ok),
      call(2, 3, expire("decrease", 3_600_000), ok),
      call(4, 5, query, no),
    ],
  ],
  [
    "a lost write",
    "Durable before the reply",
    /an acknowledged write is lost: INCREMENT by 2 [^\n]*#3/,
    [
      call(0, 1, add(1n), at(1n)),
      call(2, 3, add(2n), at(3n)),
      call(4, 5, query, at(1n)),
      call(6, 7, query, at(1n)),
    ],
  ],
  [
    "a lost new record",
    "Durable before the reply",
    /an acknowledged write is lost: SET "a"/,
    [call(0, 1, set("a"), ok), call(4, 5, get, no), call(6, 7, get, no)],
  ],
  [
    "a write that shows itself and is gone in the final read",
    "Durable before the reply",
    /an acknowledged write is lost after it was read: SET "b"/,
    [
      call(0, 1, set("a"), ok),
      call(2, 3, set("b"), ok),
      call(4, 5, get, holding("b")),
      call(6, 7, get, holding("a")),
      call(8, 9, get, holding("a")),
    ],
  ],
  [
    "a stale read",
    "Order per key",
    /a stale read/,
    [
      call(0, 1, add(1n), at(1n)),
      call(2, 3, add(2n), at(3n)),
      call(4, 5, query, at(1n)),
      call(6, 7, query, at(3n)),
    ],
  ],
  [
    "a read of what never was",
    "Order per key",
    /a stale read, or one of what never was/,
    [call(0, 1, set("a"), ok), call(2, 3, get, holding("b")), call(4, 5, get, holding("a"))],
  ],
  [
    "two calls at once that got the same number",
    "Durable before the reply",
    /an acknowledged write is lost: INCREMENT by 1/,
    [call(0, 9, add(1n), at(1n)), call(1, 8, add(1n), at(1n))],
  ],
  [
    "a refused call that took effect",
    "Order per key",
    /without it all other calls have an order|no order/,
    [call(0, 1, insert(1n), ok), call(2, 3, add(5n), "refused"), call(4, 5, query, at(6n))],
  ],
  [
    "an unknown call that took effect twice",
    "Order per key",
    /answered: success, counter 2/,
    [
      call(0, 1, insert(0n), ok),
      unknown(2, add(1n)),
      call(4, 5, query, at(1n)),
      call(6, 7, query, at(2n)),
    ],
  ],
  [
    "an unknown call that took effect when nothing was left of it",
    "Order per key",
    /answered: success, counter 1/,
    [
      call(0, 1, insert(0n), ok),
      unknown(2, add(1n), { settledMs: 5 }),
      call(6, 7, query, at(0n)),
      call(8, 9, query, at(1n)),
    ],
  ],
  [
    "an unknown call that took effect, and did not",
    "Order per key",
    /a stale read/,
    [
      call(0, 1, insert(0n), ok),
      unknown(2, add(1n)),
      call(4, 5, query, at(1n)),
      call(6, 7, query, at(0n)),
      call(8, 9, query, at(1n)),
    ],
  ],
  [
    "an insert on a record that is there",
    "Durable before the reply",
    /write is lost: INSERT 1/,
    [call(0, 1, insert(1n), ok), call(2, 3, insert(2n), ok)],
  ],
  [
    "a quota that wrapped",
    "Order per key",
    /before it the key could be:\n {2}counter 0/,
    [call(0, 1, insert(0n), ok), call(2, 3, change("decrease", 1n), ok)],
  ],
  [
    "a record that was there after its end",
    "Exact",
    /a record was there after its end/,
    [call(0, 10, insert(1n, ms(1000)), ok), call(1020, 1030, query, at(1n))],
  ],
  [
    "a record that was gone before its end",
    "Exact",
    /a record was gone before its end/,
    [call(0, 10, insert(1n, ms(1000)), ok), call(980, 990, query, no)],
  ],
  [
    "a record that came back after its end",
    "Order per key",
    /a stale read/,
    [
      call(0, 10, insert(1n, ms(1000)), ok),
      call(995, 1005, query, no),
      call(1006, 1007, query, at(1n)),
    ],
  ],
  [
    "a TTL that says more than is left",
    "Exact",
    /answered: success, counter 1, 99[0-9] ms to [0-9]+ ms left/,
    [
      call(0, 10, insert(1n, ms(1000)), ok),
      call(500, 510, query, { success: true, record: { quota: 1n, left: leftOfTtl(999n, 3) } }),
    ],
  ],
  [
    "an increased TTL that was forgotten",
    "Exact",
    /gone before its end/,
    [
      call(0, 10, insert(1n, ms(1000)), ok),
      call(20, 30, expire("increase", 500), { record: { left: leftOfMs(1480) } }),
      call(1200, 1210, query, no),
    ],
  ],
  [
    "a record that a clock that was ahead lets live too long",
    "Exact",
    /a record was there after its end/,
    [call(0, 10, insert(1n, ms(60_000)), ok), call(70_000, 70_010, query, at(1n))],
    clockOf([-10_000, 50_000], [-5000, 0]),
  ],
  [
    "a record that is found again after its end though its shard has not restarted",
    "Order per key",
    /a stale read, or one of what never was/,
    [call(0, 1, insert(1n, ms(88)), ok), call(200, 201, query, no), call(450, 451, query, at(1n))],
    clockOf([-10_000, 33_000], [400, 0]),
  ],
  [
    "a record that is found again after a restart though another row was written after its end",
    "Exact",
    /a record was there after its end/,
    [
      call(0, 1, insert(1n, ms(88)), ok),
      call(200, 201, query, no),
      call(300, 301, { ...insert(2n), key: "other" }, ok),
      call(450, 451, query, at(1n)),
    ],
    restartAt(400, 0),
  ],
  [
    "a record that lives on as the clock of its shard goes back, though calls have shown that time passes",
    "Exact",
    /a record was there after its end/,
    [
      call(0, 1, insert(1n, ms(1000)), ok),
      call(490, 491, { ...query, key: "other" }, no),
      call(510, 511, { ...query, key: "other" }, no),
      call(1500, 1501, query, at(1n)),
    ],
    clockOf([500, -60_000]),
  ],
  [
    "more time that is left than by any time that the shard can have been ahead",
    "Order per key",
    /no order of the calls explains/,
    [
      call(0, 10, insert(1n), ok),
      call(70, 80, expire("patch", 3_600_000), {
        success: true,
        record: { left: leftOfMs(3_670_000) },
      }),
    ],
    clockOf([-10_000, 50_000], [20, 0]),
  ],
  [
    "a call that was applied twice under one idempotency key",
    "Idempotency keys",
    /applied more than once under one idempotency key/,
    [call(0, 1, add(2n, "x"), "unknown"), call(2, 3, add(2n, "x"), at(4n))],
  ],
  [
    "a repeated call that was applied though it was answered as the first",
    "Idempotency keys",
    /applied more than once under one idempotency key/,
    [
      call(0, 1, add(2n, "x"), "unknown"),
      call(2, 3, add(2n, "x"), at(2n)),
      call(4, 5, query, at(4n)),
    ],
  ],
  [
    "a repeated call with another answer",
    "Idempotency keys",
    /applied more than once/,
    [call(0, 1, add(2n, "x"), at(2n)), call(2, 3, add(2n, "x"), at(4n))],
  ],
  [
    "requests of one connection in another order",
    "Order per key",
    /not executed in the order in which it sent them/,
    [
      call(0, 10, set("a"), ok, { connection: 1 }),
      call(1, 11, set("b"), ok, { connection: 1 }),
      call(12, 13, get, holding("a")),
    ],
  ],
  [
    "an unknown request that took effect after a later one of its connection",
    "Order per key",
    /not executed in the order in which it sent them/,
    [
      unknown(0, set("a"), { connection: 1 }),
      call(1, 11, set("b"), ok, { connection: 1 }),
      call(12, 13, get, holding("b")),
      call(14, 15, get, holding("a")),
    ],
  ],
];

describe("a forged history is refused", () => {
  for (const [title, promise, message, calls, clocks] of FORGED) {
    it(title, () => {
      const [violation, ...others] = judge(calls, termsOf(clocks)).violations;
      expect(`${violation?.promise}: ${violation?.message}`).toMatch(message);
      expect(violation).toMatchObject({ promise, subject: key });
      expect(others.every((other) => other.promise === "Idempotency keys")).toBe(true);
    });
  }
});

describe("answers of a second copy of a shard", () => {
  const stale = (calls: readonly Forged[]) =>
    judge(calls, { ...termsOf(), mayBeStale: (_, { begun }) => begun.ms >= 100 }).violations;

  it("may be old where they changed nothing", () => {
    const calls = [
      call(0, 1, insert(1n), ok),
      call(2, 3, purge, ok),
      call(100, 101, query, at(1n)),
      call(102, 103, insert(5n), no),
      call(104, 105, { ...swap("a", "b"), key }, { code: "kind_mismatch" }),
    ];
    expect(stale(calls)).toEqual([]);
    expect(judge(calls).violations).toHaveLength(1);
  });

  it("are as good as others where they changed something", () => {
    const calls = [call(0, 1, insert(1n), ok), call(100, 101, insert(5n), ok)];
    expect(stale(calls)).toMatchObject([{ promise: "Durable before the reply" }]);
  });

  it("are as good as others under an idempotency key, as a kept answer is a row", () => {
    const once = { ...swap(null, "c"), once: "x" } as RecordOperation;
    const calls = [
      call(0, 1, set("a"), ok),
      call(100, 101, once, { success: false, record: { kind: "buffer", value: "a" } }),
      call(102, 103, set("b"), ok),
      call(104, 105, once, { success: false, record: { kind: "buffer", value: "a" } }),
    ];
    expect(stale(calls)).toEqual([]);
    const never = { success: false, record: { kind: "buffer", value: "never" } } as const;
    const forged = [call(0, 1, set("a"), ok), call(100, 101, once, never)];
    expect(stale(forged)).toMatchObject([{ promise: "Order per key" }]);
  });

  it("may be old under an idempotency key, too, where they are errors or too long to be kept", () => {
    const once = { ...swap("a", "c"), once: "x" } as RecordOperation;
    const long = "v".repeat(2000);
    const calls = [
      call(0, 1, set("a"), ok),
      call(100, 101, once, { success: false, record: { kind: "buffer", value: long } }),
      call(102, 103, { ...once, once: "y" }, { code: "kind_mismatch" }),
      call(104, 105, get, holding("a")),
    ];
    expect(stale(calls)).toEqual([]);
    expect(judge(calls).violations).toHaveLength(1);
  });
});

it("a message names the call, its answer, and what the key could be", () => {
  const calls = [
    call(0, 1, insert(1n), ok),
    call(2, 3, add(2n), "unknown", { client: 7 }),
    call(4, 6.5, query, at(5n), { client: 9, door: "tcp" }),
  ];
  const [violation] = judge(calls).violations;
  expect(violation?.message).toBe(
    [
      "QUERY (throttr) was answered: success, counter 5",
      "  by client 9 over tcp, #5 to #6 (2.5 ms later)",
      "a stale read, or one of what never was: without it all other calls have an order",
      "before it the key could be:",
      "  counter 1 in unit 3, 3599991 ms to 3599999 ms left",
      "  counter 3 in unit 3, 3599991 ms to 3599999 ms left",
    ].join("\n"),
  );
});

it("a call that waited for its turn is judged in its order", () => {
  const moments = new Moments(() => 5);
  const history = new History<RecordOperation, RecordAnswer>(moments);
  const asked = { client: 1, door: "tcp", connection: 3 } as const;
  const first = history.begin({ ...asked, operation: insert(1n) });
  const second = history.begin({ ...asked, operation: query });
  history.end(first, ok);
  history.giveUp(second);
  history.settle(second);
  expect(first).toMatchObject({ begun: { tick: 1, ms: 5 }, ended: { tick: 3 }, outcome: ok });
  expect(second).toMatchObject({ ended: { tick: 4 }, outcome: "unknown", settled: { tick: 5 } });
  expect(checkRecords(history.calls, termsOf()).violations).toEqual([]);
});

it("keys that were read after all their writes are counted", () => {
  const other = { ...insert(1n), key: "other" };
  const calls = [
    call(0, 1, insert(1n), ok),
    call(2, 3, query, at(1n)),
    call(4, 5, other, ok),
    call(6, 7, { ...query, key: "third" }, no),
    call(8, 9, { ...other, key: "third" }, ok),
  ];
  expect(judge(calls)).toMatchObject({ keys: 3, keysReadAtEnd: 1, violations: [] });
});

describe("a shard that had no room", () => {
  const full = { ...termsOf(), wasFull: () => true };
  const absent: RecordAnswer = { success: false, record: null };
  const refused = [call(0, 1, insert(5n), no), call(2, 3, set("a"), no), call(4, 5, query, absent)];

  it("may have refused frames that add a record, which have no code for it", () => {
    expect(judge(refused).violations).toMatchObject([{ subject: key }]);
    expect(judge(refused, full).violations).toEqual([]);
  });

  it("has what it took, and not what it refused", () => {
    const lost = [call(0, 1, insert(5n), ok), call(2, 3, query, absent)];
    expect(judge(lost, full).violations).toMatchObject([{ promise: "Durable before the reply" }]);
    const kept = [...refused.slice(0, 1), call(2, 3, query, at(5n))];
    expect(judge(kept, full).violations).toMatchObject([{ subject: key }]);
  });

  it("refuses a command by its code: where it says that there is a record, there is one", () => {
    const calls = [
      call(0, 1, { ...edge, name: "insert", quota: 1n, ttl: HOUR }, no),
      call(2, 3, query, absent),
    ];
    expect(judge(calls, full).violations).toMatchObject([{ subject: key }]);
  });
});

describe("data of a shard that is lost for good", () => {
  const absent: RecordAnswer = { success: false, record: null };
  const lost = (isWhole: boolean) => ({
    ...termsOf(),
    lossOf: () => ({ at: { tick: 10, ms: 10 }, isWhole }),
  });
  const judgeLost = (calls: readonly Forged[], isWhole = true) =>
    judge(calls, lost(isWhole)).violations;

  it("is there until then, and nothing is there behind it", () => {
    const calls = [call(0, 1, insert(5n), ok), call(2, 3, query, at(5n))];
    expect(judgeLost([...calls, call(12, 13, query, absent)])).toEqual([]);
    expect(judgeLost([...calls, call(12, 13, query, at(5n))])).toMatchObject([{ subject: key }]);
    expect(judgeLost([call(0, 1, insert(5n), ok), call(2, 3, query, absent)])).toMatchObject([
      { promise: "Durable before the reply" },
    ]);
  });

  it("was changed before or behind the loss by a call that was under way", () => {
    const calls = [call(0, 1, insert(5n), ok), call(8, 14, insert(7n), ok)];
    expect(judgeLost([...calls, call(16, 17, query, at(7n))])).toEqual([]);
    expect(judgeLost([...calls, call(16, 17, query, absent)])).toEqual([]);
    expect(judgeLost([...calls, call(16, 17, query, at(5n))])).toMatchObject([{ subject: key }]);
  });

  it("forgets with its records the answers that it keeps under idempotency keys", () => {
    const set = { ...edge, name: "insert", quota: 1n, ttl: HOUR, once: "a" } as const;
    const calls = [call(0, 1, set, ok), call(12, 13, set, ok)];
    expect(judgeLost([...calls, call(14, 15, query, at(1n))])).toEqual([]);
  });

  it("may be there in part where a part of it was copied", () => {
    const calls = [call(0, 1, insert(5n), ok), call(2, 3, insert(7n), no)];
    expect(judgeLost([...calls, call(12, 13, query, at(5n))], false)).toEqual([]);
    expect(judgeLost([...calls, call(4, 5, query, at(7n))], false)).toMatchObject([
      { subject: key },
    ]);
  });
});

describe("a shard that answers before the disk has what it answers about", () => {
  const absent: RecordAnswer = { success: false, record: null };
  /** What it answered from 5 to 10 ms was taken back at 10 ms. */
  const judgeRelaxed = (calls: readonly Forged[]) =>
    judge(calls, { ...termsOf(), hasLost: (_, { toMs }) => toMs > 5 && toMs < 10 }).violations;
  const calls = [
    call(0, 1, insert(5n), ok),
    call(6, 7, change("patch", 7n), ok),
    call(8, 9, query, at(7n)),
  ];

  it("may have lost the last writes, which others have seen", () => {
    expect(judgeRelaxed([...calls, call(12, 13, query, at(5n))])).toEqual([]);
    expect(judgeRelaxed([...calls, call(12, 13, query, at(7n))])).toEqual([]);
  });

  it("has lost nothing else, and what was lost does not come back", () => {
    expect(judgeRelaxed([...calls, call(12, 13, query, absent)])).toMatchObject([
      { promise: "Durable before the reply" },
    ]);
    const returned = [call(12, 13, query, at(5n)), call(14, 15, query, at(7n))];
    expect(judgeRelaxed([...calls, ...returned])).toMatchObject([{ subject: key }]);
  });

  it("may have lost the first of two equal writes alone", () => {
    const hasLost: RecordTerms["hasLost"] = (_, { toMs }) => toMs < 5000;
    const write = insert(5n, ms(60_000));
    const writes = [call(0, 1, write, ok), call(4000, 4001, write, ok)];
    const left = (count: number): RecordAnswer => ({
      success: true,
      record: { quota: 5n, left: leftOfMs(count) },
    });
    const judgeLeft = (count: number) =>
      judge([...writes, call(10_000, 10_001, query, left(count))], { ...termsOf(), hasLost })
        .violations;
    expect(judgeLeft(50_000)).toEqual([]);
    expect(judgeLeft(54_000)).toEqual([]);
    expect(judgeLeft(52_000)).toMatchObject([{ subject: key }]);
  });

  it("may have lost the answer that it keeps under an idempotency key", () => {
    const again = [call(6, 7, add(5n, "a"), at(5n)), call(12, 13, add(5n, "a"), at(6n))];
    const between = call(10, 11, insert(1n), ok);
    expect(judgeRelaxed([again[0]!, between, again[1]!])).toEqual([]);
    expect(judge([again[0]!, between, again[1]!]).violations).not.toEqual([]);
  });
});

describe("writes that were sent before the end of a connection", () => {
  const ended = { connection: 3 };
  const judgeTaken = (calls: readonly Forged[]) =>
    judge(calls, { ...termsOf(), hasTaken: (connection) => connection === 3 }).violations;
  const sent = (...more: Forged[]): Forged[] => [
    call(0, 1, insert(1n), ok),
    unknown(2, add(5n), { ...ended, settledMs: 20 }),
    unknown(3, query, { ...ended, settledMs: 20 }),
    unknown(4, add(7n), { ...ended, settledMs: 20 }),
    ...more,
  ];

  it("may be executed behind others", () => {
    const calls = sent(call(5, 6, query, at(1n)), call(9, 12, query, at(6n)));
    expect(judgeTaken([...calls, call(30, 31, query, at(13n))])).toEqual([]);
  });

  it("may be refused by a shard that had no room, if they need some", () => {
    const full = { ...termsOf(), hasTaken: () => true, wasFull: () => true };
    const judgeFull = (operation: RecordOperation, answer: RecordAnswer) =>
      judge(
        [unknown(0, operation, { ...ended, settledMs: 20 }), call(30, 31, query, answer)],
        full,
      );
    const absent: RecordAnswer = { success: false, record: null };
    expect(judgeFull(insert(1n), absent).violations).toEqual([]);
    const purged = judge(
      [
        call(0, 1, insert(1n), ok),
        unknown(2, purge, { ...ended, settledMs: 20 }),
        call(30, 31, query, at(1n)),
      ],
      full,
    );
    expect(purged.violations).toMatchObject([{ promise: "The end of a connection" }]);
  });

  it.each([
    ["none of them was", [call(30, 31, query, at(1n))]],
    ["the last one was not", [call(10, 11, query, at(6n)), call(30, 31, query, at(6n))]],
    ["the first one was not", [call(30, 31, query, at(8n))]],
  ])("must be executed: %s", (_, more) => {
    expect(judgeTaken(sent(...more))).toMatchObject([
      { promise: "The end of a connection", subject: key },
    ]);
    // Another connection may have lost them.
    expect(judge(sent(...more)).violations).toEqual([]);
  });

  it("are executed in the order in which they were sent", () => {
    const calls = [
      call(0, 1, set("a"), ok),
      unknown(2, set("b"), { ...ended, settledMs: 20 }),
      unknown(3, set("c"), { ...ended, settledMs: 20 }),
    ];
    expect(judgeTaken([...calls, call(30, 31, get, holding("c"))])).toEqual([]);
    expect(judgeTaken([...calls, call(30, 31, get, holding("b"))])).toMatchObject([
      { promise: "The end of a connection" },
    ]);
  });
});

describe("replies on one connection", () => {
  const asked = (begunMs: number, endedMs: number | null, connection?: number): Forged => ({
    ...call(begunMs, endedMs, query, endedMs === null ? "unknown" : no),
    ...(connection === undefined ? {} : { connection }),
  });
  const orderOf = (calls: Forged[]): string[] =>
    checkReplyOrder(forge(calls)).map(({ message }) => message);

  it("replies in the order of the requests are accepted, also where the last ones are missing", () => {
    expect(orderOf([asked(0, 5, 1), asked(1, 3, 2), asked(2, 6, 1), asked(4, null, 1)])).toEqual(
      [],
    );
    expect(orderOf([asked(0, 5), asked(1, 3)])).toEqual([]);
  });

  it("a reply before that to an earlier request is refused", () => {
    expect(orderOf([asked(0, 5, 1), asked(1, 3, 1)])).toEqual([
      expect.stringMatching(
        /answered before an earlier one of its connection: .*#2 to #3.*#1 to #4/,
      ),
    ]);
  });

  it("a reply while an earlier request is never answered is refused", () => {
    expect(orderOf([asked(0, null, 1), asked(1, 3, 1)])).toHaveLength(1);
  });
});

describe("the clocks of objects", () => {
  const clocks = clockOf([1000, 500], [2000, -200]);
  const span = (fromMs: number, toMs = fromMs) => ({ fromMs, toMs });

  it("a clock that was never set is right, to the rounding", () => {
    expect(new ClockHistory().spanOf("shard 0", 10, 20)).toEqual({ fromMs: 8, toMs: 20 });
    expect(new ClockHistory().elapsed("shard 0", span(10, 20), span(120, 130))).toEqual(
      span(98, 122),
    );
  });

  it("a step forwards within a span widens it, and so does one backwards", () => {
    expect(clocks.spanOf("shard 0", 900, 1100)).toEqual({ fromMs: 898, toMs: 1600 });
    expect(clocks.spanOf("shard 0", 1900, 2100)).toEqual({ fromMs: 1798, toMs: 2590 });
    expect(clocks.spanOf("shard 0", 3000, 3000)).toEqual({ fromMs: 2798, toMs: 3400 });
  });

  it("a clock that a restart finds as it was has not been set", () => {
    const found = clockOf([1000, 0], [2000, 0]);
    expect(found.isSteady("shard 0")).toBe(true);
    expect(found.stepCount("shard 0")).toBe(0);
    expect(clocks.isSteady("shard 0")).toBe(false);
    expect(clocks.stepCount("shard 0")).toBe(2);
  });

  it("a clock that goes back and forwards again adds to what the object is ahead by, which shrinks slowly", () => {
    const again = clockOf([1000, 500], [2000, -200], [3000, 500]);
    expect(again.spanOf("shard 0", 3000, 3000).toMs).toBe(3000 + 400 + 700);
    expect(again.spanOf("shard 0", 4000, 4000).toMs).toBe(4000 + 1000);
    expect(again.spanOf("shard 0", 90_000, 90_000).toMs).toBe(90_500);
  });

  it("time that passed jumps with a step forwards, stands still at one backwards, and is slow after it", () => {
    expect(clocks.elapsed("shard 0", span(900), span(1100))).toEqual(span(698, 702));
    expect(clocks.elapsed("shard 0", span(1900), span(2100))).toEqual(span(0, 192));
    expect(clocks.elapsed("shard 0", span(3000), span(4000))).toEqual(span(898, 1002));
  });
});

it("a seed's worth of calls is decided, also where many clients write to one key", () => {
  // A search that does not scale is given up, and its key is undecided.
  const { violations, undecided } = checkRecords(hotHistory(5000, 60), termsOf());
  expect(violations).toEqual([]);
  expect(undecided).toEqual([]);
});

/** Calls of clients that each make one after the other, a fifth of them on one key of 50. */
function hotHistory(count: number, clients: number): RecordCall[] {
  let state = 12345;
  const below = (n: number): number => {
    state = (Math.imul(state, 1_103_515_245) + 12_345) >>> 0;
    return Math.floor((state / 2 ** 32) * n);
  };
  const quotas = new Map<string, bigint>();
  const freeAt = Array.from({ length: clients }, () => 0);
  const forged: Forged[] = [];
  const plans = Array.from({ length: count }, (_, i) => {
    const client = i % clients;
    const begunMs = freeAt[client]! + below(30_000) / 1000 + i / 1e6;
    const atMs = begunMs + 1 + below(10_000) / 1000 + i / 1e7;
    const endedMs = atMs + 1 + below(10_000) / 1000 + i / 1e8;
    freeAt[client] = endedMs;
    return {
      client,
      begunMs,
      atMs,
      endedMs,
      key: `k${below(5) === 0 ? 0 : below(50)}`,
      kind: below(4),
    };
  });
  for (const { client, begunMs, endedMs, key, kind } of plans.toSorted((a, b) => a.atMs - b.atMs)) {
    const quota = quotas.get(key);
    const by = BigInt(1 + below(2 ** 30));
    const common = { client, begunMs, endedMs };
    if (quota === undefined || kind === 0) {
      quotas.set(key, (quota ?? 0n) + by);
      forged.push({ ...common, operation: { ...add(by), key }, outcome: at(quotas.get(key)!) });
    } else if (kind === 1) {
      quotas.set(key, quota + by);
      const isUnknown = below(100) === 0;
      forged.push({
        ...common,
        operation: { ...change("increase", by), key },
        outcome: isUnknown ? "unknown" : ok,
      });
    } else {
      forged.push({ ...common, operation: { ...query, key }, outcome: at(quota) });
    }
  }
  return forge(forged);
}

it("calls that overlap are judged also where many of them are unknown, and were repeated", () => {
  const order = [3, 0, 1, 2];
  const amountOf = (i: number): bigint => 1n << BigInt(i);
  const unknownCalls = order
    .toSorted((a, b) => a - b)
    .flatMap((i) =>
      [0, 1, 2].map((again) => unknown(10 + i + 10 * again, add(amountOf(i), `k${i}`))),
    );
  let sum = 0n;
  const answers = order.map((i) =>
    call(100 + i, 200 + i, add(amountOf(i), `k${i}`), at((sum += amountOf(i)))),
  );
  const reads = order.map((i) => call(90 + i, 300 + i, query, at(i % 2 === 0 ? 0n : 15n)));
  const calls = [call(0, 1, insert(0n), ok), ...unknownCalls, ...answers, ...reads];
  const { violations, undecided } = judge(calls);
  expect({ violations, undecided }).toEqual({ violations: [], undecided: [] });
  const wrong = [...calls, call(400, 401, query, at(14n))];
  expect(judge(wrong)).toMatchObject({ violations: [{ subject: key }], undecided: [] });
});
