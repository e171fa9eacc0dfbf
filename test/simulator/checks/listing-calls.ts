/** Calls that list what a namespace has, and those that change it meanwhile. */
import type { Call } from "./history.ts";

/**
 * What is listed: records under keys, pairs of dialect 2, semaphores, and the leases that hold them. A pair is written as
 * `consumer/resource`, a lease as `semaphore/id`.
 */
export type Collection = "records" | "pairs" | "semaphores" | "leases";

/** What a record holds. */
export type Content =
  | { readonly kind: "counter"; readonly quota: bigint }
  | { readonly kind: "buffer"; readonly value: string };

/** It leaves a key present, for so long. */
export interface WriteOperation {
  readonly type: "write";
  readonly collection: "records" | "pairs" | "leases";
  readonly key: string;
  /** Null for a lease, of which a listing shows nothing but its key. */
  readonly content: Content | null;
  /** Infinity where it outlives the run. */
  readonly ttlMs: number;
}

export type ListingOperation =
  | WriteOperation
  | { readonly type: "remove"; readonly collection: "records" | "leases"; readonly key: string }
  /** All records whose keys begin with a prefix. */
  | { readonly type: "remove all"; readonly prefix: string }
  | {
      readonly type: "list";
      readonly collection: Collection;
      readonly prefix: string;
      readonly by: ListingName;
    };

/** The ways to list. */
export type ListingName =
  | "LIST"
  | "STATS"
  | "SCAN"
  | "SCAN by key"
  | "/v1/records"
  | "EXPORT"
  | "EXPORT_LEASES"
  | "SEMAPHORES"
  | "HOLDERS";

/** What a row shows; what is not given, it does not show. */
export interface ListedRow {
  readonly key: string;
  readonly kind?: "counter" | "buffer";
  readonly quota?: bigint;
  /** Length of the value. */
  readonly bytes?: number;
  readonly value?: string;
}

export interface ListedPage {
  /** Without those of other workloads. */
  readonly rows: readonly ListedRow[];
  /** Where the next page begins; null behind the last one. */
  readonly cursor: Uint8Array | null;
  /** What the page is that it must not be, such as longer than was asked for. */
  readonly fault: string | null;
}

export interface Listed {
  readonly pages: readonly ListedPage[];
  readonly isComplete: boolean;
  /** The code of the error that ended it, if one did. */
  readonly brokenOff: string | null;
}

/** `present`: nothing was written, as there was something already. `absent`: there was nothing to remove. */
export type ListingOutcome = "written" | "present" | "removed" | "absent" | Listed;

export type ListingCall = Call<ListingOperation, ListingOutcome>;
