/**
 * The operations as calls: the one description of each, which `ThrottrService`, `ThrottrClient` and the entrypoint
 * implement. Editors show it on all of them.
 */
import type { InfoFigures } from "../throttr/info.ts";
import type { Text } from "./argument.ts";
import type { CompareAndSetOptions, CompareAndSetResult, SetOptions } from "./buffers.ts";
import type { CounterChange, IncrementOptions, InsertOptions, TtlOptions } from "./counters.ts";
import type { DrawRequest, DrawResult } from "./draw.ts";
import type { LeaseExportOptions, LeasePage, StoredLease } from "./lease-transfer.ts";
import type { LimitResult } from "./limit.ts";
import type { LimitAllRequest, LimitAllResult } from "./limit-all.ts";
import type { LimitRequest } from "./limits.ts";
import type { ListOptions, RecordPage } from "./namespace.ts";
import type { Once } from "./on-key.ts";
import type { BufferRecord, CounterRecord, Remaining } from "./records.ts";
import type { ReserveRequest, ReserveResult, SettleRequest, SettleResult } from "./reservations.ts";
import type {
  AcquireOptions,
  HolderListOptions,
  HolderPage,
  Lease,
  RenewOptions,
  SemaphoreListOptions,
  SemaphorePage,
  SemaphoreState,
} from "./semaphores.ts";
import type {
  ExportOptions,
  ExportPage,
  RestoreOptions,
  RestoreResult,
  StoredRecord,
} from "./transfer.ts";

/**
 * Each call is rejected with an error that has a stable code: that of an argument (`key_invalid`, …), when nothing
 * was sent; `scope_missing` or `prefix_missing`, when the caller lacks a right; `outcome_unknown`, when a shard failed
 * and the call may have been applied. What else a call rejects with is said there.
 *
 * Keys, prefixes and channels have at most 255 bytes; text stands for its UTF-8 bytes.
 *
 * @typeParam Given what the options of a call may have beside its own
 * @typeParam Last the last argument of calls that have no options of their own
 */
export interface OperationCalls<Given = unknown, Last extends readonly unknown[] = []> {
  /**
   * Creates a counter. False, and nothing changed, when a record with this key exists.
   *
   * `quota` is an integer from 0 to 2^64 - 1; `ttlMs` an integer from 1, in milliseconds. Rejects with
   * `quota_invalid`, `ttl_invalid`, `idempotency_key_invalid`.
   *
   * @example
   * const isNew = await throttr.insert("stock:42", { quota: 100, ttlMs: 86_400_000 });
   */
  insert(key: Text, options: InsertOptions & Given): Promise<boolean>;

  /**
   * Reads a counter: its quota and how long it still lives. Null when no record has this key.
   *
   * Rejects with `kind_mismatch` when the record is a buffer.
   *
   * @example
   * const counter = await throttr.query("stock:42"); // { quota: 100n, ttlMs: 86_399_000, expiresAtMs: … }
   */
  query(key: Text, ...options: Last): Promise<CounterRecord | null>;

  /**
   * Adds to a counter, or creates one, and gives its new quota.
   *
   * `by` is an integer from 0 to 2^64 - 1, and 1 unless given. `ttlMs`, from 1, is the TTL of a new counter; one that
   * exists keeps its own. Rejects with `quota_overflow` beyond 2^64 - 1 and with `kind_mismatch` for a buffer;
   * nothing has changed then.
   *
   * @example
   * const views = await throttr.increment("views:home", { ttlMs: 60_000 }); // 1n
   */
  increment(key: Text, options: IncrementOptions & Given): Promise<bigint>;

  /**
   * Adds to the quota of a counter that exists; null when no record has this key.
   *
   * `amount` is an integer from 0 to 2^64 - 1. `applied` is false, and the quota as it was, when the sum would exceed
   * 2^64 - 1. Rejects with `amount_invalid`, and with `kind_mismatch` for a buffer.
   *
   * @example
   * const change = await throttr.increase("stock:42", 10); // { applied: true, quota: 110n, … }
   */
  increase(
    key: Text,
    amount: bigint | number,
    options?: Once & Given,
  ): Promise<CounterChange | null>;

