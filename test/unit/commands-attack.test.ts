/** What strangers may send: nothing of it throws, is kept without bound, or is read as something else. */
import fc from "fast-check";
import { describe, expect, inject, it } from "vitest";
import { Engine } from "../../src/engine/engine.ts";
import { Limiters } from "../../src/engine/limiters.ts";
import { Command } from "../../src/wire/edge/command.ts";
import type { RateLimitConfiguration } from "../../src/wire/ratelimit/configuration.ts";
import { layoutsOf, Target } from "../../src/wire/throttr/requests.ts";
import { frameLength } from "../../src/wire/throttr/scanner.ts";
import { COSTS, configurations, costArbitrary } from "../support/commands/arbitraries.ts";
import { imagesOf } from "../support/commands/disk.ts";
import {
  bytesOf,
  commandReplies,
  type CommandReply,
  concat,
  configurationBytes,
  EDGE,
  edgeBatch,
  f64,
  FOREVER,
  increment,
  insert,
  limit,
  partsOf,
  peek,
  purge,
  read,
  refund,
  set,
  ttlMs,
  u64,
} from "../support/frames/index.ts";
import { CommandModel } from "../support/models/commands.ts";
import { STRATEGIES } from "../support/rate-limits/arbitraries.ts";
import { encounterArbitrary } from "../support/rate-limits/extremes.ts";
import { finish } from "../support/engine/steps.ts";
import { runs } from "../support/runs.ts";

const seed = inject("seed");
const NOW_MS = 1_700_000_000_000;
const BUCKET = configurationBytes({ strategy: "token_bucket", burst: 3, rate: 0.001 });

const engineOf = (bytesMax = 16 << 20): Engine =>
  new Engine({ hashKey: { low: seed, high: 1 }, bytesMax, isCounting: true });

function repliesOf(engine: Engine, frames: readonly Uint8Array[], nowMs = NOW_MS): CommandReply[] {
  const [part] = partsOf(engine.apply(edgeBatch(frames), nowMs));
  expect(part!.count).toBe(frames.length);
  const replies = commandReplies(part!.replies);
  expect(replies).toHaveLength(frames.length);
  return replies;
}

const replyOf = (engine: Engine, frame: Uint8Array, nowMs = NOW_MS): CommandReply =>
  repliesOf(engine, [frame], nowMs)[0]!;

