/**
 * What rate limits have decided: the answers to `GET /v1/limits` and `GET /v1/limits/{name}`.
 *
 * Decisions are counted by limiter, whose name is what a stored key has before its first colon: a limiter called
 * `api:login` counts as `api`, and its keys begin with `login:`. Each shard counts for itself, and the answer is the sum
 * of the shards that answered; it is not a snapshot.
 */
import type { LimitRates } from "./overview.ts";

export type { LimitRates };

/** The answer to `GET /v1/limits`. */
export interface LimitFigures {
  /** When all shards had answered, in ms since the epoch by the clock of the door. */
  readonly atMs: number;
  /** Most decisions of the last minute first, then most in all, then by name. */
  readonly limits: readonly (LimitRates & { readonly name: string })[];
  /** Of all limiters beyond the 256 that a shard tells apart, and of keys that name no limiter; null without any. */
  readonly others: LimitRates | null;
  /** The keys with the most decisions, at most 64; those outside of the caller's prefixes are left out. */
  readonly hottest: readonly (HotKey & { readonly name: string })[];
  /** The keys with the most refusals, at most 64; those outside of the caller's prefixes are left out. */
  readonly mostRefused: readonly (HotKey & { readonly name: string })[];
  /** Indexes of shards that did not answer: no figure includes them. */
  readonly unreachableShards: readonly number[];
}

/** The answer to `GET /v1/limits/{name}`: the same about one limiter. */
export interface OneLimitFigures extends LimitRates {
  readonly atMs: number;
  readonly name: string;
  readonly hottest: readonly HotKey[];
  readonly mostRefused: readonly HotKey[];
  readonly unreachableShards: readonly number[];
}

/**
 * A key of a limiter, and how often it came lately: `count - countErrorMax <= true count <= count`.
 *
 * Counts are halved every 5 minutes, so a key that came at a steady rate has the count of 5 to 10 minutes.
 */
export interface HotKey {
  /** The key as the caller of `limit` gave it, if it is UTF-8; else `keyBase64`. */
  readonly key?: string;
  readonly keyBase64?: string;
  readonly count: number;
  readonly countErrorMax: number;
}
