/**
 * Shards that split, without objects between them: each has an engine and a journal over a database in memory.
 *
 * The messages of a split are calls here. What a shard may be asked for at each moment, and what a crash leaves, are as
 * ELASTIC says: a shard that starts again has what its database has, and nothing else.
 */
import { DatabaseSync } from "node:sqlite";
import { Engine } from "../../../src/engine/engine.ts";
import { hashBytes, type HashKey } from "../../../src/engine/hash.ts";
import type { RangeCopy } from "../../../src/engine/range-copy.ts";
import type { AdoptOutcome, RangeOffer } from "../../../src/base/calls/splits.ts";
import { Journal } from "../../../src/objects/shard/journal.ts";
import { readHashKey } from "../../../src/objects/shard/shard-row.ts";
import { endOf, isIn, WHOLE, type Range } from "../../../src/wire/range.ts";
import { ONE_SHARD } from "../frames/index.ts";
import { sqlOf } from "./sql.ts";

export interface ShardsOptions {
  readonly seed: HashKey;
  readonly semaphoreIntervalMs: number;
  readonly answerTtlMs: number;
  readonly isCounting?: boolean;
}

/** A row on its way to another shard. */
export interface Sent {
  readonly to: number;
  readonly offer: RangeOffer;
  readonly number: number;
  readonly row: Uint8Array;
  readonly usage: Uint8Array;
}

export class SplitShard {
  readonly from: number;
  engine!: Engine;
  journal!: Journal;
  copy: RangeCopy | null = null;
  /** The row that was taken from the copy and is not acknowledged. */
  underWay: Sent | null = null;
  /** Where forgetting goes on. */
  forgetCursor = 0;
  #number = 0;
  #starts = 0;
  readonly #database = new DatabaseSync(":memory:");
  readonly #options: ShardsOptions;

  constructor(from: number, options: ShardsOptions, nowMs: number) {
    this.from = from;
    this.#options = options;
    this.start(nowMs);
  }

