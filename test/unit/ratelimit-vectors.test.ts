/** The recorded decisions of the library, each replayed alone, in what they tell. */
import { existsSync, readFileSync } from "node:fs";
import { resolve } from "node:path";
import { describe, expect, it } from "vitest";
import { createLimiter, type StoredDecision } from "../../src/engine/ratelimit/limiter.ts";
import { RateLimitError } from "../../src/wire/ratelimit/error.ts";
import { checkName, storageKey } from "../../src/wire/ratelimit/keys.ts";
import { formatFloat, readFloat } from "../../src/wire/ratelimit/numbers.ts";
import { StateError } from "../../src/wire/ratelimit/state.ts";

interface RecordedStrategy {
  type: string;
  burst?: number;
  rate?: number;
  quotas?: { name: string; limit: number; window_ns: string }[];
}

interface RecordedConfiguration {
  base_key: string;
  primary: RecordedStrategy;
  secondary?: RecordedStrategy;
  /** Of the library's compare-and-set loop. */
  max_retries?: number;
}

interface RecordedDecision {
  series: string;
  step: number;
  op: "allow" | "peek" | "reset" | "set_state";
  config: RecordedConfiguration;
  key: string;
  storage_key: string;
  now_ns: string;
  /** "" for none. */
  state_before: string;
  state_after: string;
  allowed: boolean;
  results?: Record<string, { allowed: boolean; remaining?: number; reset_ns?: string }>;
  ttl_ns?: string;
  error?: string;
}

interface RecordedCheck {
  kind: string;
  config: RecordedConfiguration;
  key: string;
  code: number;
  ok: boolean;
  error: string | null;
}

interface RecordedNumber {
  kind: string;
  text: string;
  bits: string;
  burst: number;
  rate: number;
  ttl_ns: string;
  emission_ns: string;
  limit_ns: string;
}

const folder = [process.env.VECTORS, "../shared/vectors", "test/vectors"].find(
  (folder) => folder !== undefined && existsSync(folder),
)!;

function recordsOf<Recorded>(name: string): Recorded[] {
  return readFileSync(resolve(folder, "ratelimit", `${name}.jsonl`), "utf8")
    .split("\n")
    .filter((line) => line !== "")
    .map((line) => JSON.parse(line) as Recorded);
}

/** What can't be replayed, by operation or kind. */
const NOT_APPLICABLE = {
  reset: "deletes the record: nothing is decided",
  set_state: "puts the state there that the next steps have as state_before",
  max_retries: "of a compare-and-set loop, which a shard does not need",
} as const;

function toConfiguration({ primary, secondary }: RecordedConfiguration): unknown {
  const single = ({ type, quotas, burst, rate }: RecordedStrategy): object => ({
    strategy: type,
    ...(burst === undefined ? {} : { burst, rate }),
    ...(quotas === undefined
      ? {}
      : {
          quotas: quotas.map(({ name, limit, window_ns: windowNs }) => ({
            name,
            limit,
            windowNs: BigInt(windowNs),
          })),
        }),
  });
  if (secondary === undefined) return single(primary);
  return { strategy: "composite", primary: single(primary), secondary: single(secondary) };
}

const DECISIONS = [
  "token-bucket",
  "leaky-bucket",
  "gcra",
  "fixed-window",
  "composite",
  "decode",
] as const;

describe.each(DECISIONS)("recorded decisions: %s", (name) => {
  const records = recordsOf<RecordedDecision>(name);
  const isReplayed = ({ op }: RecordedDecision): boolean => op === "allow" || op === "peek";

  it("the recording has decisions", () => {
    expect(records.some(isReplayed)).toBe(true);
  });

  for (const [series, steps] of Map.groupBy(records.filter(isReplayed), ({ series }) => series)) {
    it(series, () => {
      for (const record of steps) expectDecision(record);
    });
  }

  for (const op of ["reset", "set_state"] as const) {
    const count = records.filter((record) => record.op === op).length;
    if (count > 0) it.skip(`${op}, ${count} records: ${NOT_APPLICABLE[op]}`, () => {});
  }

  it("the recording has no other operations", () => {
    const others = records.filter((record) => !isReplayed(record)).map(({ op }) => op);
    expect(others.filter((op) => !Object.hasOwn(NOT_APPLICABLE, op))).toEqual([]);
  });
});

/** Compares what a record has, all at once, so that a failure shows which record it was. */
function expectDecision(record: RecordedDecision): void {
  const { series, step, config, op, key } = record;
  const limiter = createLimiter(toConfiguration(config));
  const stored = record.state_before === "" ? null : record.state_before;
  const nowNs = BigInt(record.now_ns);
  const replayed = {
    series,
    step,
    storageKey: storageKey(config.base_key, key, config.secondary !== undefined),
    ...outcome(record.state_before, () =>
      op === "peek" ? limiter.peek(stored, nowNs) : limiter.limit(stored, nowNs),
    ),
  };
  const hasError = record.error !== undefined;
  expect(replayed).toEqual({
    series,
    step,
    storageKey: record.storage_key,
    hasError,
    ...expectation(),
  });

  function expectation(): object {
    if (hasError) return {};
    const isWritten = op === "allow" && record.allowed;
    return {
      allowed: record.allowed,
      isWritten,
      stateAfter: record.state_after,
      ttlNs: isWritten ? BigInt(record.ttl_ns!) : 0n,
      quotas: record.results === undefined ? expect.any(Object) : quotasOf(record.results),
    };
  }
}

