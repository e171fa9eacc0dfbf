/** Calls on semaphores over all doors, and what a run lets them expect. */
import type { MsSpan } from "../../support/models/span.ts";
import type { Call } from "./history.ts";

/** Get and `inspectSemaphore` are both `get`; Dump and SEMAPHORES are both `list`. */
export type SemaphoreOperation =
  | { type: "acquire"; name: string; resources: number; maximum: number }
  | { type: "release"; name: string; resources: number }
  | {
      type: "acquire lease";
      name: string;
      leaseId: string;
      resources: number;
      maximum: number;
      ttlMs: number;
    }
  | { type: "renew lease"; name: string; leaseId: string; ttlMs: number }
  | { type: "release lease"; name: string; leaseId: string }
  /** The end is of the platform's clock, in ms since the epoch. */
  | {
      type: "restore lease";
      name: string;
      leaseId: string;
      resources: number;
      endsAtMs: number;
      isReplacing: boolean;
    }
  | { type: "get"; name: string }
  | { type: "holders"; name: string }
  /** Of the names that begin with a prefix. Dump begins a shard again that restarts meanwhile, so it may repeat rows. */
  | { type: "list"; prefix: string; isDump: boolean }
  | { type: "stats" };

export interface SemaphoreRow {
  readonly name: string;
  readonly consumption: number;
  readonly mostHeld: number;
}

export interface HolderRow {
  /** A connection by its id, a lease by its own. */
  readonly id: string;
  readonly resources: number;
}

/**
 * What was answered. `kept` and `expired` are those of a lease that is restored. `not acquired` and `not found` are those of a Release or a Get, `absent` says that there is no such lease,
 * `no room` that the shard's memory is full.
 */
export type SemaphoreOutcome =
  | "granted"
  | "unavailable"
  | "no room"
  | "released"
  | "not acquired"
  | "not found"
  | "absent"
  | "restored"
  | "kept"
  | "expired"
  | { readonly endsAtMs: number }
  | { readonly consumption: number; readonly mostHeld: number | null }
  | { readonly rows: readonly SemaphoreRow[] }
  | { readonly holders: readonly HolderRow[] }
  | { readonly objects: number };

export type SemaphoreCall = Call<SemaphoreOperation, SemaphoreOutcome>;

/** What a run promises about holders that are gone. */
export interface HolderTimes {
  readonly holderTimeoutMs: number;
  /** How late faults of the run let alarms and calls be: that much more until a holder's end has its effect. */
  readonly slackMs: number;
}

export interface SemaphoreRules extends HolderTimes {
  /** The object that has a semaphore. */
  shardOf(name: string): string;
  /** A shard's memory was full at some time: it may have collected unused semaphores early. */
  wasFull(shard: string): boolean;
  readonly statsIntervalMs: number;
  /** Whether a shard may have lost what it answered between two moments of true time, as it answers before it is on disk. */
  hasLost(shard: string, answered: MsSpan): boolean;
}
