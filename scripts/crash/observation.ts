/** What a QUERY or a GET has shown of a record, and whether that is what the model says. */
import type { Protocol } from "../../src/wire/throttr/protocol.ts";
import { unitNs, type State } from "./model.ts";
import { decodeGet, decodeQuery } from "./replies.ts";
import { intersection, shifted, type Span } from "./span.ts";

/** A record as it was read; `expires` is as coarse as the unit it is reported in. */
export type Observation = State;

/** Reads the reply of a QUERY; null when its status is failure. */
export function observeQuery(protocol: Protocol, reply: Uint8Array, at: Span): Observation | null {
  const found = decodeQuery(protocol, reply);
  if (found === null) return null;
  const { quota, ttlType, ttl } = found;
  return { kind: "counter", quota, ttlType, expires: expiryOf(protocol, ttlType, ttl, at) };
}

/** Reads the reply of a GET; null when its status is failure. */
export function observeGet(protocol: Protocol, reply: Uint8Array, at: Span): Observation | null {
  const found = decodeGet(protocol, reply);
  if (found === null) return null;
  const { ttlType, ttl } = found;
  const value = found.value.slice();
  return { kind: "buffer", value, ttlType, expires: expiryOf(protocol, ttlType, ttl, at) };
}

/** True when the record can be in that state. */
export function agrees(state: State, found: Observation): boolean {
  return combine(state, found) !== null;
}

/** What is known of the record from both; null when they contradict each other. */
export function combine(state: State, found: Observation): State | null {
  if (state.kind === "absent" || found.kind === "absent") {
    return state.kind === found.kind ? state : null;
  }
  const expires = intersection(state.expires, found.expires);
  if (state.ttlType !== found.ttlType || expires === null) return null;
  if (state.kind === "counter") {
    return found.kind === "counter" && state.quota === found.quota ? { ...state, expires } : null;
  }
  return found.kind === "buffer" && isEqual(state.value, found.value)
    ? { ...state, expires }
    : null;
}

/** Short enough for a message, exact enough to compare. */
export function describe(state: State, nowNs: bigint): string {
  if (state.kind === "absent") return "absent";
  const { ttlType, expires } = state;
  const inSeconds = (ns: bigint): string => `${(ns - nowNs) / 1_000_000_000n} s`;
  const time = `TTL type ${ttlType}, ${inSeconds(expires.fromNs)} to ${inSeconds(expires.toNs)} left`;
  if (state.kind === "counter") return `counter of ${state.quota}, ${time}`;
  const start = Buffer.from(state.value.subarray(0, 8)).toString("hex");
  return `buffer of ${state.value.length} bytes beginning ${start || "(empty)"}, ${time}`;
}

/** The reported TTL is rounded down, and what does not fit the value size reads as its maximum. */
function expiryOf(protocol: Protocol, ttlType: number, ttl: bigint, at: Span): Span {
  const unit = unitNs(ttlType);
  if (unit === undefined) throw new RangeError(`a record has the unknown TTL type ${ttlType}`);
  const from = shifted(at, ttl * unit).fromNs;
  const isSaturated = ttl === valueMaxOf(protocol);
  return { fromNs: from, toNs: isSaturated ? ENDLESS_NS : shifted(at, (ttl + 1n) * unit).toNs };
}

const ENDLESS_NS = (1n << 64n) - 1n;

/** The largest number that a field of the door's value size can say. */
export function valueMaxOf({ valueSize }: Protocol): bigint {
  return (1n << BigInt(8 * valueSize)) - 1n;
}

function isEqual(a: Uint8Array, b: Uint8Array): boolean {
  return Buffer.compare(a, b) === 0;
}