/** @param before the stored text, "" for none */
function outcome(before: string, decide: () => StoredDecision): object {
  try {
    const { allowed, state, ttlNs, quotas } = decide();
    const byName = Object.fromEntries(
      quotas.map(({ name, allowed, remaining, resetNs }) => [
        name,
        { allowed, remaining, resetNs },
      ]),
    );
    const [isWritten, stateAfter] = [state !== null, state ?? before];
    return { hasError: false, allowed, isWritten, stateAfter, ttlNs, quotas: byName };
  } catch (error) {
    if (!(error instanceof StateError)) throw error;
    return { hasError: true };
  }
}

function quotasOf(results: NonNullable<RecordedDecision["results"]>): object {
  return Object.fromEntries(
    Object.entries(results).map(([name, { allowed, remaining, reset_ns: resetNs }]) => [
      name,
      {
        allowed,
        remaining: remaining ?? expect.any(Number),
        resetNs: resetNs === undefined ? expect.any(BigInt) : BigInt(resetNs),
      },
    ]),
  );
}

describe("recorded checks", () => {
  const CHECKS: Record<string, (record: RecordedCheck) => unknown> = {
    new_limiter: ({ config }) => {
      checkName(config.base_key, "baseKey", "base_key_invalid");
      return createLimiter(toConfiguration(config));
    },
    base_key: ({ key }) => storageKey(key, "key", false),
    dynamic_key: ({ key }) => storageKey("base", key, false),
    quota_name: ({ key }) => limiterOfQuota(key),
    key_char: ({ code }) => storageKey("base", String.fromCodePoint(code), false),
  };

  function limiterOfQuota(name: string): unknown {
    const quotas = [{ name, limit: 1, windowNs: 1n }];
    return createLimiter({ strategy: "fixed_window", quotas });
  }

  const isOfLoop = ({ config }: Partial<RecordedCheck>): boolean =>
    config?.max_retries !== undefined;
  const records = recordsOf<RecordedCheck>("config");
  const count = records.filter(isOfLoop).length;
  if (count > 0) it.skip(`max_retries, ${count} records: ${NOT_APPLICABLE.max_retries}`, () => {});

  for (const record of records.filter((record) => !isOfLoop(record))) {
    const { kind, config, key, code } = record;
    const title = `${kind} ${JSON.stringify(config ?? key ?? code)}`;
    it(title, () => {
      const isRefused = kind === "key_char" ? !record.ok : record.error !== null;
      const check = (): unknown => CHECKS[kind]!(record);
      if (isRefused) expect(check).toThrow(RateLimitError);
      else expect(check).not.toThrow();
    });
  }
});

describe("recorded numbers", () => {
  const NOW_NS = 1761884055342794596n;
  const numbers = Map.groupBy(recordsOf<RecordedNumber>("numbers"), ({ kind }) => kind);

  it("all recorded numbers are of known kinds", () => {
    expect([...numbers.keys()].toSorted()).toEqual(["format_g", "gcra_params", "ttl"]);
  });

  it("the double just below 0.0001 has an exponent, as every smaller one", () => {
    expect(formatFloat(0.00009999999999999999)).toBe("9.999999999999999e-05");
    expect(formatFloat(0.0001)).toBe("0.0001");
  });

  it("numbers are formatted and read as recorded, and infinities, which no state holds, are refused", () => {
    for (const { bits, text } of numbers.get("format_g")!) {
      const value = doubleOf(bits);
      if (Number.isFinite(value)) {
        expect(formatFloat(value)).toBe(text);
        expect(readFloat(text)).toBe(value);
      } else {
        expect(readFloat(text)).toBeNull();
      }
    }
  });

  it.each(numbers.get("ttl") ?? [])(
    "the TTL of $burst at $rate/s is the recorded one",
    ({ burst, rate, ttl_ns: ttlNs }) => {
      const limiter = createLimiter({ strategy: "token_bucket", burst, rate });
      expect(limiter.limit(null, NOW_NS).ttlNs).toBe(BigInt(ttlNs));
    },
  );

  it.each(numbers.get("gcra_params") ?? [])(
    "the parameters of GCRA for $burst at $rate/s are the recorded ones",
    (record) => {
      const { burst, rate } = record;
      const create = () => createLimiter({ strategy: "gcra", burst, rate });
      const limitNs = BigInt(record.limit_ns);
      if (limitNs < 0n) {
        // In the library it left int64.
        expect(create).toThrow(RateLimitError);
        return;
      }
      const { state, resetNs } = create().limit(null, NOW_NS);
      const nextNs = NOW_NS + BigInt(record.emission_ns);
      expect(state).toBe(`42|${nextNs}`);
      expect(resetNs).toBe(nextNs + limitNs);
    },
  );
});

function doubleOf(bits: string): number {
  const view = new DataView(new ArrayBuffer(8));
  view.setBigUint64(0, BigInt(`0x${bits}`));
  return view.getFloat64(0);
}
