/** Units of draws that are given back: a part of the commands DRAW and LIMIT_ALL. Bytes: `drawn.ts`. */
import type { ByteWriter } from "../bytes.ts";
import { checkList, integerOf, objectOf } from "./argument.ts";
import { DRAW_RETURNS_MAX } from "./drawn.ts";

/** Units that were drawn and not spent. */
export interface DrawReturn {
  /** The draw that they come from. */
  readonly draw: number;
  /** An integer from 0. */
  readonly units: number;
}

const CODE = "draw_invalid";

/** @throws ThrottrError `draw_invalid` */
export function checkReturns(returns: readonly DrawReturn[]): void {
  checkList(returns, "returns", 0, DRAW_RETURNS_MAX, CODE);
  for (const [i, given] of returns.entries()) {
    const { draw, units } = objectOf(given, `returns[${i}]`, "draw and units");
    integerOf(draw, `returns[${i}].draw`, 0, Number.MAX_SAFE_INTEGER, CODE);
    integerOf(units, `returns[${i}].units`, 0, Number.MAX_SAFE_INTEGER, CODE);
  }
}

/** Appends returns that have been checked, behind their number. */
export function writeReturns(out: ByteWriter, returns: readonly DrawReturn[]): void {
  out.u8(returns.length);
  for (const { draw, units } of returns) {
    out.f64(draw);
    out.f64(units);
  }
}
