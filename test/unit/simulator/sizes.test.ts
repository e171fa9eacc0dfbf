/** Sizes that a seed replaces: each exists, and the engine and its journal are right at them. */
import { resolve } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { Script } from "node:vm";
import { build } from "esbuild";
import fc from "fast-check";
import { beforeAll, describe, expect, inject, it } from "vitest";
import type { Engine } from "../../../src/engine/engine.ts";
import * as production from "../../../src/engine/sizes.ts";
import type { TablePlace } from "../../../src/engine/table-page.ts";
import { Keyspace } from "../../../src/wire/keyspace.ts";
import { Random } from "../../simulator/kernel/random.ts";
import {
  PARTS,
  replaceable,
  replaceableSizes,
  sizesOf,
  type Sizes,
} from "../../simulator/platform/sizes.ts";
import { protocolArbitrary, requestArbitrary } from "../../support/engine/arbitraries.ts";
import { sqlOf } from "../../support/engine/sql.ts";
import { batchOf, frameOf, hex, partsOf } from "../../support/frames/index.ts";
import { CommandModel } from "../../support/models/commands.ts";
import type { ModelProtocol, ModelRequest } from "../../support/models/requests.ts";
import { runs } from "../../support/runs.ts";

const SEEDS = Array.from({ length: 300 }, (_, i) => i);
/** A copy: by a name that is not known before, a module can't be read. */
const PRODUCTION: Sizes = { ...production };
const NAMES = Object.keys(PRODUCTION);

/** Sizes at which a promise to callers would not hold if they were small (see `sizesOf`), and those of tokens, which runs don't have. */
const NEVER_DRAWN = [
  "BATCH_BYTES_MAX",
  "CANCELLED_IDS_MAX",
  "EXPIRED_CONNECTION_MS",
  "HISTORY_OBJECTS_MAX",
  "MAP_RANGES_MAX",
  "MOVES_MAX",
  "NAMESPACES_LISTED_MAX",
  "OPENING_MS_MAX",
  "REVOCATIONS_TRUSTED_MS",
  "STRETCHED_BYTES_MAX",
];

/** What the test uses of a bundle. */
interface Server {
  readonly sizes: Sizes;
  readonly Engine: typeof Engine;
  readonly Journal: new (sql: object, engine: Engine, hashKey: object, seed: object) => Journal;
  readonly TABLE_START: TablePlace;
}

interface Journal {
  readonly isCutting: boolean;
  readonly rows: number;
  create(placement: object, noted: readonly number[]): void;
  load(): void;
  append(): void;
}

let start: (sizes: Partial<Sizes>) => Server;

beforeAll(async () => {
  const { outputFiles } = await build({
    stdin: {
      contents: `
        export * as sizes from "./src/engine/sizes.ts";
        export { Engine } from "./src/engine/engine.ts";
        export { Journal } from "./src/objects/shard/journal.ts";
        export { TABLE_START } from "./src/engine/table-page.ts";`,
      resolveDir: resolve(import.meta.dirname, "../../.."),
    },
    bundle: true,
    write: false,
    format: "cjs",
    target: "es2024",
    plugins: [replaceableSizes],
  });
  const script = new Script(`(function (module, $sizes) {\n${outputFiles[0]!.text}\n})`);
  const run = script.runInThisContext() as (module: { exports: unknown }, sizes: object) => void;
  start = (sizes) => {
    const module: { exports: unknown } = { exports: {} };
    run(module, sizes);
    return module.exports as Server;
  };
});

