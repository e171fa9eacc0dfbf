/** Fills a shard, until it has no room for a new record, nor for a longer value in one that it has. */
import type { Engine } from "../../../src/engine/engine.ts";
import { batchOf, frameOf, partsOf } from "../frames/index.ts";

const protocol = { dialect: "7.3", valueSize: 4 };
/** Of values: each size is tried until it is refused, the smallest differences last. */
const SIZES = [8, 5000, 1000, 300, 100, 60, 40, 30, 24, 20, 17, 14, 12, 11, 10, 9];
/** TTL type. */
const HOURS = 6;

export function fillUp(engine: Engine, nowMs: number): void {
  const set = (key: number, bytes: number): boolean => {
    const value = new Uint8Array(bytes);
    const request = {
      type: "set",
      key: key.toString(36).padStart(4, "0"),
      ttlType: HOURS,
      ttl: 1n,
      value,
    } as const;
    const batch = batchOf([{ protocol, frames: [frameOf(protocol, request)] }]);
    return partsOf(engine.apply(batch, nowMs))[0]!.replies[0] === 1;
  };
  let keys = 0;
  while (set(keys, SIZES[0]!)) keys++;
  const sizes = new Map<number, number>();
  for (const bytes of SIZES.slice(1)) {
    for (let key = 0; key < keys; key++) {
      if ((sizes.get(key) ?? SIZES[0]!) < bytes && set(key, bytes)) sizes.set(key, bytes);
    }
  }
}
