/** Random requests: few keys, so that they meet; values at the edges of every size. */
import fc from "fast-check";
import type { ModelProtocol, ModelRequest } from "../models/requests.ts";

const KEYS = [
  "",
  "a",
  "b",
  "ab",
  "abcd",
  "abcde",
  "\0",
  "\0\0",
  "k".repeat(16),
  "\xff".repeat(255),
];

export const protocolArbitrary: fc.Arbitrary<ModelProtocol> = fc.record({
  dialect: fc.constantFrom("7.3", "7.1"),
  valueSize: fc.constantFrom(1, 2, 4, 8),
});

const key = fc.oneof(
  { weight: 4, arbitrary: fc.constantFrom(...KEYS) },
  { weight: 1, arbitrary: fc.nat(2000).map((n) => `user:${n}`) },
);

const uint = (valueSize: number): fc.Arbitrary<bigint> => {
  const max = 2n ** BigInt(8 * valueSize) - 1n;
  return fc.oneof(
    fc.constantFrom(0n, 1n, 2n, max - 1n, max, max >> 1n, (max >> 1n) + 1n),
    fc.bigInt(0n, max > 10n ? 10n : max),
    fc.bigInt(0n, max),
  );
};

const ttlType = fc.oneof(
  { weight: 8, arbitrary: fc.constantFrom(1, 2, 3, 4, 5, 6) },
  { weight: 1, arbitrary: fc.constantFrom(0, 7, 255) },
);

const attribute = fc.oneof(
  { weight: 8, arbitrary: fc.constantFrom(0, 1) },
  { weight: 1, arbitrary: fc.constantFrom(2, 255) },
);

const change = fc.oneof(
  { weight: 8, arbitrary: fc.constantFrom(0, 1, 2) },
  { weight: 1, arbitrary: fc.constantFrom(3, 255) },
);

/** A request that its protocol can carry. */
export function requestArbitrary({
  valueSize,
  dialect,
}: ModelProtocol): fc.Arbitrary<ModelRequest> {
  const value = uint(valueSize);
  const valueBytesMax = dialect === "7.1" || valueSize === 1 ? 255 : 600;
  return fc.oneof(
    fc.record({ type: fc.constant("insert" as const), key, quota: value, ttlType, ttl: value }),
    fc.record({ type: fc.constantFrom("query" as const, "get" as const), key }),
    fc.record({ type: fc.constant("purge" as const), key }),
    fc.record({ type: fc.constant("update" as const), key, attribute, change, value }),
    fc.record({
      type: fc.constant("set" as const),
      key,
      ttlType,
      ttl: value,
      value: fc.uint8Array({ maxLength: valueBytesMax }),
    }),
  );
}
