/**
 * Checks of rate limits that a Worker makes for the process that drives it: what the two say to each
 * other over a WebSocket.
 *
 * The driver asks for calls by number, u16 each, as many as it likes in a message. The Worker answers
 * each call when it has returned: its number, u16, and how many of its checks were refused, u16. Time
 * is taken by the driver: clocks stand still in a Worker.
 */
import type { LimitRequest } from "../../../src/wire/edge/operations.ts";

/** The bucket that all keys have: large enough that every check is granted, and so is written. */
export const BUCKET = { burst: 999_999, ratePerS: 99_999.9 } as const;

const STRATEGY = {
  strategy: "token_bucket",
  burst: BUCKET.burst,
  rate: BUCKET.ratePerS,
} as const;

export const requestOf = (key: string): LimitRequest => ({ name: "api", key, strategy: STRATEGY });

/** Who is asked; `nothing`: nobody, the Worker answers at once. */
export type CheckName =
  | "limit"
  | "relaxed"
  | "local"
  | "embedded"
  | "relaxedEmbedded"
  | "localEmbedded"
  | "limitMany"
  | "localMany"
  | "counter"
  | "put"
  | "bare"
  | "empty"
  | "map"
  | "nothing";

export interface CheckLoad {
  readonly check: CheckName;
  /** Checks of a call, each on a key of its own. */
  readonly checks: number;
  /** Keys that the checks are on. */
  readonly keys: number;
  /** Index of the first key of checks that go from one to the next; null: at random, all alike. */
  readonly walkFrom: number | null;
}

/** What the platform bills: requests to objects, and rows that they wrote. */
export interface MeterFigures {
  readonly requests: number;
  readonly rowsWritten: number;
}

const PATH = "/bench/checks";
export const METER_PATH = "/bench/meter";
export const NUMBER_BYTES = 2;
/** Number of the call, refused checks. */
export const ANSWER_BYTES = 4;

export function pathOf(load: CheckLoad): string {
  return `${PATH}?load=${encodeURIComponent(JSON.stringify(load))}`;
}

/** The load that a request asks for; null when it asks for something else. */
export function loadOf({ pathname, searchParams }: URL): CheckLoad | null {
  return pathname === PATH ? (JSON.parse(searchParams.get("load")!) as CheckLoad) : null;
}

/** Names of keys, all of one length. */
export function keysOf(count: number): string[] {
  const width = String(count - 1).length;
  return Array.from({ length: count }, (_, i) => `user-${String(i).padStart(width, "0")}`);
}
