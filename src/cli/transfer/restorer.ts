/**
 * Restores records in batches, with several batches under way, and counts the outcomes.
 *
 * A restore can be repeated safely: it writes the same record with the same expiry. So a batch whose outcome is unknown
 * is sent again, with a growing pause, and only then given up.
 */
import { setTimeout as sleep } from "node:timers/promises";
import type { CallOptions } from "../../client/calls/call.ts";
import type { ThrottrClient } from "../../client/client.ts";
import { ThrottrError } from "../../wire/edge/error.ts";
import type { RestorePolicyName, RestoreResult } from "../../wire/edge/transfer.ts";
import { isLease, type Entry } from "./format.ts";
import { unlessUnknown } from "./source.ts";

/** Limits of a batch: they keep a message well below the largest that a server accepts. */
const BATCH_RECORDS_MAX = 500;
const BATCH_BYTES_MAX = 512 << 10;
/** Bytes of a record besides key and value, at most; of a lease, besides the name. */
const ENTRY_BYTES = 48;
/** Enough to keep the server busy over a slow network, and few enough to hold in memory. */
const BATCHES_UNDER_WAY_MAX = 4;
/** With the pauses between them, about 6 s: a deployment or a restarted object is back by then. */
const ATTEMPTS_MAX = 6;
/** The pause before attempt n + 1 is this times 2^n. */
const BACKOFF_BASE_MS = 100;
/** Failures that are printed one by one; the rest is counted by code. */
const FAILURES_TOLD_MAX = 20;

/** Codes after which a record may or may not have been restored; restoring it again is right in both cases. */
const REPEATABLE: ReadonlySet<string> = new Set([
  "connection_failed",
  "outcome_unknown",
  "queue_full",
  "timeout",
]);

/** Codes that concern a single record. Any other code would meet every record, so it ends the import. */
const OF_A_RECORD: ReadonlySet<string> = new Set([
  "expires_at_ms_invalid",
  "expires_at_ns_invalid",
  "frame_too_large",
  "key_invalid",
  "kind_invalid",
  "lease_invalid",
  "name_invalid",
  "prefix_missing",
  "quota_invalid",
  "resources_invalid",
  "shard_full",
  "unit_invalid",
  "value_invalid",
]);

/** The outcomes of records, counted. */
export interface RestoreCounts extends Record<RestoreResult, number> {
  /** Failures by code. */
  readonly failed: Record<string, number>;
}

/** The place of a record in the file. */
export interface Position {
  readonly line: number;
  /** Offset of the end of the line, in bytes. */
  readonly endsAt: number;
}

/** A record that the server refused. */
export interface RestoreFailure {
  readonly line: number;
  readonly code: string;
  readonly message: string;
}

export const noRestoreCounts = (): RestoreCounts => ({
  restored: 0,
  kept: 0,
  expired: 0,
  failed: {},
});

/** All records that were dealt with, whatever their outcome. */
export const restoreTotal = ({ restored, kept, expired, failed }: RestoreCounts): number =>
  restored + kept + expired + failedTotal(failed);

export const failedTotal = (failed: RestoreCounts["failed"]): number =>
  Object.values(failed).reduce((sum, count) => sum + count, 0);

/** A record or lease that waits for its batch, and its line in the file. */
interface Waiting {
  readonly entry: Entry;
  readonly line: number;
}

/** Over long ago, so that restoring it changes nothing. */
const ENDED_LEASE = {
  name: "import",
  leaseId: "00000000-0000-4000-8000-000000000000",
  resources: 1,
  expiresAtMs: 0,
};

interface Batch {
  readonly entries: readonly Waiting[];
  /** Place of its last record. */
  readonly end: Position;
  readonly outcome: Promise<readonly Outcome[]>;
}

/** The result of a record, or the error that concerns it alone. */
type Outcome = RestoreResult | ThrottrError;

/** Where to restore, and what to do with records that exist. */
export interface RestoreSettings {
  readonly client: ThrottrClient;
  readonly call: CallOptions;
  readonly policy: RestorePolicyName;
  /** The counts of an earlier run, which are added to. */
  readonly counts: RestoreCounts;
  /** Called whenever `done` has moved; the restorer waits for it. */
  readonly onDone: () => Promise<void>;
}

export class Restorer {
  readonly counts: RestoreCounts;
  readonly failures: RestoreFailure[] = [];
  /** Everything up to this place is done; null at the start. */
  done: Position | null = null;
  readonly #settings: RestoreSettings;
  /** The batch that is being filled. */
  #gathered: Waiting[] = [];
  /** Its size as it will be sent, at least. */
  #gatheredBytes = 0;
  /** The place of the last record that was added. */
  #end: Position = { line: 0, endsAt: 0 };
  /** In the order of the file: `done` may only move over batches that are complete. */
  readonly #underWay: Batch[] = [];
  /** Whether `assertLeases` was called. */
  #knowsLeases = false;

  constructor(settings: RestoreSettings) {
    this.#settings = settings;
    this.counts = settings.counts;
  }

