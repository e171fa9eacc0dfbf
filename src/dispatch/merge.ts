/**
 * Merges the pages of several objects into one sequence of rows in the order of their keys.
 *
 * Each object gives its rows in order, a page at a time; the merge takes the smallest key of all, and asks an object for
 * its next page when it runs out. So memory is bounded by a page for each object, whatever the namespace has. Nothing is
 * a snapshot: between two pages of an object others are served, and rows come and go.
 */
import { compareBytes } from "../wire/bytes.ts";
import { PageReader } from "../wire/page.ts";
import { ThrottrError } from "../wire/edge/error.ts";
import { MERGE_PAGES_BYTES, MERGE_PAGE_BYTES_MIN } from "../engine/sizes.ts";

/**
 * Asks an object for the page behind a key; null for its first page. A key rather than a cursor of the object: records may
 * come and go between two pages, and the order of keys stays. Where a shard has split, the sources of its parts are
 * returned: they are asked in its place.
 *
 * @param isFirst it has not been asked before: now it may say that it has too much to be merged
 */
export type PageSource = (
  after: Uint8Array | null,
  isFirst: boolean,
) => Promise<Uint8Array | readonly PageSource[]>;

/** Bytes of a page of each object, when so many are asked at once. */
export function pageBytesOf(objects: number): number {
  return Math.max(MERGE_PAGE_BYTES_MIN, Math.floor(MERGE_PAGES_BYTES / Math.max(1, objects)));
}

/** What follows a visit: the next key, the end of the walk, or the next key once a promise has resolved. */
export type Visited = "next" | "end" | Promise<void>;

/** The pages of one object. */
interface Stream {
  source: PageSource;
  reader: PageReader;
  /** The reader's current entry has not been merged yet. */
  hasEntry: boolean;
}

/** Of one listing. It can be gone through again, from the start: see `open`. */
export class Merge {
  /** One for each object: a shard or a Hub. */
  #sources: readonly PageSource[];
  /** Where each object's page is; empty before `open`. */
  #streams: Stream[] = [];
  /** First pages, while they are all there is: most namespaces are that small, and are then asked once. */
  #whole: readonly Page[] | null = null;

  constructor(sources: readonly PageSource[]) {
    this.#sources = sources;
  }

  /** Makes a merge that begins at the first key. */
  static async open(sources: readonly PageSource[]): Promise<Merge> {
    const merge = new Merge(sources);
    await merge.open();
    return merge;
  }

  /** Begins at the first key again; without asking the objects again when all fitted the first pages. */
  async open(): Promise<void> {
    const isFirst = this.#streams.length === 0;
    const pages = this.#whole ?? (await askSources(this.#sources, null, isFirst));
    this.#sources = pages.map(({ source }) => source);
    this.#streams = pages.map(streamOf);
    if (!isFirst) for (const stream of this.#streams) assertGoesOn(stream);
    this.#whole = this.#streams.every(({ reader }) => reader.isLast) ? pages : null;
  }

  /** An object has more than can be merged. Of use behind the first `open`. */
  get hasTooMuch(): boolean {
    return this.#streams.some(({ hasEntry, reader }) => !hasEntry && !reader.isLast);
  }

  /** Rows of all objects when they were first asked; equal keys count once for each object. */
  get total(): number {
    return this.#streams.reduce((sum, { reader }) => sum + reader.total, 0);
  }

  /**
   * Visits each key in order, from where `open` began: the entries with it, one from each object that
   * has it, valid until `visit` returns. What it returns says how the walk goes on.
   */
  async forEach(visit: (entries: readonly PageReader[]) => Visited): Promise<void> {
    const ordered: Stream[] = [];
    let starved: Stream[] = [];
    const sort = (stream: Stream): void => {
      if (stream.hasEntry) insert(ordered, stream);
      else if (!stream.reader.isLast) starved.push(stream);
    };
    this.#streams.forEach(sort);
    for (;;) {
      if (starved.length > 0) {
        const fed = await this.#feed(starved);
        starved = [];
        fed.forEach(sort);
      }
      if (ordered.length === 0) return;
      let count = 1;
      while (count < ordered.length && compareEntries(ordered[count]!, ordered[0]!) === 0) count++;
      const visited = visit(ordered.slice(0, count).map(({ reader }) => reader));
      if (visited === "end") return;
      if (visited !== "next") await visited;
      for (const stream of ordered.splice(0, count)) {
        stream.hasEntry = stream.reader.next();
        sort(stream);
      }
    }
  }

  /**
   * Asks objects for the pages behind their last keys. Their parts, where one has split, follow at the end.
   *
   * @returns these streams, and those of parts
   */
  async #feed(starved: readonly Stream[]): Promise<Stream[]> {
    const fed = await Promise.all(
      starved.map(async ({ source, reader }) => await askSource(source, reader.key(), false)),
    );
    return starved.flatMap((stream, i) => {
      const [page, ...parts] = fed[i]!.map(streamOf);
      Object.assign(stream, page!);
      this.#streams.push(...parts);
      const fresh = [stream, ...parts];
      for (const each of fresh) assertGoesOn(each);
      return fresh;
    });
  }
}

/** Adds a stream to others that are in the order of their keys. With hundreds of objects, a look at each for each row takes seconds. */
function insert(ordered: Stream[], stream: Stream): void {
  let low = 0;
  for (let high = ordered.length; low < high;) {
    const middle = (low + high) >>> 1;
    if (compareEntries(ordered[middle]!, stream) < 0) low = middle + 1;
    else high = middle;
  }
  ordered.splice(low, 0, stream);
}

/** A page, and who is asked for the next one. */
interface Page {
  readonly source: PageSource;
  readonly page: Uint8Array;
}

async function askSources(
  sources: readonly PageSource[],
  after: Uint8Array | null,
  isFirst: boolean,
): Promise<Page[]> {
  const asked = sources.map(async (source) => await askSource(source, after, isFirst));
  return (await Promise.all(asked)).flat();
}

/** The page of a source, or the pages of those that are asked in its place: at least one. */
async function askSource(
  source: PageSource,
  after: Uint8Array | null,
  isFirst: boolean,
): Promise<Page[]> {
  const page = await source(after, isFirst);
  return page instanceof Uint8Array ? [{ source, page }] : await askSources(page, after, isFirst);
}

function streamOf({ source, page }: Page): Stream {
  const reader = new PageReader(page);
  return { source, reader, hasEntry: reader.next() };
}

/** @throws ListingOutgrown when an object says that it has too much, after others have been merged with it */
function assertGoesOn({ hasEntry, reader }: Stream): void {
  if (hasEntry || reader.isLast) return;
  throw new ListingOutgrown();
}

/** Why a listing fails: it would otherwise show fewer records than there are, and nothing would say so. */
export class ListingOutgrown extends ThrottrError {
  constructor() {
    super("listing_outgrown", "records were added faster than they could be listed: try again");
  }
}

/** Keys are bytes, compared without a copy. */
function compareEntries({ reader: a }: Stream, { reader: b }: Stream): number {
  return compareBytes(a.bytes, a.keyAt, a.keyLength, b.bytes, b.keyAt, b.keyLength);
}
