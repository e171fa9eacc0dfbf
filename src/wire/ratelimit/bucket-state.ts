/**
 * States of token buckets and leaky buckets.
 *
 *     12|tokens|last refill    32|level|last leak
 *
 * Version 1 had capacity and rate behind; the configuration has them now.
 */
import { formatFloat, readAmount, readFloat, readInt64 } from "./numbers.ts";
import { configuredForm, endedForm, readState, type Codec, type Form } from "./state.ts";

export interface BucketState {
  /** Tokens that are left, or the level that has not leaked: 0 up, with fractions. */
  readonly amount: number;
  /** When that was so, int64 ns since the epoch. */
  readonly atNs: bigint;
}

const current: Form<BucketState> = {
  fields: "amount|time",
  read: (fields) => {
    if (fields.length !== 2) return null;
    const amount = readAmount(fields[0]!);
    const atNs = readInt64(fields[1]!);
    return amount === null || atNs === null ? null : { amount, atNs };
  },
};
const first = configuredForm(current, ["capacity", "rate"], readFloat);

/** @param id digit of the strategy in headers */
function codecOf(strategy: string, id: string): Codec<BucketState> {
  const forms = new Map([
    [`${id}2`, current],
    [`${id}1`, first],
    ["v2", endedForm(current)],
    ["v1", first],
  ]);
  return {
    encode: ({ amount, atNs }) => `${id}2|${formatFloat(amount)}|${atNs}`,
    decode: (text) => readState(strategy, forms, text),
  };
}

export const tokenBucketCodec = codecOf("token_bucket", "1");
export const leakyBucketCodec = codecOf("leaky_bucket", "3");
