/**
 * Keyed 32-bit hash: HalfSipHash-1-3.
 *
 * Keys come from strangers. Without the hash key of 64 random bits a caller can't prepare names that collide. Its
 * 32-bit words suit a runtime without 64-bit integers. Source: the SipHash reference, HalfSipHash
 * variant, one compression and three finalization rounds.
 */
export interface HashKey {
  /** Two u32 halves of the 64-bit key. */
  readonly low: number;
  readonly high: number;
}

/** A fingerprint of a hash key: equal keys have equal ones, and it does not reveal the key. */
export function hashKeyName(key: HashKey): number {
  const proof = new TextEncoder().encode("name");
  return hashBytes(key, 3, proof, 0, proof.length);
}

/**
 * Hash of `bytes[at, at + length)`.
 *
 * @param tag mixed in beside the length: the same bytes hash differently under tags whose low two bits differ
 * @returns u32
 */
export function hashBytes(
  key: HashKey,
  tag: number,
  bytes: Uint8Array,
  at: number,
  length: number,
): number {
  let v0 = key.low | 0;
  let v1 = key.high | 0;
  let v2 = 0x6c796765 ^ key.low;
  let v3 = 0x74656462 ^ key.high;
  const end = at + length;
  let word: number;
  let last = false;
  for (;;) {
    if (at + 4 <= end) {
      word = bytes[at]! | (bytes[at + 1]! << 8) | (bytes[at + 2]! << 16) | (bytes[at + 3]! << 24);
      at += 4;
    } else {
      word = ((length + (tag << 6)) & 0xff) << 24;
      if (at < end) word ^= bytes[at]!;
      if (at + 1 < end) word ^= bytes[at + 1]! << 8;
      if (at + 2 < end) word ^= bytes[at + 2]! << 16;
      last = true;
    }
    v3 ^= word;
    v0 = (v0 + v1) | 0;
    v1 = (v1 << 5) | (v1 >>> 27);
    v1 ^= v0;
    v0 = (v0 << 16) | (v0 >>> 16);
    v2 = (v2 + v3) | 0;
    v3 = (v3 << 8) | (v3 >>> 24);
    v3 ^= v2;
    v0 = (v0 + v3) | 0;
    v3 = (v3 << 7) | (v3 >>> 25);
    v3 ^= v0;
    v2 = (v2 + v1) | 0;
    v1 = (v1 << 13) | (v1 >>> 19);
    v1 ^= v2;
    v2 = (v2 << 16) | (v2 >>> 16);
    v0 ^= word;
    if (last) break;
  }
  v2 ^= 0xff;
  for (let round = 0; round < 3; round++) {
    v0 = (v0 + v1) | 0;
    v1 = (v1 << 5) | (v1 >>> 27);
    v1 ^= v0;
    v0 = (v0 << 16) | (v0 >>> 16);
    v2 = (v2 + v3) | 0;
    v3 = (v3 << 8) | (v3 >>> 24);
    v3 ^= v2;
    v0 = (v0 + v3) | 0;
    v3 = (v3 << 7) | (v3 >>> 25);
    v3 ^= v0;
    v2 = (v2 + v1) | 0;
    v1 = (v1 << 13) | (v1 >>> 19);
    v1 ^= v2;
    v2 = (v2 << 16) | (v2 >>> 16);
  }
  return (v1 ^ v3) >>> 0;
}
