/** Random commands: few keys, so that they meet; values at the edges; bodies that are none. */
import fc from "fast-check";
import { Command } from "../../../src/wire/edge/command.ts";
import type { RateLimitConfiguration } from "../../../src/wire/ratelimit/configuration.ts";
import {
  bytesOf,
  change,
  commandFrame,
  compareAndSet,
  concat,
  configurationBytes,
  expire,
  increment,
  insert,
  limit,
  peek,
  purge,
  read,
  refund,
  set,
  type Ttl,
} from "../frames/index.ts";
import { scenarioArbitrary, STRATEGIES } from "../rate-limits/arbitraries.ts";

/** Some of those that requests of 7.3 use, too. */
const KEYS = ["", "a", "b", "ab", "\0", "\0\0", "k".repeat(16), "\xff".repeat(255)];
export const key = fc.oneof(
  { weight: 6, arbitrary: fc.constantFrom(...KEYS) },
  { weight: 1, arbitrary: fc.nat(20).map((n) => `user:${n}`) },
);

const MAX = 2n ** 64n - 1n;
const EDGES = [0n, 1n, 2n, 2n ** 32n - 1n, 2n ** 32n, 2n ** 53n, 2n ** 63n - 1n, 2n ** 63n, MAX];
export const u64Arbitrary = fc.oneof(
  { weight: 3, arbitrary: fc.bigInt(0n, 20n) },
  { weight: 3, arbitrary: fc.constantFrom(...EDGES, MAX - 1n) },
  { weight: 1, arbitrary: fc.bigInt(0n, MAX) },
);

export const ttlArbitrary: fc.Arbitrary<Ttl> = fc.oneof(
  { weight: 4, arbitrary: fc.record({ unit: fc.constant(3), count: fc.bigInt(1n, 5000n) }) },
  {
    weight: 4,
    arbitrary: fc.record({ unit: fc.constantFrom(1, 2, 3, 4, 5, 6), count: u64Arbitrary }),
  },
  {
    weight: 1,
    arbitrary: fc.record({ unit: fc.constantFrom(0, 7, 8, 255), count: u64Arbitrary }),
  },
);

const changeKind = fc.oneof(
  { weight: 8, arbitrary: fc.constantFrom(0, 1, 2) },
  { weight: 1, arbitrary: fc.constantFrom(3, 255) },
);

const VALUES = ["", "x", "me", "you"].map(bytesOf);
const value = fc.oneof(
  { weight: 4, arbitrary: fc.constantFrom(...VALUES) },
  { weight: 1, arbitrary: fc.uint8Array({ maxLength: 300 }) },
);

const compareOptions = fc.oneof(
  { weight: 10, arbitrary: fc.constantFrom(0, 1, 2, 3) },
  { weight: 1, arbitrary: fc.constantFrom(4, 128, 255) },
);

/** Configurations that keep meeting each other. */
export const configurations: fc.Arbitrary<RateLimitConfiguration> = fc
  .constantFrom(...STRATEGIES)
  .chain((strategy) => scenarioArbitrary(strategy))
  .map(({ configuration }) => configuration);

export const COSTS = [
  0,
  -1,
  0.5,
  -0,
  Infinity,
  -Infinity,
  NaN,
  2 ** 53,
  2 ** 53 - 1,
  1e308,
  5e-324,
];
export const costArbitrary = fc.oneof(
  { weight: 8, arbitrary: fc.integer({ min: 1, max: 6 }) },
  { weight: 1, arbitrary: fc.constantFrom(...COSTS) },
);

/** The id of a call, or none. */
const once = fc.oneof(
  { weight: 3, arbitrary: fc.constant(undefined) },
  { weight: 2, arbitrary: fc.constantFrom("1", "2", "\0", "i".repeat(64)) },
  { weight: 1, arbitrary: fc.constantFrom("", "i".repeat(65)) },
);

