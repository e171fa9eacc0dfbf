/**
 * Which shard owns a key.
 *
 * Every door must choose alike, so the hash that chooses depends on nothing but the namespace and,
 * where one is set, a secret that keeps strangers from aiming all their keys at one shard.
 */
import { hashBytes, type HashKey } from "../engine/hash.ts";
import type { Placement } from "../wire/batch.ts";

const encoder = new TextEncoder();
const NAME_KEY: HashKey = { low: 0x9e3779b9, high: 0x7f4a7c15 };

export class ShardMap implements Placement {
  readonly namespace: string;
  readonly shards: number;
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
    const seed = encoder.encode(`${namespace}\n${secret}`);
    const high = hashBytes(NAME_KEY, 0, seed, 0, seed.length);
    const low = hashBytes(NAME_KEY, 1, seed, 0, seed.length);
    this.#key = { high, low };
    // Tells seeds apart without giving away the one in use.
    const proof = encoder.encode("fingerprint");
    this.fingerprint = hashBytes(this.#key, 3, proof, 0, proof.length);
    this.placement = { shards, fingerprint: this.fingerprint };
  }

  /** Index of the shard that owns `bytes[at, at + length)` in a keyspace. */
  shardOf(keyspace: number, bytes: Uint8Array, at: number, length: number): number {
    if (this.shards === 1) return 0;
    return Math.floor((hashBytes(this.#key, keyspace, bytes, at, length) * this.shards) / 2 ** 32);
  }
}
