/**
 * The bytes of a DRAW: `draw.ts`.
 *
 *     body  = lease u16 ms, wanted f64, cost f64, granted f64, refused f64, returns u8, return*, configuration
 *     return = draw f64, units f64
 *     reply = decision, units f64, draw f64, life u64, pause u64
 *
 * Little-endian; times in ns. What is given back is given back first. A DRAW has no idempotency key and must not be sent
 * again: units whose reply is lost are lost.
 */
import type { ByteWriter } from "../bytes.ts";

/** The fields before the returns, and their number. */
export const DRAW_FIELDS_BYTES = 35;
/** One return. */
export const DRAW_RETURN_BYTES = 16;
/** Returns of one DRAW. */
export const DRAW_RETURNS_MAX = 64;
/** Behind the decision. */
const DRAWN_BYTES = 32;
export const LEASE_MS_MIN = 50;
export const LEASE_MS_MAX = 10_000;
/** Unless given. */
export const LEASE_MS = 1000;

/** What a draw left, behind its decision. */
export interface Drawn {
  readonly units: number;
  /** 0 without units. */
  readonly draw: number;
  readonly lifeNs: bigint;
  readonly pauseNs: bigint;
}

export function writeDrawn(out: ByteWriter, { units, draw, lifeNs, pauseNs }: Drawn): void {
  out.f64(units);
  out.f64(draw);
  const at = out.reserve(16);
  out.view.setBigUint64(at, lifeNs, true);
  out.view.setBigUint64(at + 8, pauseNs, true);
}

/** A life is rounded down and a pause up, so that neither is off by a fraction of a millisecond. */
export function readDrawn(view: DataView): {
  readonly units: number;
  readonly draw: number | null;
  readonly lifeMs: number;
  readonly pauseMs: number;
} {
  const at = view.byteLength - DRAWN_BYTES;
  const number = view.getFloat64(at + 8, true);
  return {
    units: view.getFloat64(at, true),
    draw: number === 0 ? null : number,
    lifeMs: Number(view.getBigUint64(at + 16, true) / 1_000_000n),
    pauseMs: Number((view.getBigUint64(at + 24, true) + 999_999n) / 1_000_000n),
  };
}
