/**
 * What a Shard can be asked for, by doors, Hubs and other Shards.
 *
 * Arguments and answers cross the border of an object, so they are plain data. Objects of two releases meet for
 * some minutes after each deployment: a method keeps its name and its parameters, and what is added is optional.
 */
import type { ListingPart, ListingQuery } from "../../engine/listing.ts";
import type { TableRows } from "../../engine/scan.ts";
import type { LimitCounts, LimitKeys } from "../../engine/limit-figures.ts";
import type { ScanQuery } from "../../engine/scan-query.ts";
import type { RequestCounts } from "../../engine/semaphores/requests.ts";
import type { DumpPage } from "../../engine/semaphores/pages.ts";
import type { LeaseQuery } from "../../engine/semaphores/lease-pages.ts";
import type { SemaphoreFigures } from "../../engine/semaphores/semaphores.ts";
import type { Totals } from "../../engine/table.ts";
import type { TablePlace, TableQuery } from "../../engine/table-page.ts";
import type { TallyFigures } from "../../engine/tally.ts";
import type { Placement } from "../../wire/batch.ts";
import type { ShardRanges } from "../../wire/moved.ts";
import type { ShardState, SplitCalls } from "./splits.ts";

/** How the records of a shard are listed. */
export interface ShardPlan {
  /** Names the order that parts are made of. */
  hashes: string;
  /** In the order of the table. */
  parts: ListingPart[];
}

/** Records in the order of the table. */
export interface ShardRows extends TableRows {
  /** Names the order that `next` is a place in. */
  hashes: string;
}

/** The outcome of one step of a removal. */
export interface ShardRemoval {
  /** Names the order that the cursor is a place in. */
  hashes: string;
  /** Records removed in this step. */
  removed: number;
  /** Where to go on; null when all is done. */
  cursor: number | null;
}

/** What INFO says of a shard. */
export interface ShardSummary {
  /** Records by kind, and bytes of buffers. */
  totals: Totals;
  /** Requests by type, in all and in the last minute. */
  tally: TallyFigures;
  /** When the object was made, in ms since the epoch. */
  startedAtMs: number;
  /** Since when `tally` counts, in ms since the epoch. Release 0.4.0 leaves it out, and counts since it started. */
  countedSinceMs?: number;
  figures: ShardFigures;
  semaphores: SemaphoreFigures;
  /** Decisions of limits; a release before 0.5.0 leaves them out. */
  limits?: LimitCounts;
  /** Range, splits and load; null of a shard without data. A release before 0.5.0 leaves it out. */
  state?: ShardState | null;
}

/** What a shard tells the Directory of itself, for overview and metrics of a namespace with many shards. */
export interface ShardReport {
  /** When it was made, in ms since the epoch. */
  readonly atMs: number;
  /** Decisions of limits are those of all limiters together. Records that have expired count until they are collected. */
  readonly summary: ShardSummary & { readonly state: ShardState };
}

/** What a shard says of its rate limits. */
export interface ShardLimitFigures extends LimitKeys {
  /** Decisions by limiter. */
  counts: LimitCounts;
}

/** What Stats of the yrmcds protocol says of a shard. */
export interface YrmcdsFigures {
  semaphores: SemaphoreFigures;
  requests: RequestCounts;
}

/** A page of Dump: see `Semaphores.dump`. */
export interface ShardDump extends DumpPage {
  /** Names the order that the cursor is a place in. */
  hashes: string;
}

/** The size of a shard and of its journal. */
export interface ShardFigures {
  /** In memory; those that have expired count until they are collected. */
  records: number;
  /** What they take of `bytesMax`. */
  bytes: number;
  /** `SHARD_BYTES_MAX`. */
  bytesMax: number;
  /** Requests since the start that were refused because the shard was full. */
  refusedForSpace: number;
  /** Rows and bytes of the journal since it was last cut: what a start has to read beside the snapshot. */
  journalRows: number;
  journalBytes: number;
  /** Since the object started; setting an alarm is one row. */
  rowsWritten: number;
  /** By how much the time of records is ahead of the platform's clock: see `ShardClock`. Release 0.4.0 leaves it out. */
  clockLagMs?: number;
}

/**
 * Every method throws `shards_mismatch` when the data was written under another seed, `shard_moved` when the placement has
 * another range than the shard owns, and `format_unknown` or
 * `row_version` when it was written by a release that this one cannot read. Nothing has been applied then.
 */
export interface ShardCalls extends Rpc.DurableObjectBranded, SplitCalls {
  /**
   * Executes a batch and returns its answer once what it saw is durable. Formats: `wire/batch.ts`. To a batch for another
   * range the answer is that of `wire/moved.ts`.
   *
   * @param doorMs present time at the caller, which tells a shard that its own clock stands still (`ClockWatch`)
   * @throws Error `batch_version` or `batch` when the batch is not readable; nothing is applied
   */
  apply(batch: Uint8Array, doorMs?: number): Promise<Uint8Array>;

