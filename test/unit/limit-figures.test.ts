/** Decisions of limits, counted by limiter: by the class that counts, and by the engine that decides. */
import { describe, expect, it } from "vitest";
import { Engine } from "../../src/engine/engine.ts";
import { LIMIT_NAMES_MAX } from "../../src/engine/sizes.ts";
import {
  LIMIT_COUNTS,
  LIMIT_OUTCOMES,
  LimitFigures,
  LimitRow,
  type LimitCounts,
} from "../../src/engine/limit-figures.ts";
import { MINUTE_MS } from "../../src/engine/minute-counts.ts";
import {
  bytesOf,
  configurationBytes,
  edgeBatch,
  FOREVER,
  insert,
  limit,
  peek,
  refund,
  set,
} from "../support/frames/index.ts";

const NOW_MS = 1_700_000_040_000;
const HASH_KEY = { low: 1, high: 2 };
const BUCKET = { strategy: "token_bucket", burst: 2, rate: 0.001 } as const;
const ONE_TOKEN = configurationBytes({ ...BUCKET, burst: 1 });
const TWO_TOKENS = configurationBytes(BUCKET);

/** Allowed, refused and errors by name, in all. */
function totalsOf({ names, counts }: LimitCounts): Record<string, number[]> {
  const width = 2 * LIMIT_COUNTS;
  const row = (at: number): number[] => [
    ...counts.subarray(at * width, at * width + LIMIT_OUTCOMES),
  ];
  return {
    all: row(LimitRow.all),
    others: row(LimitRow.others),
    ...Object.fromEntries(names.map((name, i) => [name, row(LimitRow.firstName + i)])),
  };
}

/** The same of the last 60 seconds. */
function minuteOf({ names, counts }: LimitCounts): Record<string, number[]> {
  const width = 2 * LIMIT_COUNTS;
  return Object.fromEntries(
    ["all", "others", ...names].map((name, i) => {
      const at = i * width + LIMIT_COUNTS;
      return [name, [...counts.subarray(at, at + LIMIT_OUTCOMES)]];
    }),
  );
}

/** Decisions from allowances by name, in all and in the last 60 seconds. */
const localOf = ({ names, counts }: LimitCounts): Record<string, number[]> =>
  Object.fromEntries(
    ["all", "others", ...names].map((name, i) => {
      const at = 2 * i * LIMIT_COUNTS + LIMIT_OUTCOMES;
      return [name, [counts[at]!, counts[at + LIMIT_COUNTS]!]];
    }),
  );

function decide(figures: LimitFigures, key: string, isAllowed = true): void {
  figures.countDecisions(isAllowed, 1, key.length, bytesOf(key), 0, key.length);
}

function fail(figures: LimitFigures, key: string): void {
  figures.countError(bytesOf(key), 0, key.length);
}

const textOf = (bytes: Uint8Array): string => String.fromCharCode(...bytes);