/** One command, whole and right but for single values out of their range. */
export function goodCommand(
  configuration: fc.Arbitrary<RateLimitConfiguration>,
  ttls: fc.Arbitrary<Ttl> = ttlArbitrary,
): fc.Arbitrary<Uint8Array> {
  const limits = configuration.map(configurationBytes);
  const limited = fc.record({
    key: fc.oneof(key, fc.constantFrom("limited:0", "limited:1")),
    limits,
    cost: costArbitrary,
    relaxed: fc.boolean(),
  });
  return fc
    .record({ key, once, ttl: ttls, amount: u64Arbitrary, kind: changeKind })
    .chain(({ key, once, ttl, amount, kind }) =>
      fc.oneof(
        fc.constant(read(key, { once })),
        fc.constant(insert(key, amount, ttl, { once })),
        fc.constant(increment(key, amount, ttl, { once })),
        fc.constant(change(key, kind, amount, { once })),
        fc.constant(expire(key, kind, ttl, { once })),
        fc.constant(purge(key, { once })),
        value.map((bytes) => set(key, bytes, ttl, { once })),
        fc
          .tuple(compareOptions, value, value)
          .map(([options, expected, bytes]) =>
            compareAndSet(key, options, expected, bytes, ttl, { once }),
          ),
        limited.map(({ key, limits, cost, relaxed }) =>
          limit(key, limits, cost, { once, relaxed }),
        ),
        limited.map(({ key, limits, relaxed }) => peek(key, limits, { relaxed })),
        limited.map(({ key, limits, cost, relaxed }) =>
          refund(key, limits, cost, { once, relaxed }),
        ),
      ),
    );
}

/** What is no good command but goes through every door as one. */
const badCommand: fc.Arbitrary<Uint8Array> = fc
  .record({
    type: fc.constantFrom(...Object.values(Command).filter((type) => type < Command.scan)),
    key,
    body: fc.oneof(fc.uint8Array({ maxLength: 40 }), fc.uint8Array({ maxLength: 3 })),
    flags: fc.oneof(
      { weight: 4, arbitrary: fc.constantFrom(0, 1) },
      { weight: 1, arbitrary: fc.constantFrom(2, 3, 0x80, 0xff) },
    ),
  })
  .map(({ type, key, body, flags }) => commandFrame(type, key, body, { flags }));

/** A good command whose body ends early, or goes on. */
function bent(good: fc.Arbitrary<Uint8Array>): fc.Arbitrary<Uint8Array> {
  return fc.tuple(good, fc.integer({ min: -12, max: 12 })).map(([frame, by]) => {
    const header = 7 + frame[2]!;
    const bodyBytes = Math.max(0, frame.length - header + by);
    const whole = concat([frame, new Uint8Array(Math.max(0, by))]).slice(0, header + bodyBytes);
    new DataView(whole.buffer).setUint32(3, bodyBytes, true);
    return whole;
  });
}

/** Commands, most of them good. */
export function commandArbitrary(
  configuration: fc.Arbitrary<RateLimitConfiguration>,
  ttls: fc.Arbitrary<Ttl> = ttlArbitrary,
): fc.Arbitrary<Uint8Array> {
  const good = goodCommand(configuration, ttls);
  return fc.oneof(
    { weight: 12, arbitrary: good },
    { weight: 1, arbitrary: bent(good) },
    { weight: 1, arbitrary: badCommand },
  );
}

/** States of limiters that somebody else has left, some of them nonsense. */
export const leftState: fc.Arbitrary<Uint8Array> = fc
  .oneof(
    fc.constantFrom("", "12|", "12|1|", "42|9", "61|1|2|3", "23|1|quota-0|1|0", "12|1|99", "x"),
    fc.string({ maxLength: 30 }),
    fc.nat(6000).map((length) => `12|1|${"9".repeat(length)}`),
  )
  .map((text) => new TextEncoder().encode(text));