  /**
   * Subtracts from the quota of a counter; null when no record has this key.
   *
   * `amount` is an integer from 0 to 2^64 - 1. `applied` is false, and the quota as it was, when the counter has less.
   * Rejects with `amount_invalid`, and with `kind_mismatch` for a buffer.
   *
   * @example
   * const change = await throttr.decrease("stock:42", 1, { idempotencyKey: orderId });
   * if (change?.applied !== true) throw new Error("sold out");
   */
  decrease(
    key: Text,
    amount: bigint | number,
    options?: Once & Given,
  ): Promise<CounterChange | null>;

  /**
   * Sets the quota of a counter that exists, and leaves its TTL; null when no record has this key.
   *
   * `quota` is an integer from 0 to 2^64 - 1. Rejects with `quota_invalid`, and with `kind_mismatch` for a buffer.
   *
   * @example
   * await throttr.patch("stock:42", 500);
   */
  patch(key: Text, quota: bigint | number, options?: Once & Given): Promise<CounterChange | null>;

  /**
   * Changes how long a record of either kind lives; null when no record has this key, or the change ended it.
   *
   * `ttlMs` is an integer from 0, in milliseconds. `change` says what it does: `patch`, unless given, sets the time
   * left, `increase` and `decrease` move the end. Rejects with `ttl_invalid`, `change_invalid`.
   *
   * @example
   * await throttr.ttl("session:7", { ttlMs: 1_800_000 });
   */
  ttl(key: Text, options: TtlOptions & Given): Promise<Remaining | null>;

  /**
   * Removes a record of either kind. False when no record has this key.
   *
   * @example
   * await throttr.purge("session:7");
   */
  purge(key: Text, options?: Once & Given): Promise<boolean>;

  /**
   * Sets a buffer, whatever it held before.
   *
   * `value` has at most 1,800,000 bytes, or fewer where `FRAME_BYTES_MAX` says so; `ttlMs` is an integer from 1, in
   * milliseconds. Rejects with `value_invalid`, `ttl_invalid`, with `frame_too_large`, and with `kind_mismatch` when
   * the record is a counter.
   *
   * @example
   * await throttr.set("page:home", html, { ttlMs: 60_000 });
   */
  set(key: Text, value: Text, options: SetOptions & Given): Promise<void>;

  /**
   * Reads a buffer: its bytes and how long it still lives. Null when no record has this key.
   *
   * Rejects with `kind_mismatch` when the record is a counter.
   *
   * @example
   * const page = await throttr.get("page:home");
   * const html = page === null ? null : new TextDecoder().decode(page.value);
   */
  get(key: Text, ...options: Last): Promise<BufferRecord | null>;

  /**
   * Sets or removes a buffer if it holds what is expected: a lock, or a change that no other writer overtakes.
   *
   * `expected: null` means that there must be no record; `value: null` removes it; `ttlMs`, from 1, is needed unless it
   * does. Where it was not applied, `current` has what the buffer holds. Rejects with `expected_invalid`,
   * `value_invalid`, `ttl_invalid`, and with `kind_mismatch` when the record is a counter.
   *
   * @example
   * const { applied } = await throttr.compareAndSet("leader", { expected: null, value: me, ttlMs: 30_000 });
   */
  compareAndSet(key: Text, options: CompareAndSetOptions & Given): Promise<CompareAndSetResult>;

  /**
   * Asks a rate limit, and charges the cost if there is room.
   *
   * `name` and `key` have 1 to 64 of `A-Z a-z 0-9 _ - : . @ +`; `cost` is an integer from 1, and 1 unless given. A
   * refusal is a result (`success: false`), not an error. Rejects with the code of what is wrong in the request
   * (`base_key_invalid`, `key_invalid`, `strategy_unknown`, `burst_invalid`, `cost_invalid`, …), and with `state_invalid` when the record
   * of the limit holds something else.
   *
   * @example
   * const strategy = { strategy: "token_bucket", burst: 20, rate: 5 } as const;
   * const { success, retryAfterMs } = await throttr.limit({ name: "api", key: userId, strategy });
   */
  limit(request: LimitRequest, ...options: Last): Promise<LimitResult>;