describe("sizes of a seed", () => {
  it("each size that is drawn is one of production, of its type and positive", () => {
    for (const seed of SEEDS) {
      for (const [name, size] of Object.entries(sizesOf(new Random(seed)))) {
        expect(NAMES).toContain(name);
        expect({ name, type: typeof size }).toEqual({
          name,
          type: typeof PRODUCTION[name as keyof Sizes],
        });
        expect({ name, isPositive: size > 0 }).toEqual({ name, isPositive: true });
      }
    }
  });

  it("each size of production is drawn by one part, or is known to keep its value", () => {
    const drawn = Object.values(PARTS).flatMap((draw) => Object.keys(draw(new Random(1))));
    expect([...drawn, ...NEVER_DRAWN].toSorted()).toEqual(NAMES.toSorted());
  });

  it("no drawn size is above the one of production, unless it is a duration or spreads hashes", () => {
    const larger = new Set<string>();
    for (const seed of SEEDS) {
      for (const [name, size] of Object.entries(sizesOf(new Random(seed)))) {
        if (size > PRODUCTION[name as keyof Sizes]) larger.add(name);
      }
    }
    const exceptions = [...larger].filter((name) => !/_(MS|NS)(_|$)/.test(name));
    expect(exceptions).toEqual(["TABLE_GROUP_SHIFT"]);
  });

  it("sizes that bound each other are drawn together, and fit", () => {
    for (const seed of SEEDS) {
      const { sizes } = start(sizesOf(new Random(seed)));
      expect(sizes.SEGMENT_SPLIT_DEPTH_MAX).toBeLessThanOrEqual(32 - sizes.TABLE_GROUP_SHIFT);
      expect(sizes.SEGMENT_SPLIT_BYTES_DEPTH_MAX).toBeLessThanOrEqual(32 - sizes.TABLE_GROUP_SHIFT);
      expect(sizes.JOURNAL_BYTES_MIN).toBeLessThan(sizes.JOURNAL_BYTES_MAX);
      expect(sizes.COUNTS_PAUSE_MS_MIN).toBeLessThanOrEqual(sizes.COUNTS_PAUSE_MS_MAX);
      expect(sizes.ORDERED_RECORDS_MAX).toBeLessThanOrEqual(sizes.MERGED_RECORDS_MAX);
      expect(sizes.HUB_PENDING_BYTES_LITTLE).toBeLessThanOrEqual(sizes.HUB_PENDING_BYTES_MAX);
      expect(sizes.SILENT_BYTES_LITTLE).toBeLessThanOrEqual(sizes.SILENT_BYTES_MAX);
      expect(sizes.SILENT_BYTES_MAX).toBeLessThanOrEqual(sizes.HUB_SILENT_BYTES_MAX);
      expect(sizes.SLOW_HUB_QUEUE_BYTES_MAX).toBeLessThan(sizes.HUB_QUEUE_BYTES_MAX);
      expect(sizes.REPLAY_CHUNK_BYTES_MAX).toBeLessThanOrEqual(sizes.REPLAY_BYTES_MAX);
      expect(sizes.REPLAY_BYTES_MAX).toBeLessThan(sizes.GROUP_KEPT_BYTES_MAX);
      expect(sizes.RESPONSES_BYTES_LITTLE).toBeLessThanOrEqual(sizes.RESPONSES_BYTES_MAX);
      expect(Math.log2(sizes.LIMIT_NAMES_MAX) % 1).toBe(0);
      expect(Math.log2(sizes.READ_BUFFER_BYTES_MAX / sizes.READ_BUFFER_BYTES_MIN) % 3).toBe(0);
    }
  });

  it("a seed draws the same sizes each time, seeds differ, and some keep those of production", () => {
    const drawn = SEEDS.map((seed) => sizesOf(new Random(seed)));
    expect(SEEDS.map((seed) => sizesOf(new Random(seed)))).toEqual(drawn);
    const small = drawn.filter((sizes) => Object.keys(sizes).length > 0);
    expect(small.length).toBeLessThan(SEEDS.length * 0.95);
    expect(small.length).toBeGreaterThan(SEEDS.length * 0.75);
    expect(new Set(small.map(({ JOURNAL_BYTES_MIN }) => JOURNAL_BYTES_MIN)).size).toBeGreaterThan(
      50,
    );
  });
});

describe("a bundle with replaceable sizes", () => {
  it("a bundle has production's value of each size that is not replaced", () => {
    expect({ ...start({}).sizes }).toEqual({ ...production });
  });

  it("a bundle takes replaced sizes, and derives others from them", () => {
    const { sizes } = start({ ORDERED_RECORDS_MAX: 7, ASK_SLOT_NS: 3n });
    expect(sizes.ORDERED_RECORDS_MAX).toBe(7);
    expect(sizes.MERGED_RECORDS_MAX).toBe(28);
    expect(sizes.ASK_SLOT_NS).toBe(3n);
    expect(sizes.JOURNAL_BYTES_MIN).toBe(production.JOURNAL_BYTES_MIN);
  });

  it("a module of sizes with an export of another form is refused", () => {
    expect(() => replaceable("export const A = 1;\nexport function b() {}\n")).toThrow("sizes.ts");
    expect(() => replaceable("export const A: number = 1;\n")).toThrow("sizes.ts");
  });
});

interface Step {
  readonly protocol: ModelProtocol;
  readonly requests: readonly ModelRequest[];
  readonly afterMs: number;
  readonly next: "commit" | "crash" | "restart" | "sweep";
}

