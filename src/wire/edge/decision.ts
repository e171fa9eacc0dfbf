/**
 * Decisions of rate limits, as replies carry them.
 *
 *     decision = flags u8, limit f64, remaining f64, reset u64, retry after u64, quotas u8, quota*
 *     quota    = flags u8, limit f64, remaining f64, reset u64
 *
 * Little-endian; times in ns. Quotas have no names: they are the first ones of the configuration's, in
 * its order. Where nothing helps (`isNever`) reset and wait are 0.
 */
import type { ByteWriter } from "../bytes.ts";

const DecisionFlag = { isAllowed: 1, isNever: 2 } as const;
const HEADER_BYTES = 34;
const QUOTA_BYTES = 25;

/** What one quota says. */
export interface QuotaDecision {
  readonly allowed: boolean;
  readonly limit: number;
  readonly remaining: number;
  /** Since the epoch; null where no wait helps. */
  readonly resetNs: bigint | null;
}

/** What a limiter says. `limit` and `remaining` are those of the quota with the smallest `remaining`. */
export interface LimitDecision extends QuotaDecision {
  /** 0 where it is allowed; null where no wait helps. */
  readonly retryAfterNs: bigint | null;
  readonly quotas: readonly QuotaDecision[];
}

export function writeDecision(out: ByteWriter, decision: LimitDecision): void {
  let at = out.reserve(HEADER_BYTES + QUOTA_BYTES * decision.quotas.length);
  const { view } = out;
  writeQuota(view, at, decision);
  view.setBigUint64(at + QUOTA_BYTES, decision.retryAfterNs ?? 0n, true);
  view.setUint8(at + HEADER_BYTES - 1, decision.quotas.length);
  at += HEADER_BYTES;
  for (const quota of decision.quotas) {
    writeQuota(view, at, quota);
    at += QUOTA_BYTES;
  }
}

function writeQuota(view: DataView, at: number, quota: QuotaDecision): void {
  const { allowed, limit, remaining, resetNs } = quota;
  const isNever = resetNs === null ? DecisionFlag.isNever : 0;
  view.setUint8(at, (allowed ? DecisionFlag.isAllowed : 0) | isNever);
  view.setFloat64(at + 1, limit, true);
  view.setFloat64(at + 9, remaining, true);
  view.setBigUint64(at + 17, resetNs ?? 0n, true);
}

/** Length of the decision at `at`. */
export function decisionBytes(view: DataView, at: number): number {
  return HEADER_BYTES + QUOTA_BYTES * view.getUint8(at + HEADER_BYTES - 1);
}

/** Reads the decision at `at`. */
export function readDecision(view: DataView, at: number): LimitDecision {
  const whole = readQuota(view, at);
  const quotas: QuotaDecision[] = [];
  const count = view.getUint8(at + HEADER_BYTES - 1);
  for (let i = 0; i < count; i++) quotas.push(readQuota(view, at + HEADER_BYTES + i * QUOTA_BYTES));
  const retryAfterNs = whole.resetNs === null ? null : view.getBigUint64(at + QUOTA_BYTES, true);
  return { ...whole, retryAfterNs, quotas };
}

function readQuota(view: DataView, at: number): QuotaDecision {
  const flags = view.getUint8(at);
  return {
    allowed: (flags & DecisionFlag.isAllowed) !== 0,
    limit: view.getFloat64(at + 1, true),
    remaining: view.getFloat64(at + 9, true),
    resetNs: (flags & DecisionFlag.isNever) === 0 ? view.getBigUint64(at + 17, true) : null,
  };
}