  /**
   * What a limit would answer to a cost of 1. Nothing is charged: `remaining` is what is left before such a request.
   *
   * Rejects as `limit`.
   *
   * @example
   * const { remaining } = await throttr.peek({ name: "api", key: userId, strategy });
   */
  peek(request: LimitRequest, ...options: Last): Promise<LimitResult>;

  /**
   * Gives a cost back to a limit, such as that of a request that failed; the result is that of `peek` afterwards.
   *
   * Rejects as `limit`.
   *
   * @example
   * await throttr.refund({ name: "api", key: userId, strategy, cost: 5 });
   */
  refund(request: LimitRequest, ...options: Last): Promise<LimitResult>;

  /**
   * Draws units of a limit that the caller then spends by itself, without a call for each: what `local` of a
   * RateLimiter does, for callers that have none.
   *
   * The units are charged at once, so the caller may spend them until `lifeMs` after it sent the request, and not
   * later. What it does not spend it may give back with its next draw. Never send a draw again: when its answer is
   * lost, its units are, too. A `cost` that does not fit is refused as by `limit`. Wait `pauseMs` before the
   * next draw.
   *
   * Rejects as `limit`, with `draw_invalid`, and with `request_type_unknown` on
   * a server before 0.5.
   *
   * @example
   * const { success, units, draw, lifeMs } = await throttr.draw({ name: "api", key, strategy, wanted: 100 });
   */
  draw(request: DrawRequest, ...options: Last): Promise<DrawResult>;

  /**
   * Charges several limits together: all of them, or none where one refuses.
   *
   * `requests` are 1 to 32, such as those of a user, an organisation and all of the service. Entries of the same name, key and strategy
   * count with their sum. A refusal is a result, and `refusedBy` says whose. Rejects as `limit`; with
   * `limit_all_invalid` for other lists, and where two entries share a record but not the strategy; and with
   * `request_type_unknown` on a server before 0.5. After `outcome_unknown` some of the limits may have been charged.
   *
   * @example
   * const { success, refusedBy } = await throttr.limitAll({
   *   requests: [
   *     { name: "user", key: userId, strategy: perUser },
   *     { name: "organisation", key: organisationId, strategy: perOrganisation },
   *   ],
   * });
   */
  limitAll(request: LimitAllRequest, ...options: Last): Promise<LimitAllResult>;

  /**
   * Charges an estimate to a limit, to be corrected by `settle` when the real cost is known. It is refused as by `limit`,
   * and reserves nothing then: `id` is null.
   *
   * `cost` is an integer from 1; `ttlMs` is 1,000 to 86,400,000, and 60,000 unless given. What is not settled by then
   * counts as spent. The same call with the same `id` is charged once, and answered as granted with the figures of now.
   *
   * Rejects as `limit`, with `ttl_invalid`, `reservation_invalid`, `reservation_conflict` when a reservation of another
   * cost has the id, `shard_full`, and with `request_type_unknown` on a server before 0.5.
   *
   * @example
   * const { id } = await throttr.reserve({ name: "tokens", key: userId, strategy, cost: 800 });
   */
  reserve(request: ReserveRequest, ...options: Last): Promise<ReserveResult>;

  /**
   * Settles a reservation with its real cost, an integer from 0; 0 releases it. What was reserved too much is given
   * back, and what is missing is charged, even beyond the limit: as a debt, which the limit makes others wait for.
   *
   * Where a window that was charged has ended, or the limit was reset, nothing is given back or charged. A reservation
   * is settled once: later calls change nothing. The result is that of `peek` afterwards; `settled` is the cost of the
   * first call.
   *
   * Rejects with `reservation_ended` after `ttlMs` and for an unknown id, `reservation_invalid`, and else as `limit`.
   *
   * @example
   * await throttr.settle({ name: "tokens", key: userId, strategy, id, cost: 523 });
   */
  settle(request: SettleRequest, ...options: Last): Promise<SettleResult>;

