/**
 * Counts that outlive the object: requests, bytes and decisions of limits, as bytes that go with the rows of the journal.
 *
 *     counts = version u8, counted since f64, taken at f64 (ms since the epoch), (count | limiter)*
 *     count = place u8, total f64
 *     limiter = 255 u8, name size u8, name, totals of allowed, refused and errors: 3 f64, local?
 *     local = 254 u8, total f64: decisions of that limiter from allowances; 0 where it is left out
 *
 * Little-endian. Totals only grow, so bytes may be applied in any order and repeatedly: the larger total is the later one.
 * A commit takes what has changed since the last one that took any, and a cut of the journal takes all. No row is written
 * for them alone: what was counted since the last row is lost with the object.
 */
import { binaryBytes, binaryString, ByteWriter } from "../wire/bytes.ts";
import { REQUEST_TYPES_END } from "../wire/throttr/requests.ts";
import { LIMIT_COUNTS, LIMIT_OUTCOMES, type LimitFigures } from "./limit-figures.ts";
import type { Tally } from "./tally.ts";
import {
  COUNTS_PAUSE_MS_MAX,
  COUNTS_PAUSE_MS_MIN,
  COUNTS_PAUSE_MS_PER_BYTE,
  LIMIT_NAMES_MAX,
} from "./sizes.ts";

const VERSION = 1;
const HEADER_BYTES = 17;
const ENTRY_BYTES = 9;
/** In place of a request type: the first of the counts beside those of types. They keep it where types are added. */
const BESIDE_TYPES = 0x80;
const LIMITER = 0xff;
/** It has the size of a count, so a reader that does not know it passes over it. */
const LOCAL = 0xfe;
/** In place of names, which are not empty and have no colon: of all limiters, and of those without a row of their own. */
const ROWS_BEFORE_NAMES = ["", ":"];

export class StoredCounts {
  readonly #tally: Tally;
  readonly #limits: LimitFigures | null;
  readonly #isCounting: boolean;
  /** What rows have of the totals. */
  readonly #stored: Float64Array;
  /** The same of limiters, by name: a row of `LimitFigures`. */
  #storedLimits = new Map<string, readonly number[]>();
  #sinceMs: number | null = null;
  /** When rows took counts, and from when on the next commit does; by the shard's clock. */
  #takenMs = 0;
  #dueMs = 0;
  /** Rows may lack what they took: the next ones take all. */
  #isLost = false;

  /** @param isCounting counts are stored; else those that are there already are kept as they are */
  constructor(tally: Tally, limits: LimitFigures | null, isCounting: boolean) {
    this.#tally = tally;
    this.#limits = limits;
    this.#isCounting = isCounting;
    this.#stored = new Float64Array(tally.totals.length);
  }

  /** Since when totals count, ms since the epoch; null before `begin`. */
  get sinceMs(): number | null {
    return this.#sinceMs;
  }

  /** When rows took counts, ms since the epoch; 0 for never. */
  get takenMs(): number {
    return this.#takenMs;
  }

