/** The shards that a namespace begins with: which of them has a key. */
import { KeyHash } from "../../src/dispatch/placement.ts";
import { writeBatchHeader, type Placement } from "../../src/wire/batch.ts";
import { ByteWriter } from "../../src/wire/bytes.ts";

export class InitialShards extends KeyHash {
  readonly namespace: string;
  readonly shards: number;
  /** As doors of releases without ranges say it. */
  readonly placement: Placement;

  constructor(namespace: string, shards: number, secret: string) {
    super(namespace, secret);
    this.namespace = namespace;
    this.shards = shards;
    this.placement = { shards, fingerprint: this.fingerprint };
  }

  /** Index of the shard that has the key `bytes[at, at + length)`. */
  shardOf(keyspace: number, bytes: Uint8Array, at: number, length: number): number {
    return Number((BigInt(this.hashOf(keyspace, bytes, at, length)) * BigInt(this.shards)) >> 32n);
  }
}

/** A batch without requests, which a shard takes or refuses by its placement alone. */
export function emptyBatch(placement: Placement): Uint8Array {
  const out = new ByteWriter(16);
  writeBatchHeader(out, placement);
  return out.take();
}
