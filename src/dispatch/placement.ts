/**
 * Where on the circle of hashes a key lies, and which group has a channel. Which shard owns a part of the circle is what
 * `ShardMap` knows.
 *
 * Every door must choose alike, so the hash that chooses depends on nothing but the namespace and,
 * where one is set, a secret that keeps strangers from aiming all their names at one object.
 */
import { hashBytes, type HashKey } from "../engine/hash.ts";
import { binaryBytes } from "../wire/bytes.ts";

const encoder = new TextEncoder();
/** Hashed into the fingerprint, which tells seeds apart without giving away the one in use. */
const PROOF = encoder.encode("fingerprint");
/** Part of the format, like the hash: another key would look for records where they are not. */
const NAME_KEY: HashKey = { low: 0x9e3779b9, high: 0x7f4a7c15 };

/**
 * Objects that the channels of a namespace are spread over. Part of the format, not a variable: all that
 * publish, subscribe and store must agree on it, also across releases.
 */
export const CHANNEL_GROUPS = 32;

/** Seed of the placement. Namespaces differ in it, so keys of one name lie in different shards. */
export function seedOf(namespace: string, secret: string): HashKey {
  const seed = encoder.encode(`${namespace}\n${secret}`);
  const high = hashBytes(NAME_KEY, 0, seed, 0, seed.length);
  const low = hashBytes(NAME_KEY, 1, seed, 0, seed.length);
  return { high, low };
}

/** Which of `count` objects a hash chooses: multiplied, not divided, as the high bits of the hash are its best. */
function indexOf(hash: number, count: number): number {
  return Math.floor((hash * count) / 2 ** 32);
}

/** Spreads the channels of a namespace over its groups. */
export class GroupMap {
  readonly #key: HashKey;

  constructor(namespace: string, secret: string) {
    this.#key = seedOf(namespace, secret);
  }

  /** Index of the group that has the channel `bytes[at, at + length)`. */
  groupAt(bytes: Uint8Array, at: number, length: number): number {
    return indexOf(hashBytes(this.#key, 0, bytes, at, length), CHANNEL_GROUPS);
  }

  /** @param channel as a binary string */
  groupOf(channel: string): number {
    return this.groupAt(binaryBytes(channel), 0, channel.length);
  }
}

/** What spreads the keys of a namespace over the circle of hashes. */
export class KeyHash {
  /** Of the hash. */
  readonly seed: HashKey;
  /** Of the seed: a shard refuses batches that were spread by another one. */
  readonly fingerprint: number;

  /**
   * @param namespace whose keys are spread
   * @param secret mixed into the hash; empty for none
   */
  constructor(namespace: string, secret: string) {
    this.seed = seedOf(namespace, secret);
    this.fingerprint = hashBytes(this.seed, 3, PROOF, 0, PROOF.length);
  }

  /** Hash of the key `bytes[at, at + length)` in a keyspace, u32. It tells keys apart without naming them. */
  hashOf(keyspace: number, bytes: Uint8Array, at: number, length: number): number {
    return hashBytes(this.seed, keyspace, bytes, at, length);
  }
}
