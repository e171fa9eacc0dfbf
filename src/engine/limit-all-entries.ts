/**
 * The entries of a LIMIT_ALL, found in its body. The door finds them to see whose they are, and the shard to decide them.
 * Format: `wire/edge/limit-all-body.ts`.
 */
import { binaryString } from "../wire/bytes.ts";
import { DRAW_RETURN_BYTES, DRAW_RETURNS_MAX } from "../wire/edge/drawn.ts";
import { EntryFlag, LIMIT_ALL_MAX } from "../wire/edge/limit-all-body.ts";
import { CONFIGURATION_BYTES_MAX } from "./limiters.ts";
import { Refusal } from "./refusal.ts";

/** Units of a draw that are given back, an integer from 0. */
interface DrawnUnits {
  readonly id: number;
  readonly units: number;
}

/** One limit of several, as places in the bytes that it was found in. */
export interface LimitEntry {
  readonly bytes: Uint8Array;
  /** Where the entry begins and ends. */
  readonly at: number;
  readonly end: number;
  readonly keyAt: number;
  readonly keyBytes: number;
  /** It never refuses the others. */
  readonly isShadow: boolean;
  /** An integer from 1. */
  readonly cost: number;
  readonly returns: readonly DrawnUnits[];
  /** Where the configuration begins. It takes the rest of the entry, and is not checked here. */
  readonly configurationAt: number;
}

/**
 * Finds the entries of a body.
 *
 * @throws Refusal `limit_all_invalid` for a body that is not of this form, and for entries that contradict each other
 */
export function readEntries(body: Uint8Array): LimitEntry[] {
  const view = new DataView(body.buffer, body.byteOffset, body.byteLength);
  const count = body[0] ?? 0;
  if (count < 1 || count > LIMIT_ALL_MAX) throw invalid(`1 to ${LIMIT_ALL_MAX} entries`, count);
  const entries: LimitEntry[] = [];
  let at = 1;
  try {
    for (let i = 0; i < count; i++) {
      const entry = readEntry(body, view, at);
      entries.push(entry);
      at = entry.end;
    }
  } catch (error) {
    if (error instanceof RangeError) throw invalid("whole entries", "a body that is cut short");
    throw error;
  }
  if (at !== body.length) throw invalid("no more bytes behind the entries", body.length - at);
  assertConsistent(entries);
  return entries;
}

/** @throws RangeError when the body is cut short */
function readEntry(bytes: Uint8Array, view: DataView, at: number): LimitEntry {
  const flags = view.getUint8(at);
  if ((flags & ~EntryFlag.isShadow) !== 0) throw invalid(`flags 0 or ${EntryFlag.isShadow}`, flags);
  const keyBytes = view.getUint8(at + 1);
  if (keyBytes === 0) throw invalid("a key in each entry", keyBytes);
  const keyAt = at + 2;
  const costAt = keyAt + keyBytes;
  const cost = view.getFloat64(costAt, true);
  if (!(cost >= 1) || !Number.isSafeInteger(cost)) {
    throw new Refusal(
      `cost_invalid: expected an integer from 1 to ${Number.MAX_SAFE_INTEGER}, got ${cost}`,
    );
  }
  const count = view.getUint8(costAt + 8);
  if (count > DRAW_RETURNS_MAX) throw invalid(`at most ${DRAW_RETURNS_MAX} returns`, count);
  const returnsAt = costAt + 9;
  const returns = Array.from({ length: count }, (_, i) =>
    readReturn(view, returnsAt + i * DRAW_RETURN_BYTES),
  );
  const sizeAt = returnsAt + count * DRAW_RETURN_BYTES;
  const size = view.getUint16(sizeAt, true);
  if (size > CONFIGURATION_BYTES_MAX) {
    throw invalid(`a configuration of at most ${CONFIGURATION_BYTES_MAX} bytes`, size);
  }
  const configurationAt = sizeAt + 2;
  const end = configurationAt + size;
  if (end > bytes.length) throw new RangeError("cut short");
  const isShadow = (flags & EntryFlag.isShadow) !== 0;
  return { bytes, at, end, keyAt, keyBytes, isShadow, cost, returns, configurationAt };
}

function readReturn(view: DataView, at: number): DrawnUnits {
  const units = view.getFloat64(at + 8, true);
  if (!(units >= 0) || !Number.isSafeInteger(units)) {
    throw invalid("units of a return to be an integer from 0", units);
  }
  return { id: view.getFloat64(at, true), units };
}

/** Entries of one record count with their sum, so nothing else about them may differ. */
function assertConsistent(entries: readonly LimitEntry[]): void {
  const first = new Map<string, { readonly i: number; readonly rest: string }>();
  for (const [i, entry] of entries.entries()) {
    const key = keyOf(entry);
    const { bytes, configurationAt, end, isShadow } = entry;
    const rest = `${isShadow} ${binaryString(bytes, configurationAt, end - configurationAt)}`;
    const known = first.get(key);
    if (known === undefined) first.set(key, { i, rest });
    else if (known.rest !== rest) {
      throw new Refusal(
        `limit_all_invalid: requests ${known.i} and ${i} are about one record, ${key}: give both the same strategy, and make both shadow or neither`,
      );
    }
  }
}

/** The key of an entry, as a binary string. */
export const keyOf = ({ bytes, keyAt, keyBytes }: LimitEntry): string =>
  binaryString(bytes, keyAt, keyBytes);

const invalid = (expected: string, got: number | string): Refusal =>
  new Refusal(`limit_all_invalid: expected ${expected}, got ${got}`);
