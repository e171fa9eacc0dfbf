/**
 * Pages of an export that all shards of a range have given, put together in bounded memory.
 *
 * A shard gives its first record whatever its size, so hundreds of them may give far more than they are asked for. Pages that
 * have come are merged when they are too many bytes, and what does not fit the page is dropped. Few shards are asked at once at
 * first, and more while their pages are as small as they should be.
 */
import { EXPORT_PAGE_HEADER_BYTES } from "../engine/export.ts";
import { EXPORT_CALLS_MIN, EXPORT_PAGES_BYTES } from "../engine/sizes.ts";
import { compareBytes, joinBytes } from "../wire/bytes.ts";
import { EXPORT_ROW_BYTES } from "../wire/edge/command.ts";

/** Calls to shards at once. */
export class ExportCalls {
  #most = EXPORT_CALLS_MIN;
  #underWay = 0;
  readonly #waiting: (() => void)[] = [];

  /** Resolves when a call may begin. */
  async begin(): Promise<void> {
    if (this.#underWay++ >= this.#most)
      await new Promise<void>((resolve) => {
        this.#waiting.push(resolve);
      });
  }

  /** @param isLarge the page was larger than it was asked for, or did not come */
  end(isLarge: boolean): void {
    this.#underWay--;
    const before = this.#most;
    this.#most = isLarge ? Math.max(EXPORT_CALLS_MIN, before - 1) : before + 1;
    for (let calls = 1 + this.#most - before; calls > 0; calls--) this.#waiting.shift()?.();
  }
}

/** Pages behind one key. */
export class ExportPages {
  readonly #countMax: number;
  readonly #bytesMax: number;
  #pages: Uint8Array[] = [];
  #bytes = 0;

  /** @param bytesMax of all rows; a single one may have more */
  constructor(countMax: number, bytesMax: number) {
    this.#countMax = countMax;
    this.#bytesMax = bytesMax;
  }

  /** Adds the page of a shard. */
  add(page: Uint8Array): void {
    this.#pages.push(page);
    this.#bytes += page.length;
    if (this.#bytes <= EXPORT_PAGES_BYTES || this.#pages.length === 1) return;
    const { rows, count, isLast } = this.merged();
    const merged = new Uint8Array(EXPORT_PAGE_HEADER_BYTES + rows.length);
    merged[0] = isLast ? 1 : 0;
    new DataView(merged.buffer).setUint16(1, count, true);
    merged.set(rows, EXPORT_PAGE_HEADER_BYTES);
    this.#pages = [merged];
    this.#bytes = merged.length;
  }

  /** The first rows of all pages. */
  merged(): ExportRows {
    return mergePages(this.#pages, this.#countMax, this.#bytesMax);
  }
}

/** Records of one page. */
interface ExportRows {
  readonly rows: Uint8Array;
  readonly count: number;
  /** No records follow. */
  readonly isLast: boolean;
}

/** Merges the pages of shards behind one key: up to the key at which the first of them ends. */
function mergePages(pages: readonly Uint8Array[], countMax: number, bytesMax: number): ExportRows {
  const [only] = pages;
  if (pages.length === 1) {
    const count = only![1]! | (only![2]! << 8);
    return { rows: only!.subarray(EXPORT_PAGE_HEADER_BYTES), count, isLast: only![0] === 1 };
  }
  const ends = pages.flatMap((page) => (page[0] === 1 ? [] : [lastKey(page)]));
  const end = ends.toSorted(compareKeys)[0];
  const rows = pages
    .flatMap(rowsOf)
    .filter(({ key }) => end === undefined || compareKeys(key, end) <= 0)
    .toSorted((a, b) => compareKeys(a.key, b.key));
  let count = 0;
  let bytes = 0;
  while (count < Math.min(countMax, rows.length)) {
    bytes += rows[count]!.row.length;
    if (count > 0 && bytes > bytesMax) break;
    count++;
  }
  return {
    rows: joinBytes(rows.slice(0, count).map(({ row }) => row)),
    count,
    isLast: end === undefined && count === rows.length,
  };
}

/** A row of a page, and its key. */
interface ExportRow {
  readonly row: Uint8Array;
  readonly key: Uint8Array;
}

function rowsOf(page: Uint8Array): ExportRow[] {
  const view = new DataView(page.buffer, page.byteOffset, page.byteLength);
  const rows: ExportRow[] = [];
  for (let at = EXPORT_PAGE_HEADER_BYTES; at < page.length;) {
    const keyAt = at + EXPORT_ROW_BYTES;
    const keyEnd = keyAt + view.getUint16(at, true);
    const end = keyEnd + view.getUint32(at + EXPORT_ROW_BYTES - 4, true);
    rows.push({ row: page.subarray(at, end), key: page.subarray(keyAt, keyEnd) });
    at = end;
  }
  return rows;
}

/** Of a page that is not the last one, which has a record. A release before 0.5.0 may give none: then the page ends where it began. */
function lastKey(page: Uint8Array): Uint8Array {
  return rowsOf(page).at(-1)?.key ?? new Uint8Array(0);
}

function compareKeys(a: Uint8Array, b: Uint8Array): number {
  return compareBytes(a, 0, a.length, b, 0, b.length);
}