describe("figures of limits", () => {
  it("decisions are counted by the name before the first colon of their key", () => {
    const figures = new LimitFigures(HASH_KEY);
    figures.turn(NOW_MS);
    decide(figures, "api:ada");
    decide(figures, "api:ada", false);
    decide(figures, "api:v2:ada");
    decide(figures, "apis:ada");
    decide(figures, "api:bob");
    fail(figures, "login:ada");
    expect(totalsOf(figures.counts(NOW_MS))).toEqual({
      all: [4, 1, 1],
      others: [0, 0, 0],
      api: [3, 1, 0],
      apis: [1, 0, 0],
      login: [0, 0, 1],
    });
  });

  it("keys that begin with no name count with the others, and in no sketch", () => {
    const figures = new LimitFigures(HASH_KEY);
    figures.turn(NOW_MS);
    for (const key of ["plain", ":key", "n{}:key", `${"n".repeat(65)}:key`, "\u00ff:key"]) {
      decide(figures, key, false);
    }
    decide(figures, `${"n".repeat(64)}:key`);
    expect(totalsOf(figures.counts(NOW_MS))).toMatchObject({ others: [0, 5, 0], all: [1, 5, 0] });
    const { hottest, mostRefused } = figures.keys(NOW_MS);
    expect(hottest.map(({ key }) => textOf(key))).toEqual([`${"n".repeat(64)}:key`]);
    expect(mostRefused).toEqual([]);
  });

  it("local decisions are counted by limiter, in all and in the last minute, beside their outcomes", () => {
    const figures = new LimitFigures(HASH_KEY);
    const local = (key: string, times: number): void =>
      figures.countLocal(times, bytesOf(key), 0, key.length);
    figures.turn(NOW_MS - MINUTE_MS * 5);
    local("api:ada", 100);
    figures.turn(NOW_MS);
    local("api:bob", 20);
    local("login:ada", 3);
    local("nameless", 1);
    expect(localOf(figures.counts(NOW_MS))).toEqual({
      all: [124, 24],
      others: [1, 1],
      api: [120, 20],
      login: [3, 3],
    });
    expect(totalsOf(figures.counts(NOW_MS))).toMatchObject({ all: [0, 0, 0], api: [0, 0, 0] });
  });

  it("totals stay exact integers, however many decisions are counted, and after a restart", () => {
    const figures = new LimitFigures(HASH_KEY);
    figures.turn(NOW_MS);
    const most = Number.MAX_SAFE_INTEGER;
    const key = bytesOf("api:ada");
    for (let i = 0; i < 2; i++) figures.countDecisions(true, most, 1, key, 0, key.length);
    expect(totalsOf(figures.counts(NOW_MS))).toMatchObject({
      all: [most, 0, 0],
      api: [most, 0, 0],
    });
    const restarted = new LimitFigures(HASH_KEY);
    restarted.turn(NOW_MS);
    restarted.countDecisions(true, 5, 1, key, 0, key.length);
    restarted.restore(figures.snapshot(), NOW_MS);
    expect(totalsOf(restarted.counts(NOW_MS))).toMatchObject({ all: [most, 0, 0] });
  });

  it("figures of the last minute fade, and totals stay", () => {
    const figures = new LimitFigures(HASH_KEY);
    figures.turn(NOW_MS);
    for (let i = 0; i < 100; i++) decide(figures, "api:ada");
    const atMinute = (Math.floor(NOW_MS / MINUTE_MS) + 1) * MINUTE_MS;
    expect(minuteOf(figures.counts(atMinute + MINUTE_MS / 4))).toMatchObject({ api: [75, 0, 0] });
    expect(minuteOf(figures.counts(atMinute + MINUTE_MS))).toMatchObject({ api: [0, 0, 0] });
    expect(totalsOf(figures.counts(atMinute + MINUTE_MS))).toMatchObject({ api: [100, 0, 0] });
  });

  it("names that come when 256 are in use count with the others, and evict none", () => {
    const figures = new LimitFigures(HASH_KEY);
    figures.turn(NOW_MS);
    for (let i = 0; i < LIMIT_NAMES_MAX; i++) decide(figures, `n${i}:k`);
    for (let i = 0; i < 1000; i++) decide(figures, `invented${i}:k`);
    decide(figures, "n7:k");
    const totals = totalsOf(figures.counts(NOW_MS));
    expect(totals).toMatchObject({ others: [1000, 0, 0], n7: [2, 0, 0], n255: [1, 0, 0] });
    expect(Object.keys(totals)).toHaveLength(LIMIT_NAMES_MAX + 2);
  });

  it("a name that was not used for an hour gives its row to a new one, which starts at 0", () => {
    const figures = new LimitFigures(HASH_KEY);
    figures.turn(NOW_MS);
    for (let i = 0; i < LIMIT_NAMES_MAX; i++) decide(figures, `n${i}:k`);
    figures.turn(NOW_MS + 59 * MINUTE_MS);
    decide(figures, "early:k");
    for (let i = 1; i < LIMIT_NAMES_MAX; i++) decide(figures, `n${i}:k`);
    figures.turn(NOW_MS + 60 * MINUTE_MS);
    decide(figures, "late:k");
    decide(figures, "later:k");
    const totals = totalsOf(figures.counts(NOW_MS + 60 * MINUTE_MS));
    expect(totals["n0"]).toBeUndefined();
    expect(totals).toMatchObject({ others: [2, 0, 0], late: [1, 0, 0], n1: [2, 0, 0] });
    expect(totals["all"]).toEqual([2 * LIMIT_NAMES_MAX + 2, 0, 0]);
  });

  it("totals of a snapshot are added to those of a new instance, and not to its last minute", () => {
    const before = new LimitFigures(HASH_KEY);
    before.turn(NOW_MS);
    decide(before, "api:ada");
    decide(before, "login:ada", false);
    fail(before, "nameless");
    const after = new LimitFigures(HASH_KEY);
    after.turn(NOW_MS);
    decide(after, "login:bob");
    after.restore(structuredClone(before.snapshot()), NOW_MS);
    expect(totalsOf(after.counts(NOW_MS))).toEqual({
      all: [2, 1, 1],
      others: [0, 0, 1],
      login: [1, 1, 0],
      api: [1, 0, 0],
    });
    expect(minuteOf(after.counts(NOW_MS))).toEqual({
      all: [1, 0, 0],
      others: [0, 0, 0],
      login: [1, 0, 0],
      api: [0, 0, 0],
    });
  });
});