  /**
   * Charges the limits of a LIMIT_ALL that the shard has, or none of them, and returns the reply once it is durable. Of
   * release 0.5.0 on. Formats: `wire/edge/limit-all-body.ts`.
   *
   * @param id 16 bytes that `cancelLimits` names the charge by; null where no other shard takes part
   * @param doorMs as of `apply`
   */
  limitAll(
    placement: Placement,
    body: Uint8Array,
    id: Uint8Array | null,
    doorMs: number,
  ): Promise<Uint8Array>;

  /**
   * Gives back what `limitAll` charged under an id. Where no such charge has come, it is refused when it comes; where
   * the shard has restarted since, it stays charged.
   *
   * @param body as of the charge
   */
  cancelLimits(placement: Placement, body: Uint8Array, id: Uint8Array): Promise<void>;

  /** The records behind a key, in the order of keys: see `Listing.page`. */
  page(
    placement: Placement,
    query: ListingQuery,
    after: Uint8Array | null,
    bytesMax: number,
    recordsMax: number,
  ): Promise<Uint8Array>;

  /**
   * Records in the order of their keys: see `Scan.page`.
   *
   * @param isBounded where that is too much work for one call, the page is empty and not the last one: `rows`
   * gives the records. A shard of a release before 0.5.0 ignores this, and always gives the page.
   */
  scan(
    placement: Placement,
    query: ScanQuery,
    after: Uint8Array | null,
    recordsMax: number,
    isBounded?: boolean,
  ): Promise<Uint8Array>;

  /**
   * Records in the order of the table: see `Scan.rowsFrom`.
   *
   * @param hashes names the order that the place is in; null at the start
   * @throws Error `listing_lost` when the table has another order now
   */
  rows(
    placement: Placement,
    query: TableQuery,
    hashes: string | null,
    place: TablePlace,
    recordsMax: number,
  ): Promise<ShardRows>;

  /** Records with their values, in the order of their keys: see `Export.page`. */
  exportPage(
    placement: Placement,
    query: ScanQuery,
    after: Uint8Array | null,
    recordsMax: number,
    bytesMax: number,
  ): Promise<Uint8Array>;

  /** Leases, in the order of their IDs: see `LeasePages.page`. Of release 0.5.0 on. */
  exportLeases(
    placement: Placement,
    query: LeaseQuery,
    after: Uint8Array | null,
    leasesMax: number,
    bytesMax: number,
  ): Promise<Uint8Array>;

  /**
   * A step of a removal: see `Scan.remove`. Where the object has restarted since the last step, it begins again.
   *
   * @param hashes what the last step returned, null at first
   */
  remove(
    placement: Placement,
    query: ScanQuery,
    hashes: string | null,
    cursor: number,
  ): Promise<ShardRemoval>;

  /** A step of the plan by which all records are listed: see `Listing.plan`. */
  plan(
    placement: Placement,
    hashes: string | null,
    query: ListingQuery,
    cursor: number,
  ): Promise<ShardPlan & { cursor: number | null }>;

  /**
   * The fragments of parts of a plan: see `Listing.fragments`.
   *
   * @throws Error `listing_lost` when the object has restarted since the plan
   */
  fragments(
    placement: Placement,
    hashes: string,
    query: ListingQuery,
    parts: ListingPart[],
    to: number,
    firstIndex: number,
  ): Promise<Uint8Array>;

  /**
   * What INFO says of the shard.
   *
   * @param isKept the shard stores counts before it returns them, so that none is ever less than it was: a row where any
   * has changed. Doors of release 0.4 leave it out.
   * @param isToReport the caller misses the shard's report: it makes one at once
   */
  summary(placement: Placement, isKept?: boolean, isToReport?: boolean): Promise<ShardSummary>;

  /** What rate limits have decided, and the keys that come and are refused most often. Of release 0.5.0 on. */
  limitFigures(placement: Placement): Promise<ShardLimitFigures>;

  /** @deprecated Of `summary`: doors of release 0.4.0 ask for it on its own. */
  counterFigures(placement: Placement): Promise<YrmcdsFigures>;

  /**
   * A page of Dump: see `Semaphores.dump`. Where the object has restarted since the last page, it begins again.
   *
   * @param hashes from the last page, null at first
   */
  dump(
    placement: Placement,
    hashes: string | null,
    cursor: number,
    bytesMax: number,
  ): Promise<ShardDump>;

  /**
   * Sets the clock back to the platform's, and all times of records as far: see `Engine.setClockBack`. Returns by
   * how many milliseconds: 0 where there was no lag.
   */
  setClockBack(placement: Placement): Promise<number>;

  /** Counts of what the shard holds. */
  figures(): ShardFigures;

  /**
   * Which ranges the shard knows of: its own, and others that the caller may have taken it to own. Of release 0.5.0 on.
   *
   * @param placement of which the range does not count
   */
  ranges(placement: Placement): Promise<ShardRanges>;

  /** Of shard 0, see `ShardClaim.placementFor`: the placement that is in force. */
  claim(placement: Placement, index?: number | null): Promise<Placement>;

  /** Of shard 0: notes that another shard has data. */
  note(index: number): Promise<void>;

  /** Of shard 0: whether another shard has data, or had. */
  hasNoted(index: number): boolean;

  /** Whether records have ever been written, though they may be gone. */
  hasData(): boolean;
}
