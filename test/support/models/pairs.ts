/** The semantics of dialect 2 as a plain map, written from the protocol's text. */
import type { PairRequest } from "../frames/pairs.ts";
import { saturated, U64_MAX } from "./values.ts";

/** Nanoseconds, milliseconds, seconds. */
const UNITS_NS: Readonly<Record<number, bigint>> = { 0: 1n, 1: 1_000_000n, 2: 1_000_000_000n };

interface Quota {
  quota: bigint;
  ttlType: number;
  /** Expiry in nanoseconds since the epoch. */
  expires: bigint;
}

/** What a reply says, beside the request id. */
export interface PairReply {
  success: boolean;
  found?: { quota: bigint; ttlType: number; ttl: bigint };
}

export class PairModel {
  readonly #quotas = new Map<string, Quota>();

  /** The reply to a request at a time, in nanoseconds since the epoch. */
  execute(request: PairRequest, now: bigint): PairReply {
    const key = JSON.stringify(request.pair);
    const kept = this.#quotas.get(key);
    const live = kept !== undefined && kept.expires > now ? kept : undefined;
    switch (request.type) {
      case "insert": {
        const unit = UNITS_NS[request.ttlType];
        if (unit === undefined) return { success: false };
        const { quota, ttlType, ttl } = request;
        this.#quotas.set(key, { quota, ttlType, expires: saturated(now + ttl * unit) });
        return { success: true };
      }
      case "query": {
        if (live === undefined) return { success: false };
        const ttl = (live.expires - now - 1n) / UNITS_NS[live.ttlType]!;
        return { success: true, found: { quota: live.quota, ttlType: live.ttlType, ttl } };
      }
      case "purge":
        this.#quotas.delete(key);
        return { success: live !== undefined };
      case "update":
        if (live === undefined) return { success: false };
        return { success: updated(live, request.attribute, request.change, request.value, now) };
    }
  }
}

function updated(
  record: Quota,
  attribute: number,
  change: number,
  value: bigint,
  now: bigint,
): boolean {
  if (attribute === 0) {
    const decreased = record.quota > value ? record.quota - value : 0n;
    const quota = [value, record.quota + value, decreased][change];
    if (quota === undefined || quota > U64_MAX) return false;
    record.quota = quota;
    return true;
  }
  if (attribute === 1) {
    const span = value * UNITS_NS[record.ttlType]!;
    const expires = [now + span, record.expires + span, record.expires - span][change];
    if (expires === undefined) return false;
    record.expires = saturated(expires);
    return true;
  }
  return false;
}