/** An engine, and what it has counted after some frames. */
function figuresAfter(...frames: Uint8Array[]): LimitFigures {
  const engine = new Engine({ hashKey: HASH_KEY, bytesMax: 1 << 20, isCounting: true });
  engine.apply(edgeBatch(frames), NOW_MS);
  return engine.limitFigures;
}

describe("figures of limits in the engine", () => {
  it("each LIMIT counts once as allowed or refused; a peek and a refund count not at all", () => {
    const figures = figuresAfter(
      limit("api:ada", ONE_TOKEN, 1),
      limit("api:ada", ONE_TOKEN, 1),
      limit("api:ada", ONE_TOKEN, 1),
      limit("api:bob", ONE_TOKEN, 1),
      peek("api:ada", ONE_TOKEN),
      refund("api:ada", ONE_TOKEN, 1),
    );
    expect(totalsOf(figures.counts(NOW_MS))).toMatchObject({ all: [2, 2, 0], api: [2, 2, 0] });
    const { hottest, mostRefused } = figures.keys(NOW_MS);
    expect(hottest.map(({ key, count }) => [textOf(key), count])).toEqual([
      ["api:ada", 3],
      ["api:bob", 1],
    ]);
    expect(mostRefused.map(({ key, count }) => [textOf(key), count])).toEqual([["api:ada", 2]]);
  });

  it("a LIMIT with an idempotency key counts once, however often it arrives", () => {
    const once = limit("api:ada", TWO_TOKENS, 1, { once: "id" });
    const figures = figuresAfter(once, once, once);
    expect(totalsOf(figures.counts(NOW_MS))).toMatchObject({ api: [1, 0, 0] });
  });

  it.each([
    ["kind_mismatch", [insert("api:ada", 1n, FOREVER), limit("api:ada", ONE_TOKEN, 1)]],
    [
      "state_invalid",
      [set("api:ada", bytesOf("no state"), FOREVER), limit("api:ada", ONE_TOKEN, 1)],
    ],
    ["configuration_invalid", [limit("api:ada", bytesOf("?"), 1)]],
    ["flags_invalid", [limit("api:ada", ONE_TOKEN, 1, { flags: 0x80 })]],
  ])(
    "a LIMIT that fails with %s counts as an error of its limiter, and its key is not hot",
    (_, frames) => {
      const figures = figuresAfter(...frames);
      expect(totalsOf(figures.counts(NOW_MS))).toMatchObject({ all: [0, 0, 1], api: [0, 0, 1] });
      expect(figures.keys(NOW_MS).hottest).toEqual([]);
    },
  );

  it("a LIMIT for which the shard has no room counts as an error", () => {
    const engine = new Engine({ hashKey: HASH_KEY, bytesMax: 1, isCounting: true });
    engine.apply(edgeBatch([limit("api:ada", ONE_TOKEN, 1)]), NOW_MS);
    expect(totalsOf(engine.limitFigures.counts(NOW_MS))).toMatchObject({ api: [0, 0, 1] });
  });

  it("a peek and a refund that fail count not at all", () => {
    const figures = figuresAfter(
      insert("api:ada", 1n, FOREVER),
      peek("api:ada", ONE_TOKEN),
      refund("api:ada", ONE_TOKEN, 1),
    );
    expect(totalsOf(figures.counts(NOW_MS))).toMatchObject({ all: [0, 0, 0] });
  });

  it("the key of a composite is shown without the end that marks its state", () => {
    const composite = configurationBytes({
      strategy: "composite",
      primary: { strategy: "fixed_window", quotas: [{ name: "q", limit: 5, windowNs: 10n ** 9n }] },
      secondary: BUCKET,
    });
    const figures = figuresAfter(
      limit("api:ada:c", composite, 1),
      limit("api:bob:c", ONE_TOKEN, 1),
    );
    const { hottest } = figures.keys(NOW_MS);
    expect(hottest.map(({ key }) => textOf(key))).toEqual(["api:ada", "api:bob:c"]);
  });

  it("an engine that does not count has figures of nothing", () => {
    const engine = new Engine({ hashKey: HASH_KEY, bytesMax: 1 << 20, isCounting: false });
    engine.apply(edgeBatch([limit("api:ada", ONE_TOKEN, 1)]), NOW_MS);
    expect(totalsOf(engine.limitFigures.counts(NOW_MS))).toEqual({
      all: [0, 0, 0],
      others: [0, 0, 0],
    });
    expect(engine.limitFigures.keys(NOW_MS).hottest).toEqual([]);
  });
});