  /**
   * Removes the state of a limit for a key: it starts full. False when it has none. Rejects as `limit`.
   *
   * @example
   * await throttr.reset({ name: "api", key: userId, strategy });
   */
  reset(request: Omit<LimitRequest, "cost">, ...options: Last): Promise<boolean>;

  /**
   * Holds resources of a semaphore by a lease, until it is released or ends. Null, and nothing changed, when all that
   * is held together would exceed `maximum`.
   *
   * `resources` is 1 to 2^32 - 1, and 1 unless given; `maximum` from `resources` to 2^32 - 1; `ttlMs` 1 to 86,400,000, a
   * day. The same call with the same `leaseId` holds once, and renews: make it again when its answer was lost. Rejects
   * with `name_invalid`, `resources_invalid`, `maximum_invalid`, `ttl_invalid`, `lease_invalid`, with `lease_conflict`
   * when the lease of that id holds other resources of the semaphore, and with `shard_full`.
   *
   * @example
   * const lease = await throttr.acquire("gpu", { maximum: 4, ttlMs: 30_000 });
   * if (lease !== null) await throttr.release("gpu", lease.leaseId);
   */
  acquire(name: Text, options: AcquireOptions & Given): Promise<Lease | null>;

  /**
   * Lets a lease end `ttlMs` from now, 1 to 86,400,000. Null when the semaphore has no such lease, or it has ended.
   *
   * Rejects with `name_invalid`, `lease_invalid`, `ttl_invalid`.
   *
   * @example
   * await throttr.renew("gpu", lease.leaseId, { ttlMs: 30_000 });
   */
  renew(
    name: Text,
    leaseId: string,
    renewal: RenewOptions,
    ...options: Last
  ): Promise<Lease | null>;

  /**
   * Gives back what a lease holds. False when the semaphore has no such lease: also when an earlier attempt released
   * it, and its answer was lost. Rejects with `name_invalid`, `lease_invalid`.
   *
   * @example
   * await throttr.release("gpu", lease.leaseId);
   */
  release(name: Text, leaseId: string, ...options: Last): Promise<boolean>;

  /**
   * How much of a semaphore is in use; null when it does not exist. A semaphore that has no holders is removed after
   * the interval of `YRMCDS_STATS_INTERVAL_MS`, a day unless set. Rejects with `name_invalid`.
   *
   * @example
   * const state = await throttr.inspectSemaphore("gpu"); // { consumption: 2, mostHeld: 4, … }
   */
  inspectSemaphore(name: Text, ...options: Last): Promise<SemaphoreState | null>;

  /**
   * Lists semaphores in the order of their names, a page of at most 1,000 at a time. A page is not a snapshot.
   *
   * Go on with `cursor` until it is null. Rejects with `prefix_invalid`, `limit_invalid`, `after_invalid`.
   *
   * @example
   * const { semaphores, cursor } = await throttr.semaphores({ prefix: "gpu" });
   */
  semaphores(options?: SemaphoreListOptions & Given): Promise<SemaphorePage>;

  /**
   * Lists the holders of a semaphore, a page of at most 1,000 at a time: connections, then leases. A page is not a
   * snapshot.
   *
   * Go on with `cursor` until it is null. Rejects with `name_invalid`, `limit_invalid`, `after_invalid`.
   *
   * @example
   * const { holders } = await throttr.holders("gpu");
   */
  holders(name: Text, options?: HolderListOptions & Given): Promise<HolderPage>;

  /**
   * Publishes a message to a channel. True if a subscription took it; the server does not keep it for later ones.
   *
   * Rejects with `channel_invalid`, `payload_invalid`, `frame_too_large`.
   *
   * @example
   * await throttr.publish("news", JSON.stringify(article));
   */
  publish(channel: Text, payload: Text, ...options: Last): Promise<boolean>;

