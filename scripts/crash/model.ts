/**
 * What a request does to the record under its key, in the plainest words.
 *
 * Written from the protocol reference ("Semantics"), not from the engine, so that the two can disagree.
 */
import type { Request } from "../../src/wire/throttr/encode.ts";
import { Attribute, Change } from "../../src/wire/throttr/requests.ts";
import { shifted, type Span } from "./span.ts";

export interface CounterState {
  readonly kind: "counter";
  readonly quota: bigint;
  readonly ttlType: number;
  readonly expires: Span;
}

export interface BufferState {
  readonly kind: "buffer";
  readonly value: Uint8Array;
  readonly ttlType: number;
  readonly expires: Span;
}

export type State = { readonly kind: "absent" } | CounterState | BufferState;

export const ABSENT: State = { kind: "absent" };

export interface Outcome {
  readonly state: State;
  /** The reply's status is 0x01. */
  readonly isSuccess: boolean;
}

/** Nanoseconds of a TTL type: 1 to 6 are ns, µs, ms, s, min, h. */
const UNIT_NS: Readonly<Record<number, bigint>> = {
  1: 1n,
  2: 1_000n,
  3: 1_000_000n,
  4: 1_000_000_000n,
  5: 60_000_000_000n,
  6: 3_600_000_000_000n,
};

/** Nanoseconds of a unit, or undefined when the protocol has no such TTL type. */
export function unitNs(ttlType: number): bigint | undefined {
  return UNIT_NS[ttlType];
}

/**
 * Executes a request.
 *
 * @param state what is under the request's key; its expiry has not come
 * @param at when the server executes it
 * @param valueMax the largest quota that the door's value size can say
 * @throws Error when it is uncertain whether a new expiry has come: choose such a request better
 */
export function execute(state: State, request: Request, at: Span, valueMax: bigint): Outcome {
  switch (request.type) {
    case "query":
      return { state, isSuccess: state.kind === "counter" };
    case "get":
      return { state, isSuccess: state.kind === "buffer" };
    case "purge":
      return state.kind === "absent" ? refused(state) : done(ABSENT);
    case "insert": {
      const { quota, ttlType, ttl } = request;
      const expires = expiryAfter(at, ttlType, ttl);
      if (state.kind !== "absent" || expires === undefined) return refused(state);
      return done(ttl === 0n ? ABSENT : { kind: "counter", quota, ttlType, expires });
    }
    case "set": {
      const { value, ttlType, ttl } = request;
      const expires = expiryAfter(at, ttlType, ttl);
      if (state.kind === "counter" || expires === undefined) return refused(state);
      return done(ttl === 0n ? ABSENT : { kind: "buffer", value, ttlType, expires });
    }
    case "update":
      if (state.kind === "absent") return refused(state);
      if (request.attribute === Attribute.ttl) return updateTtl(state, request, at);
      if (request.attribute !== Attribute.quota || state.kind !== "counter") return refused(state);
      return updateQuota(state, request, valueMax);
  }
}

type Update = Extract<Request, { type: "update" }>;

function updateQuota(state: CounterState, { change, value }: Update, valueMax: bigint): Outcome {
  const quota = quotaAfter(state.quota, change, value);
  if (quota === undefined || quota < 0n) return refused(state);
  if (change === Change.increase && quota > valueMax) return refused(state);
  return done({ ...state, quota });
}

function quotaAfter(quota: bigint, change: number, value: bigint): bigint | undefined {
  if (change === Change.patch) return value;
  if (change === Change.increase) return quota + value;
  return change === Change.decrease ? quota - value : undefined;
}

function updateTtl(
  state: CounterState | BufferState,
  { change, value }: Update,
  at: Span,
): Outcome {
  const amountNs = value * unitNs(state.ttlType)!;
  let expires: Span;
  if (change === Change.patch) expires = shifted(at, amountNs);
  else if (change === Change.increase) expires = shifted(state.expires, amountNs);
  else if (change === Change.decrease) expires = shifted(state.expires, -amountNs);
  else return refused(state);
  const isGone = (change === Change.patch && value === 0n) || expires.toNs < at.fromNs;
  if (isGone) return done(ABSENT);
  if (expires.fromNs <= at.toNs)
    throw new Error("the model can't tell whether the record has expired");
  return done({ ...state, expires });
}

function expiryAfter(at: Span, ttlType: number, ttl: bigint): Span | undefined {
  const unit = unitNs(ttlType);
  return unit === undefined ? undefined : shifted(at, ttl * unit);
}

function done(state: State): Outcome {
  return { state, isSuccess: true };
}

function refused(state: State): Outcome {
  return { state, isSuccess: false };
}
