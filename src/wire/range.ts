/**
 * Ranges of the circle of placement hashes: the part of a namespace's keys that one shard owns.
 *
 * A shard gives away the upper part of its range when it splits, and never gets another, so `from` names a shard for as
 * long as its namespace lives. The ranges that a namespace begins with are equal parts of the circle.
 */

/** Hashes `[from, to)`, both u32; a `to` of 0 stands for 2^32. A range is never empty, and never passes 2^32. */
export interface Range {
  readonly from: number;
  readonly to: number;
}

/** Behind the last hash. */
export const CIRCLE = 2 ** 32;

/** The whole circle. */
export const WHOLE: Range = { from: 0, to: 0 };

/** Where a range ends, at most 2^32. */
export function endOf({ to }: Range): number {
  return to === 0 ? CIRCLE : to;
}

/** Hashes in a range. */
export function widthOf(range: Range): number {
  return endOf(range) - range.from;
}

export function isIn(range: Range, hash: number): boolean {
  return hash >= range.from && hash < endOf(range);
}

export function isSameRange(a: Range, b: Range): boolean {
  return a.from === b.from && a.to === b.to;
}

/** Whether all of a range lies in another one. */
export function isWithin(inner: Range, outer: Range): boolean {
  return inner.from >= outer.from && endOf(inner) <= endOf(outer);
}

/**
 * One of the equal parts that a namespace begins with: the hashes of which `floor(hash × count / 2^32)` is `index`.
 *
 * @param index 0 to `count` - 1
 * @param count 1 to 65,535: quotients are exact up to there
 */
export function initialRange(index: number, count: number): Range {
  return { from: beginOf(index, count), to: index + 1 === count ? 0 : beginOf(index + 1, count) };
}

/** Where these parts begin. */
export function initialFroms(count: number): number[] {
  return Array.from({ length: count }, (_, index) => beginOf(index, count));
}

/** Index of the part that begins at a hash; -1 where none does. */
export function initialIndexOf(from: number, count: number): number {
  const index = Math.floor((from * count) / CIRCLE);
  const next = index + 1;
  if (beginOf(index, count) === from) return index;
  return next < count && beginOf(next, count) === from ? next : -1;
}

function beginOf(index: number, count: number): number {
  return Math.ceil((index * CIRCLE) / count);
}

/** A hash as names of objects and operators have it: 8 hex digits. */
export function hexOfHash(hash: number): string {
  return hash.toString(16).padStart(8, "0");
}