  /** Once all rows have been restored: says when counting begins, unless they have. */
  begin(nowMs: number): void {
    this.#sinceMs ??= nowMs;
    if (!this.#isCounting || this.#limits === null) return;
    // Rows of the journal may name more limiters than ever counted at once: those that had lost theirs changed before the others.
    const names = [...this.#storedLimits.keys()]
      .filter((name) => !ROWS_BEFORE_NAMES.includes(name))
      .slice(-LIMIT_NAMES_MAX);
    const rows = [...ROWS_BEFORE_NAMES, ...names].map(
      (name) => this.#storedLimits.get(name) ?? NO_DECISIONS,
    );
    this.#limits.restore({ names, counts: Float64Array.from(rows.flat()) }, nowMs);
  }

  /** Something was counted that no row has. */
  get hasChanges(): boolean {
    if (!this.#isCounting) return false;
    const decided = this.#storedLimits.get("") ?? NO_DECISIONS;
    return (
      this.#isLost ||
      this.#tally.totals.some((total, i) => total !== this.#stored[i]) ||
      // Those of several limits together come with no request that a shard counts.
      this.#limits?.all.some((total, i) => total !== decided[i]) === true
    );
  }

  /** What a commit takes along: null mostly, as counts are to be a small part of the journal. */
  takeIfDue(nowMs: number): Uint8Array | null {
    // The shard's clock may have been set back since.
    if (nowMs < this.#dueMs && nowMs >= this.#takenMs) return null;
    return this.take(nowMs);
  }

  /** What has changed since rows took counts; null when nothing has. */
  take(nowMs: number): Uint8Array | null {
    if (!this.hasChanges) return null;
    this.#takenMs = nowMs;
    const counts = this.#encode(this.#isLost);
    const pauseMs = Math.max(COUNTS_PAUSE_MS_MIN, counts.length * COUNTS_PAUSE_MS_PER_BYTE);
    this.#dueMs = nowMs + Math.min(COUNTS_PAUSE_MS_MAX, pauseMs);
    return counts;
  }

  /** All counts: what a cut keeps of the journal before it. */
  takeAll(nowMs: number): Uint8Array {
    this.#takenMs = nowMs;
    return this.#encode(true);
  }

  /** The row that has taken counts could not be written. */
  noteLost(): void {
    this.#isLost = true;
  }

  /** Applies what a commit or a cut has taken. */
  restore(counts: Uint8Array): void {
    const view = new DataView(counts.buffer, counts.byteOffset, counts.byteLength);
    // Those of a later release stay unread: figures are no reason to refuse the data that they are about.
    if (counts.length < HEADER_BYTES || view.getUint8(0) !== VERSION) return;
    this.#sinceMs = Math.min(this.#sinceMs ?? Infinity, view.getFloat64(1, true));
    this.#takenMs = Math.max(this.#takenMs, view.getFloat64(9, true));
    for (let at = HEADER_BYTES; at + ENTRY_BYTES <= counts.length;) {
      at = counts[at] === LIMITER ? this.#restoreLimiter(view, at) : this.#restoreCount(view, at);
    }
  }

  #restoreCount(view: DataView, at: number): number {
    const index = indexOf(view.getUint8(at));
    // A later release may count what this one does not: that has no place here.
    const more = view.getFloat64(at + 1, true) - (this.#stored[index] ?? Infinity);
    if (more > 0) {
      this.#stored[index]! += more;
      // None of it belongs to the present minute.
      this.#tally.add(index, more, 0);
    }
    return at + ENTRY_BYTES;
  }

  #restoreLimiter(view: DataView, at: number): number {
    const bytes = new Uint8Array(view.buffer, view.byteOffset, view.byteLength);
    const nameBytes = bytes[at + 1]!;
    const totalsAt = at + 2 + nameBytes;
    const end = totalsAt + 8 * LIMIT_OUTCOMES;
    if (end > bytes.length) return end;
    const name = binaryString(bytes, at + 2, nameBytes);
    const stored = this.#storedLimits.get(name) ?? NO_DECISIONS;
    const hasLocal = end + ENTRY_BYTES <= bytes.length && bytes[end] === LOCAL;
    const restored = Array.from({ length: LIMIT_OUTCOMES }, (_, i) =>
      view.getFloat64(totalsAt + 8 * i, true),
    ).concat(hasLocal ? view.getFloat64(end + 1, true) : 0);
    // In the order of their last change.
    this.#storedLimits.delete(name);
    this.#storedLimits.set(
      name,
      stored.map((total, i) => Math.max(total, restored[i]!)),
    );
    return hasLocal ? end + ENTRY_BYTES : end;
  }

  /** @param isWhole all totals, not those alone that have changed */
  #encode(isWhole: boolean): Uint8Array {
    const { totals } = this.#tally;
    const out = new ByteWriter(HEADER_BYTES + 8 * ENTRY_BYTES);
    out.u8(VERSION);
    out.f64(this.#sinceMs ?? 0);
    out.f64(this.#takenMs);
    for (let index = 0; index < totals.length; index++) {
      const isChanged = this.#isCounting && totals[index] !== this.#stored[index];
      if (isChanged) this.#stored[index] = totals[index]!;
      else if (!isWhole || this.#stored[index] === 0) continue;
      out.u8(placeOf(index));
      out.f64(this.#stored[index]!);
    }
    this.#encodeLimits(out, isWhole);
    this.#isLost = false;
    return out.take();
  }

  #encodeLimits(out: ByteWriter, isWhole: boolean): void {
    const before = this.#storedLimits;
    if (this.#isCounting && this.#limits !== null) {
      const { names, counts } = this.#limits.snapshot();
      // Names that have lost their row are not kept on.
      this.#storedLimits = new Map(
        [...ROWS_BEFORE_NAMES, ...names].map((name, row) => {
          const at = row * LIMIT_COUNTS;
          return [name, [...counts.subarray(at, at + LIMIT_COUNTS)]];
        }),
      );
    }
    for (const [name, totals] of this.#storedLimits) {
      const stored = before.get(name) ?? NO_DECISIONS;
      if (!isWhole && totals.every((total, i) => total === stored[i])) continue;
      if (totals.every((total) => total === 0)) continue;
      out.u8(LIMITER);
      out.u8(name.length);
      out.copy(binaryBytes(name));
      for (const total of totals.slice(0, LIMIT_OUTCOMES)) out.f64(total);
      const local = totals[LIMIT_OUTCOMES]!;
      if (local === 0) continue;
      out.u8(LOCAL);
      out.f64(local);
    }
  }
}

const NO_DECISIONS: readonly number[] = Array.from({ length: LIMIT_COUNTS }, () => 0);

const placeOf = (index: number): number =>
  index < REQUEST_TYPES_END ? index : index - REQUEST_TYPES_END + BESIDE_TYPES;

const indexOf = (place: number): number =>
  place < BESIDE_TYPES ? place : place - BESIDE_TYPES + REQUEST_TYPES_END;
