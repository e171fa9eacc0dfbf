/**
 * Which shard owns a key, and which group has a channel.
 *
 * Every door must choose alike, so the hash that chooses depends on nothing but the namespace and,
 * where one is set, a secret that keeps strangers from aiming all their names at one object.
 */
import { hashBytes, type HashKey } from "../engine/hash.ts";
import type { Placement } from "../wire/batch.ts";
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

/** Namespaces differ in their seed, so keys of one name lie in different shards. */
function seedOf(namespace: string, secret: string): HashKey {
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

/** Spreads the keys of a namespace over its shards. */
export class ShardMap implements Placement {
  readonly namespace: string;
  /** 1 to 128: `SHARDS`. */
  readonly shards: number;
  /** Of the seed: a shard refuses batches that were spread by another one. */
  readonly fingerprint: number;
  /** The placement alone, as a plain object: it goes along with calls. */
  readonly placement: Placement;
  readonly #key: HashKey;

  /**
   * @param namespace whose keys are spread
   * @param shards 1 to 256
   * @param secret mixed into the choice; empty for none
   */
  constructor(namespace: string, shards: number, secret: string) {
    this.namespace = namespace;
    this.shards = shards;
    this.#key = seedOf(namespace, secret);
    this.fingerprint = hashBytes(this.#key, 3, PROOF, 0, PROOF.length);
    this.placement = { shards, fingerprint: this.fingerprint };
  }

  /** Index of the shard that owns `bytes[at, at + length)` in a keyspace. */
  shardOf(keyspace: number, bytes: Uint8Array, at: number, length: number): number {
    if (this.shards === 1) return 0;
    return this.shardOfHash(this.hashOf(keyspace, bytes, at, length));
  }

  /** Hash of a key in a keyspace, u32: it tells keys apart without naming them. */
  hashOf(keyspace: number, bytes: Uint8Array, at: number, length: number): number {
    return hashBytes(this.#key, keyspace, bytes, at, length);
  }

  /** Index of the shard that owns the keys with a hash. */
  shardOfHash(hash: number): number {
    return indexOf(hash, this.shards);
  }
}