describe("limits", () => {
  it.each(STRATEGIES)(
    "limits with %s of any extreme, over any state, decide as the limiter does",
    (strategy) => {
      const property = fc.property(encounterArbitrary(strategy), (encounter) => {
        const { configuration, stored, nowNs, cost } = encounter;
        const nowMs = Number(nowNs / 1_000_000n);
        const engine = engineOf();
        const model = new CommandModel(1000);
        model.advance(nowMs);
        const bytes = configurationBytes(configuration);
        const state = stored === null ? [] : [set("k", bytesOf(stored), FOREVER)];
        const frames = [
          ...state,
          peek("k", bytes),
          limit("k", bytes, cost),
          refund("k", bytes, cost),
        ];
        for (const frame of [...frames, peek("k", bytes)]) {
          const expected = model.command(frame);
          const reply = replyOf(engine, frame, nowMs);
          if ("codes" in expected) expect(expected.codes).toContain(reply.code);
          else expect([...reply.bytes]).toEqual(expected.bytes);
        }
      });
      fc.assert(property, { seed, numRuns: runs(300) });
    },
  );

  it("limits refuse any bytes that are not a state", () => {
    const text = fc.oneof(
      fc.constantFrom("12|", "22|", "23|8|", "32|", "42|", "51|", "51|23|1|a|1|1$", "61|", "v1|"),
      fc.string({ maxLength: 12, unit: "binary-ascii" }),
    );
    const filler = fc.constantFrom("|", "9", "1|", "a|1|1|", "$", "-", "e9", "\xff", "\0");
    const state = fc
      .tuple(text, filler, fc.nat(5000))
      .map(([start, filler, count]) => (start + filler.repeat(count)).slice(0, 5000));
    const property = fc.property(
      state,
      configurations,
      costArbitrary,
      (state, configuration, cost) => {
        const engine = engineOf();
        const bytes = configurationBytes(configuration);
        replyOf(engine, set("k", bytesOf(state), FOREVER));
        const images = imagesOf(engine);
        for (const frame of [peek("k", bytes), limit("k", bytes, cost), refund("k", bytes, cost)]) {
          const { isError, code, body } = replyOf(engine, frame);
          if (!isError) continue;
          expect(["state_invalid", "cost_invalid"]).toContain(code);
          expect(body.length).toBeLessThan(1000);
        }
        if (state.length > 1024) expect(imagesOf(engine)).toEqual(images);
      },
    );
    fc.assert(property, { seed, numRuns: runs(500) });
  });

  it("limits refuse buffers longer than any state without reading them", () => {
    const engine = engineOf();
    const messageOf = (bytes: number): string => {
      replyOf(engine, set("k", new Uint8Array(bytes).fill(0x39), FOREVER));
      return new TextDecoder().decode(replyOf(engine, limit("k", BUCKET, 1)).body);
    };
    expect(messageOf(4096)).toMatch(
      /^state_invalid: the buffer under "k" does not hold a state of token_bucket \(expected /,
    );
    expect(messageOf(4097)).toMatch(/^state_invalid: the buffer has 4097 bytes, /);
    expect(messageOf(1_000_000)).toMatch(/^state_invalid: the buffer has 1000000 bytes, /);
  });

  it("the refusal of a foreign state names its key and the remedy, but not its content", () => {
    const sliding = { strategy: "sliding_window", limit: 3, windowNs: 60_000_000_000n } as const;
    const gcra = { strategy: "gcra", burst: 3, rate: 1 } as const;
    const primary = {
      strategy: "fixed_window",
      quotas: [{ name: "a", limit: 3, windowNs: 60_000_000_000n }],
    } as const;
    const key = "api:user:42";
    const engine = engineOf();
    const messageOf = (configuration: RateLimitConfiguration, state?: string): string => {
      if (state !== undefined) replyOf(engine, set(key, bytesOf(state), FOREVER));
      const reply = replyOf(engine, limit(key, configurationBytes(configuration), 1));
      expect([reply.isError, reply.code]).toEqual([true, "state_invalid"]);
      return new TextDecoder().decode(reply.body);
    };
    const other = (found: string, asked: string): string =>
      `state_invalid: the buffer under "${key}" holds the state of another strategy (it looks like ${found}, not ${asked}): reset the limit, or use another key`;
    const none = (asked: string, expected: string): string =>
      `state_invalid: the buffer under "${key}" does not hold a state of ${asked} (expected ${expected}): reset the limit, which deletes the buffer, or use another key`;
    replyOf(engine, limit(key, BUCKET, 1));
    expect(messageOf(sliding)).toBe(other("token_bucket", "sliding_window"));
    expect(messageOf(gcra)).toBe(other("token_bucket", "gcra"));
    expect(messageOf(gcra, "cmp1|22|1|5|$42|5")).toBe(other("composite", "gcra"));
    const composite = { strategy: "composite", primary, secondary: gcra } as const;
    expect(messageOf(composite, "51|23|1|a|1|5$12|1|5")).toBe(other("token_bucket", "gcra"));
    expect(messageOf(gcra, "61secret")).toBe(none("gcra", "one of 42, 41, v2, v1"));
    expect(messageOf(sliding, "61|secret")).toBe(
      none("sliding_window", "61|current|previous|start"),
    );
  });

  it.each(COSTS)("limits refuse a cost of %s", (cost) => {
    const engine = engineOf();
    const isFine = Number.isSafeInteger(cost) && cost >= 1;
    for (const frame of [limit("k", BUCKET, cost), refund("k", BUCKET, cost)]) {
      expect(replyOf(engine, frame).code).toBe(isFine ? "" : "cost_invalid");
    }
    expect(engine.figures.records).toBe(0);
  });

  it("limits refuse invalid configurations, and long ones unread", () => {
    const engine = engineOf();
    const quotas = concat([Uint8Array.of(2, 255), new Uint8Array(255 * 17)]);
    const named = concat([
      Uint8Array.of(2, 2),
      ...["a", "a"].map((name) => concat([Uint8Array.of(1), bytesOf(name), f64(1), u64(1n)])),
    ]);
    const cases: [string, Uint8Array][] = [
      ["configuration_invalid", new Uint8Array(0)],
      ["configuration_invalid", Uint8Array.of(0)],
      ["configuration_invalid", Uint8Array.of(7)],
      ["configuration_invalid", Uint8Array.of(5, 5, 5, 5)],
      ["configuration_invalid", BUCKET.subarray(0, -1)],
      ["configuration_invalid", concat([BUCKET, Uint8Array.of(0)])],
      ["burst_invalid", concat([Uint8Array.of(1), f64(NaN), f64(1)])],
      ["burst_invalid", concat([Uint8Array.of(1), f64(2 ** 53), f64(1)])],
      ["rate_invalid", concat([Uint8Array.of(1), f64(1), f64(-0)])],
      ["rate_invalid", concat([Uint8Array.of(1), f64(1), f64(Infinity)])],
      ["time_overflow", concat([Uint8Array.of(1), f64(1), f64(5e-324)])],
      ["quota_name_taken", named],
      ["body_invalid", quotas],
      ["body_invalid", new Uint8Array(1_000_000)],
    ];
    for (const [code, configuration] of cases) {
      for (const frame of [
        limit("k", configuration, 1),
        refund("k", configuration, 1),
        peek("k", configuration),
      ]) {
        expect(replyOf(engine, frame).code).toBe(code);
      }
    }
    expect(engine.figures.records).toBe(0);
  });

  it("limits accept the largest possible configuration", () => {
    const quotas = Array.from({ length: 8 }, (_, i) => ({
      name: `${i}`.padEnd(64, "x"),
      limit: i + 1,
      windowNs: 10n ** 9n + BigInt(i),
    }));
    const configuration = configurationBytes({
      strategy: "composite",
      primary: { strategy: "fixed_window", quotas },
      secondary: { strategy: "token_bucket", burst: 3, rate: 1 },
    });
    const engine = engineOf();
    const statuses = repliesOf(engine, [
      limit("k", configuration, 1),
      limit("k", configuration, 1),
      peek("k", configuration),
    ]).map(({ isError, body }) => [isError, body[0]! & 1]);
    expect(statuses).toEqual([
      [false, 1],
      [false, 0],
      [false, 0],
    ]);
  });

  it("limits decide the same, however many configurations are in use", () => {
    const engine = engineOf();
    const configurationOf = (burst: number): Uint8Array =>
      configurationBytes({ strategy: "token_bucket", burst, rate: 0.001 });
    for (let round = 0; round < 2; round++) {
      for (let burst = 1; burst <= 2500; burst++) {
        const { body } = replyOf(engine, peek("k", configurationOf(burst)));
        expect(new DataView(body.buffer).getFloat64(1, true)).toBe(burst);
      }
    }
  });
});

describe("limiters", () => {
  it("limiters are made once for each configuration, and the oldest are forgotten", () => {
    const limiters = new Limiters();
    const of = (burst: number) => {
      const bytes = configurationBytes({ strategy: "token_bucket", burst, rate: 1 });
      return limiters.of(bytes, 0, bytes.length);
    };
    const first = of(1);
    of(2);
    expect(of(1)).toBe(first);
    for (let burst = 2; burst <= 1024; burst++) of(burst);
    expect(of(1)).toBe(first);
    of(1025);
    expect(of(1)).not.toBe(first);
  });
});

describe("frames that doors let through", () => {
  const layouts = layoutsOf(EDGE);
  const types = layouts.flatMap((layout, type) => (layout?.target === Target.shard ? [type] : []));

  it("frames that doors let through never fail a batch", () => {
    const bytes = fc.oneof(
      fc.uint8Array({ maxLength: 60 }),
      fc
        .array(fc.constantFrom(0, 1, 2, 3, 5, 6, 64, 65, 255), { maxLength: 60 })
        .map((list) => Uint8Array.from(list)),
    );
    const frame = fc.tuple(fc.constantFrom(...types), bytes).map(([type, rest]) => {
      // Whatever sizes the header says, so many bytes follow; values have less than 64 KiB.
      const header = concat([Uint8Array.of(type), rest, new Uint8Array(20)]).slice(0, 20);
      const { valueSizeAt, valueSizeBytes } = layouts[type]!;
      if (valueSizeAt > 0) header.fill(0, valueSizeAt + 2, valueSizeAt + valueSizeBytes);
      const length = frameLength(layouts, header, 0, header.length, Infinity);
      return concat([header, rest, new Uint8Array(Math.max(0, length))]).slice(0, length);
    });
    const property = fc.property(fc.array(frame, { minLength: 1, maxLength: 30 }), (frames) => {
      const engine = engineOf();
      const [part] = partsOf(engine.apply(edgeBatch(frames), NOW_MS));
      expect(part!.count).toBe(frames.length);
      engine.takeCommit(1_900_000);
      expect(engine.figures.bytes).toBeLessThan(8 << 20);
    });
    fc.assert(property, { seed, numRuns: runs(1000) });
  });

  it("SCAN and REMOVE are not frames of a single shard", () => {
    expect(types).not.toContain(Command.scan);
    expect(types).not.toContain(Command.remove);
    expect(layouts.filter((layout, type) => type >= 0x20 && layout !== undefined)).toHaveLength(
      Object.keys(Command).length,
    );
  });
});

describe("a key", () => {
  it("a key of any bytes is one key, and not another", () => {
    const engine = engineOf();
    const keys = ["", "\0", "\0\0", "a", "a\0", "\xff".repeat(255), "\xff".repeat(254)];
    repliesOf(
      engine,
      keys.map((key, i) => insert(key, BigInt(i), FOREVER)),
    );
    const replies = repliesOf(
      engine,
      keys.map((key) => read(key)),
    );
    replies.forEach(({ body }, i) => {
      expect(new DataView(body.buffer).getBigUint64(19, true)).toBe(BigInt(i));
    });
    const query = { keyspace: EDGE.keyspace, prefix: new Uint8Array(0), prefixes: [] };
    const page = finish(engine.scan.page(query, null, 1000));
    expect(new DataView(page.buffer).getUint32(4, true)).toBe(keys.length);
  });
});

describe("usage of a record", () => {
  const stat = (key: string): Uint8Array => concat([Uint8Array.of(0x09, key.length), bytesOf(key)]);
  const usageOf = (engine: Engine, key: string): string => {
    const { replies } = partsOf(engine.apply(edgeBatch([stat(key)]), NOW_MS))[0]!;
    const view = new DataView(replies.buffer, replies.byteOffset);
    return `${view.getBigUint64(17, true)} reads, ${view.getBigUint64(25, true)} writes`;
  };

  it.each<[string, Uint8Array[], string]>([
    ["INSERT", [insert("k", 1n, FOREVER), insert("k", 1n, FOREVER)], "0 reads, 1 writes"],
    ["READ", [insert("k", 1n, FOREVER), read("k"), read("k")], "2 reads, 1 writes"],
    ["INCREMENT", [increment("k", 1n, FOREVER), increment("k", 1n, ttlMs(1))], "0 reads, 2 writes"],
    [
      "INCREMENT beyond the end",
      [increment("k", 1n, FOREVER), increment("k", 2n ** 64n - 1n, ttlMs(1))],
      "0 reads, 1 writes",
    ],
    ["LIMIT", [1, 3].map((cost) => limit("k", BUCKET, cost)), "1 reads, 1 writes"],
    ["PEEK", [limit("k", BUCKET, 1), peek("k", BUCKET)], "1 reads, 1 writes"],
    ["REFUND", [limit("k", BUCKET, 1), refund("k", BUCKET, 1)], "0 reads, 2 writes"],
    [
      "a call that is made again",
      [1, 2, 3].map(() => increment("k", 1n, FOREVER, { once: "id" })),
      "0 reads, 1 writes",
    ],
    [
      "a record that is gone and comes again",
      [insert("k", 1n, FOREVER), purge("k"), insert("k", 1n, FOREVER)],
      "0 reads, 1 writes",
    ],
  ])("the usage of a record counts %s", (_, frames, usage) => {
    const engine = engineOf();
    repliesOf(engine, frames);
    expect(usageOf(engine, "k")).toBe(usage);
  });
});