const step: fc.Arbitrary<Step> = protocolArbitrary.chain((protocol) =>
  fc.record({
    protocol: fc.constant(protocol),
    requests: fc.array(requestArbitrary(protocol), { minLength: 1, maxLength: 20 }),
    afterMs: fc.oneof(fc.constantFrom(0, 1, 1000), fc.nat(5000)),
    next: fc.constantFrom("commit", "commit", "commit", "crash", "restart", "sweep"),
  }),
);

/** Records that stay: a snapshot of them takes several steps where steps are small. */
const LASTING: Step = {
  protocol: { dialect: "7.3", valueSize: 4 },
  requests: Array.from({ length: 200 }, (_, i) => ({
    type: "insert",
    key: `lasting:${i}`,
    quota: BigInt(i),
    ttlType: 6,
    ttl: 10n,
  })),
  afterMs: 0,
  next: "commit",
};

const HASH_KEY = { low: 3, high: 4 };
const PLACEMENT = { shards: 1, fingerprint: 1 };
const HASH = { ...PLACEMENT, seed: HASH_KEY };

/** Runs requests with restarts against the model; returns how often the journal was cut. */
function check({ Engine, Journal, TABLE_START }: Server, steps: readonly Step[]): number {
  const database = new DatabaseSync(":memory:");
  const sql = sqlOf(database);
  let nowMs = 1_700_000_000_000;
  let cuts = 0;
  const load = (): { engine: Engine; journal: Journal } => {
    const engine = new Engine({ hashKey: HASH_KEY, bytesMax: 64 << 20, isCounting: true });
    engine.advance(nowMs);
    const journal = new Journal(sql, engine, HASH_KEY, HASH);
    journal.load();
    return { engine, journal };
  };
  new Journal(sql, load().engine, HASH_KEY, HASH).create(PLACEMENT, []);
  let { engine, journal } = load();
  let model = new CommandModel(0);
  let durable = model.clone();
  for (const { protocol, requests, afterMs, next } of [LASTING, ...steps]) {
    nowMs += afterMs;
    model.advance(nowMs);
    const frames = requests.map((request) => frameOf(protocol, request));
    const [part] = partsOf(engine.apply(batchOf([{ protocol, frames }]), nowMs));
    const expected = requests.flatMap(
      (request) => model.throttr(protocol.valueSize, request).bytes,
    );
    expect(hex(part!.replies)).toBe(hex(expected));
    if (next !== "crash") {
      const wasCutting = journal.isCutting;
      journal.append();
      if (journal.isCutting && !wasCutting) cuts++;
      durable = model.clone();
    }
    if (next === "sweep") {
      for (let cursor: number | null = 0; cursor !== null;)
        cursor = engine.sweepStep(cursor, nowMs);
    }
    if (next === "crash" || next === "restart") {
      ({ engine, journal } = load());
      model = durable.clone();
    }
  }
  const query = {
    keyspace: Keyspace.throttr,
    prefix: new Uint8Array(0),
    prefixes: [],
    behind: null,
  };
  for (let cursor: number | null = 0; cursor !== null;) cursor = engine.sweepStep(cursor, nowMs);
  let listed = 0;
  for (let place: TablePlace | null = TABLE_START; place !== null;) {
    const page: { count: number; next: TablePlace | null } = engine.scan.rowsFrom(query, place, 3);
    listed += page.count;
    place = page.next;
  }
  expect(listed).toBe(engine.figures.records);
  database.close();
  return cuts;
}

const run = fc.array(step, { minLength: 20, maxLength: 60 });

describe("engine and journal", () => {
  it("the engine and its journal answer as the model does at drawn sizes, and many runs of a few hundred requests cut the journal", () => {
    let cuts = 0;
    const property = fc.property(run, fc.nat(), (steps, seed) => {
      const random = new Random(seed);
      const sizes = { ...PARTS["table"]!(random), ...PARTS["journal"]!(random) };
      if (check(start(sizes), steps) > 0) cuts++;
    });
    fc.assert(property, { seed: inject("seed"), numRuns: runs(100) });
    // About seven runs of ten do.
    expect(cuts).toBeGreaterThan(runs(100) / 5);
  });

  it("no run of a few hundred requests cuts the journal at the sizes of production", () => {
    const property = fc.property(run, (steps) => check(start({}), steps) === 0);
    fc.assert(property, { seed: inject("seed"), numRuns: runs(20) });
  });
});
