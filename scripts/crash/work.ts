/** What a connection works on: keys of its own, which differ in how often they change, and shared ones. */
import { OwnKey } from "./own-key.ts";
import { SharedCounter } from "./shared-counter.ts";

const HOT_KEYS = 8;
const COLD_KEYS = 200;
const SMALL_VALUE_BYTES_MAX = 256;
/** Enough that a snapshot takes several steps, and that a kill comes between two of them now and then. */
const LARGE_KEYS = 50;
const LARGE_VALUE_BYTES_MAX = 256 << 10;
/** Some keys are long: the first of every so many. */
const LONG_KEY_INTERVAL = 10;
const LONG_KEY_BYTES = 255;
const SHARED_COUNTERS = 16;

export interface Work {
  readonly hot: readonly OwnKey[];
  readonly cold: readonly OwnKey[];
  readonly large: readonly OwnKey[];
  readonly shared: readonly SharedCounter[];
}

/** The work of so many connections; the shared counters are the same in each. */
export function makeWorks(connections: number): Work[] {
  const shared = Array.from({ length: SHARED_COUNTERS }, (_, index) => {
    return new SharedCounter(`shared-${index}`);
  });
  return Array.from({ length: connections }, (_, connection) => ({
    hot: makeKeys(`hot-${connection}`, HOT_KEYS, SMALL_VALUE_BYTES_MAX),
    cold: makeKeys(`cold-${connection}`, COLD_KEYS, SMALL_VALUE_BYTES_MAX),
    large: makeKeys(`large-${connection}`, LARGE_KEYS, LARGE_VALUE_BYTES_MAX),
    shared,
  }));
}

/** Every key that a connection alone writes to. */
export function ownKeysOf({ hot, cold, large }: Work): readonly OwnKey[] {
  return [...hot, ...cold, ...large];
}

function makeKeys(prefix: string, count: number, valueBytesMax: number): OwnKey[] {
  return Array.from({ length: count }, (_, index) => {
    const keyBytes = index % LONG_KEY_INTERVAL === 0 ? LONG_KEY_BYTES : 0;
    return new OwnKey(`${prefix}-${index}`, keyBytes, valueBytesMax);
  });
}