  /**
   * Checks that the server restores leases. Called before the first record where it is known that leases follow: otherwise
   * an import would stop in the middle.
   *
   * @throws ThrottrError `request_type_unknown`
   */
  async assertLeases(): Promise<void> {
    this.#knowsLeases = true;
    try {
      await this.#settings.client.restoreLease(ENDED_LEASE, this.#settings.call);
    } catch (error) {
      // Another failure is not about leases alone: it meets the first record, too, which is repeated or told.
      const failure = unlessUnknown(error, "restore leases: update it to 0.5");
      if (failure.code === "request_type_unknown") throw failure;
    }
  }

  /**
   * Adds a record or lease. Null, or a promise that the caller must await before it adds more.
   *
   * @throws ThrottrError, as `end`, and as `assertLeases`
   */
  add(entry: Entry, position: Position): Promise<void> | null {
    if (!isLease(entry) || this.#knowsLeases) return this.#add(entry, position);
    return this.assertLeases().then(() => this.#add(entry, position) ?? undefined);
  }

  #add(entry: Entry, position: Position): Promise<void> | null {
    this.#gathered.push({ entry, line: position.line });
    this.#gatheredBytes += ENTRY_BYTES + bytesOf(entry);
    this.#end = position;
    const isFull =
      this.#gathered.length === BATCH_RECORDS_MAX || this.#gatheredBytes >= BATCH_BYTES_MAX;
    return isFull ? this.#send() : null;
  }

  /**
   * Sends the last batch and waits for all that are under way.
   *
   * @throws ThrottrError an error that concerns all records; `done` is how far the import got
   */
  async end(): Promise<void> {
    if (this.#gathered.length > 0) await this.#send();
    while (this.#underWay.length > 0) await this.#finishFirst();
  }

  /**
   * Sends the batch. Waits first if too many are under way, which is what slows the reader down.
   */
  async #send(): Promise<void> {
    if (this.#underWay.length === BATCHES_UNDER_WAY_MAX) await this.#finishFirst();
    const entries = this.#gathered;
    this.#gathered = [];
    this.#gatheredBytes = 0;
    const outcome = this.#restored(entries);
    // Awaited in order by `#finishFirst`; without a handler until then, Node would end the process.
    outcome.catch(() => {});
    this.#underWay.push({ entries, end: this.#end, outcome });
  }

  /** Waits for the oldest batch, counts its outcomes, and moves `done`. */
  async #finishFirst(): Promise<void> {
    const { entries, end, outcome } = this.#underWay.shift()!;
    const outcomes = await outcome;
    entries.forEach(({ line }, i) => this.#count(outcomes[i]!, line));
    this.done = end;
    await this.#settings.onDone();
  }

  /** Counts the outcome of a record; the first failures are also kept for the report. */
  #count(outcome: Outcome, line: number): void {
    if (!(outcome instanceof ThrottrError)) {
      this.counts[outcome]++;
      return;
    }
    const { code, message } = outcome;
    this.counts.failed[code] = (this.counts.failed[code] ?? 0) + 1;
    if (this.failures.length < FAILURES_TOLD_MAX) this.failures.push({ line, code, message });
  }

  /** The outcome of each record. @throws ThrottrError an error that concerns all of them */
  async #restored(entries: readonly Waiting[]): Promise<readonly Outcome[]> {
    const outcomes: (Outcome | null)[] = entries.map(() => null);
    for (let attempt = 1; ; attempt++) {
      const open = outcomes.flatMap((outcome, i) => (outcome === null ? [i] : []));
      // Calls made in the same turn of the event loop go out in one message.
      const results = await Promise.all(open.map((i) => this.#restore(entries[i]!.entry)));
      let repeatable: ThrottrError | null = null;
      open.forEach((index, i) => {
        const result = results[i]!;
        if (result instanceof ThrottrError && !OF_A_RECORD.has(result.code)) {
          if (!REPEATABLE.has(result.code)) throw result;
          repeatable = result;
        } else {
          outcomes[index] = result;
        }
      });
      if (repeatable === null) return outcomes as Outcome[];
      if (attempt === ATTEMPTS_MAX) throw repeatable;
      const { signal } = this.#settings.call;
      // An interruption ends the pause, and the next attempt reports it.
      await sleep(BACKOFF_BASE_MS * 2 ** attempt, undefined, { signal }).catch(() => {});
    }
  }

  /** Restores a record or lease; an error is an outcome here, as others of the batch may have succeeded. */
  async #restore(entry: Entry): Promise<Outcome> {
    const { client, policy, call } = this.#settings;
    const options = { policy, ...call };
    try {
      if (isLease(entry)) return await client.restoreLease(entry, options);
      return await client.restore(entry, options);
    } catch (error) {
      return ThrottrError.from(error);
    }
  }
}

/** Bytes of a record as it is sent: its key, and its value or quota; of a lease, its name. */
function bytesOf(entry: Entry): number {
  if (isLease(entry)) return entry.name.length;
  const { key, ...rest } = entry;
  const keyBytes = Array.isArray(key) ? key[0]!.length + key[1]!.length : key.length;
  return keyBytes + (rest.kind === "buffer" ? rest.value.length : 8);
}
