/** Which of the other shards that its namespace began with have data, as shard 0 knows it: a bit for each, the lowest of a byte first. */
export class NotedShards {
  /** As it is stored. */
  bits: Uint8Array = new Uint8Array(0);

  get isEmpty(): boolean {
    return this.bits.every((byte) => byte === 0);
  }

  has(shard: number): boolean {
    return ((this.bits[shard >>> 3] ?? 0) & (1 << (shard & 7))) !== 0;
  }

  add(shard: number): void {
    const bits = new Uint8Array(Math.max(this.bits.length, (shard >>> 3) + 1));
    bits.set(this.bits);
    bits[shard >>> 3]! |= 1 << (shard & 7);
    this.bits = bits;
  }
}