  /** A crash, unless it is the first start. */
  start(nowMs: number): void {
    const sql = sqlOf(this.#database);
    const { seed, semaphoreIntervalMs, answerTtlMs, isCounting = true } = this.#options;
    const hashKey = readHashKey(sql) ?? { low: this.from, high: ++this.#starts };
    this.engine = new Engine({
      hashKey,
      homeSalt: this.#starts,
      bytesMax: 64 << 20,
      isCounting,
      semaphoreIntervalMs,
      answerTtlMs,
    });
    this.engine.advance(nowMs);
    this.journal = new Journal(sql, this.engine, hashKey, { ...ONE_SHARD, seed });
    this.journal.load();
    this.copy = null;
    this.underWay = null;
    this.forgetCursor = 0;
    this.#number = 0;
  }

  get isActive(): boolean {
    return this.journal.placement !== null && this.journal.split.isActive;
  }

  get range(): Range {
    return this.journal.split.range ?? WHOLE;
  }

  /** The hash key that its data is stored with. */
  get hashKey(): HashKey {
    return readHashKey(sqlOf(this.#database))!;
  }

  /** False where the last split is not over. */
  begin(at: number): boolean {
    const { split } = this.journal;
    if (this.copy !== null || split.split?.phase === 2 || this.engine.ownership.isForgetting) {
      return false;
    }
    const { to } = this.range;
    split.begin(at);
    this.copy = this.engine.ownership.copyRange({ from: at, to }, this.#options.seed);
    this.#number = 0;
    return true;
  }

  giveUp(): void {
    if (this.copy === null) return;
    this.journal.split.giveUp();
    this.engine.ownership.giveUp();
    this.copy = null;
    this.underWay = null;
  }

  /** The row to send: the same one until it is acknowledged. Null when there is none. */
  next(): Sent | null {
    if (this.copy === null || this.underWay !== null) return this.underWay;
    const copied = this.copy.next();
    if (copied === null) return null;
    const { range } = this.copy;
    const offer = {
      placement: ONE_SHARD,
      hashKey: this.hashKey,
      range,
      parent: this.from,
      attempt: this.journal.split.attempt,
    };
    this.underWay = { ...copied, to: range.from, offer, number: ++this.#number };
    return this.underWay;
  }

  acknowledge(): void {
    this.underWay = null;
  }

  /** The last commit must be adopted. */
  give(): void {
    this.journal.give(this.range);
    this.copy = null;
    this.forgetCursor = 0;
  }

  forget(): void {
    this.forgetCursor = this.engine.ownership.forgetStep(this.forgetCursor) ?? 0;
  }
}

export class SplitShards {
  /** By the first hash of their range, one that may be born later, too. */
  readonly all = new Map<number, SplitShard>();
  /** Rows that were sent, and may come again. */
  readonly sent: Sent[] = [];
  nowMs: number;
  readonly #options: ShardsOptions;

  constructor(options: ShardsOptions, nowMs: number) {
    this.#options = options;
    this.nowMs = nowMs;
    this.at(0).journal.create(ONE_SHARD, []);
  }

  /** The object with a name. */
  at(from: number): SplitShard {
    let shard = this.all.get(from);
    if (shard === undefined) {
      shard = new SplitShard(from, this.#options, this.nowMs);
      this.all.set(from, shard);
    }
    return shard;
  }

  /** Those that serve a range. */
  get active(): SplitShard[] {
    return [...this.all.values()].filter(({ isActive }) => isActive);
  }

  placeOf(keyspace: number, key: Uint8Array): number {
    return hashBytes(this.#options.seed, keyspace, key, 0, key.length);
  }

  /** The shard that owns a hash. One that was given its range and does not know asks for it first. */
  owner(hash: number): SplitShard {
    for (const shard of this.active) this.tell(shard);
    const owners = this.active.filter(({ range }) => isIn(range, hash));
    if (owners.length !== 1) throw new Error(`${owners.length} shards own ${hash}`);
    return owners[0]!;
  }

  /** Tells the shard that was given a range last, if it does not know. */
  tell(shard: SplitShard): void {
    const { split, attempt } = shard.journal.split;
    if (split?.phase !== 2) return;
    const child = this.at(split.at);
    child.engine.advance(this.nowMs);
    const isActive = child.journal.activate(attempt, shard.engine.nowMs);
    if (!isActive) throw new Error("the shard that was given the range has not adopted it");
    shard.journal.split.noteActivated();
  }

  /** Delivers a row. */
  deliver({ to, offer, number, row, usage }: Sent): AdoptOutcome {
    const shard = this.at(to);
    shard.engine.advance(this.nowMs);
    return shard.journal.adopt(offer, number, row.slice(), usage.slice());
  }

  /** Sends the next row of a shard; false when there is none. */
  send(shard: SplitShard, isAnswerLost = false): boolean {
    const sent = shard.next();
    if (sent === null) return false;
    this.sent.push(sent);
    const outcome = this.deliver(sent);
    if (outcome !== "applied") throw new Error(`${outcome}: row ${sent.number}`);
    if (!isAnswerLost) shard.acknowledge();
    return true;
  }

  /** The last step of a split, if the walk is over: false if not. */
  switch(shard: SplitShard, isCrash: (moment: string) => boolean = () => false): boolean {
    const { copy } = shard;
    if (copy === null || !copy.isWalked) return false;
    shard.journal.append();
    if (isCrash("commit")) return false;
    while (this.send(shard)) if (isCrash("row")) return false;
    shard.give();
    return !isCrash("given");
  }

  /** A whole split. */
  splitAt(from: number, at: number): void {
    const shard = this.at(from);
    if (!shard.begin(at)) throw new Error("the last split is not over");
    while (shard.copy?.isWalked === false) {
      shard.copy.step();
      while (this.send(shard));
    }
    this.switch(shard);
    this.tell(shard);
  }

  /** A hash within the range of a shard, at a share of it. */
  static hashAt(range: Range, share: number): number {
    const width = endOf(range) - range.from;
    return range.from + Math.max(1, Math.min(width - 1, Math.floor(width * share)));
  }
}