  /**
   * Lists records, a page of at most 1,000 at a time: in the order of their keys while every shard has at most 16,384;
   * beyond that in the order in which shards keep them, each once.
   *
   * A page that is not the last one may have fewer records than `limit`, or none: go on until `cursor` is null. Pages
   * are not a snapshot. Rejects with `prefix_invalid`, `limit_invalid`, `after_invalid`, and with `cursor_lost` when the
   * records have another order now: list from the start.
   *
   * @example
   * let cursor: Uint8Array | null | undefined;
   * do {
   *   const page = await throttr.list({ prefix: "user:", ...(cursor ? { cursor } : {}) });
   *   for (const { key, kind } of page.records) console.log(key, kind);
   *   cursor = page.cursor;
   * } while (cursor !== null);
   */
  list(options?: ListOptions & Given): Promise<RecordPage>;

  /**
   * Reads records with their values, a page of at most 10,000 records or 1 MiB at a time: shard by shard, and in each
   * in the order of their keys. For backups and for moving to another server.
   *
   * A page is not a snapshot: a record that stays comes once, one that comes or goes meanwhile may. Rejects with
   * `prefix_invalid`, `limit_invalid`, `bytes_max_invalid`, `after_invalid`.
   *
   * @example
   * const { records, cursor } = await throttr.exportPage({ prefix: "user:" });
   */
  exportPage(options?: ExportOptions & Given): Promise<ExportPage>;

  /**
   * Puts a record back as `exportPage` gave it, its end and unit included. Doing it twice leaves what doing it once
   * does, unless another caller has changed the record in between.
   *
   * Rejects with `kind_invalid`, `quota_invalid`, `value_invalid`, `unit_invalid`, `expires_at_ns_invalid`,
   * `policy_invalid`, and with `shard_full`.
   *
   * @example
   * for (const record of records) await throttr.restore(record, { policy: "keep" });
   */
  restore(record: StoredRecord, options?: RestoreOptions & Given): Promise<RestoreResult>;

  /**
   * Reads the leases of all semaphores, a page of at most 10,000 leases or 1 MiB at a time. For backups and for moving to
   * another server; what connections hold is left out. Needs the scope `admin`, as a lease can be released by its ID.
   *
   * A page is not a snapshot: a lease that stays comes once, one that comes or goes meanwhile may. Rejects with
   * `prefix_invalid`, `limit_invalid`, `bytes_max_invalid`, `name_invalid`, `lease_invalid`.
   *
   * @example
   * const { leases, cursor } = await throttr.exportLeases();
   */
  exportLeases(options?: LeaseExportOptions & Given): Promise<LeasePage>;

  /**
   * Puts a lease back as `exportLeases` gave it, with its end, whatever is in use of its semaphore: `acquire` waits then
   * until its maximum has room. Doing it twice leaves what doing it once does, unless another caller has changed the lease
   * in between. The end may be at most two days from now.
   *
   * Rejects with `name_invalid`, `lease_invalid`, `resources_invalid` (also when more than 2^32 - 1 would be in use),
   * `expires_at_ms_invalid`, `policy_invalid`, and with `shard_full`.
   *
   * @example
   * for (const lease of leases) await throttr.restoreLease(lease, { policy: "keep" });
   */
  restoreLease(lease: StoredLease, options?: RestoreOptions & Given): Promise<RestoreResult>;

  /**
   * Removes all records whose keys begin with a prefix, and gives their number. With the empty prefix it removes all of
   * the namespace, pairs of dialect 2 and answers of idempotency keys included. Rejects with `prefix_invalid`.
   *
   * @example
   * const removed = await throttr.removeAll("session:");
   */
  removeAll(prefix: Text, ...options: Last): Promise<number>;

  /**
   * Figures of the namespace: requests by type, in all and in the last 60 seconds, records, connections, channels.
   *
   * @example
   * const { counters, buffers } = await throttr.info();
   */
  info(...options: Last): Promise<InfoFigures>;
}
