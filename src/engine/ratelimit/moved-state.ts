/** States of limiters whose times are moved, in their text as it lies in memory. */

const PIPE = 0x7c;
const DOLLAR = 0x24;
const HEADER_BYTES_MAX = 5;
/** Times since the epoch have 19 digits, from 2001 to 2286; no count and no interval of a state has. */
const TIME_DIGITS = 19;
const HEADER = /^(?:11|12|2[123]|31|32|41|42|51|61|cmp1|v1|v2)\|/;
const FIXED_WINDOWS = "23";
/** Name, count, start, from the third field on. */
const WINDOW_FIELDS = 3;

/** What fields of numbers consist of. */
const NUMBERS = /^[\d.+\-eE]*$/;

interface Field {
  readonly from: number;
  readonly to: number;
}

/**
 * Moves the times of the state in `bytes[at, end)` back. The state keeps its length. Bytes that are not a state stay as
 * they are.
 *
 * @returns whether anything was moved
 */
export function moveStateBack(bytes: Uint8Array, at: number, end: number, byNs: bigint): boolean {
  if (!HEADER.test(textOf(bytes, at, Math.min(end, at + HEADER_BYTES_MAX)))) return false;
  const fields = numbersOf(bytes, at, end);
  // A caller's own value may begin as a state does, such as `v1|1745678901234567890|admin`.
  if (!fields.every(({ from, to }) => NUMBERS.test(textOf(bytes, from, to)))) return false;
  let isMoved = false;
  for (const { from, to } of fields) {
    if (to - from === TIME_DIGITS) isMoved = moveTime(bytes, from, to, byNs) || isMoved;
  }
  return isMoved;
}

/** The fields that are neither headers nor names. */
function numbersOf(bytes: Uint8Array, at: number, end: number): Field[] {
  const fields: Field[] = [];
  /** Fields since the header of this state, or of this part of a composite. */
  let field = 0;
  let header = "";
  for (let from = at; from < end;) {
    let to = from;
    while (to < end && bytes[to] !== PIPE && bytes[to] !== DOLLAR) to++;
    if (field === 0) header = textOf(bytes, from, to);
    const isName = header === FIXED_WINDOWS && field % WINDOW_FIELDS === 2;
    if (field > 0 && !isName) fields.push({ from, to });
    // The first part of a composite begins behind the composite's own header.
    const isInner = bytes[to] === DOLLAR || (field === 0 && (header === "51" || header === "cmp1"));
    field = isInner ? 0 : field + 1;
    from = to + 1;
  }
  return fields;
}

function moveTime(bytes: Uint8Array, from: number, to: number, byNs: bigint): boolean {
  const text = textOf(bytes, from, to);
  if (/\D/.test(text)) return false;
  const moved = String(BigInt(text) - byNs);
  if (moved.length !== TIME_DIGITS) return false;
  for (let i = 0; i < TIME_DIGITS; i++) bytes[from + i] = moved.charCodeAt(i);
  return true;
}

function textOf(bytes: Uint8Array, from: number, to: number): string {
  return String.fromCharCode(...bytes.subarray(from, to));
}
