/**
 * SemaphoreWork: what a shard does about semaphores by itself, whenever its alarm rings.
 *
 * Leases end; connections that have ended without a word give back what they held; semaphores that were not used for a
 * while are collected. All of it changes records in memory only: the shard makes the changes durable.
 */
import { presentMs } from "../../base/clock.ts";
import type { Environment } from "../../base/environment.ts";
import { connectionHolder } from "../../engine/semaphores/holder.ts";
import type { Semaphores } from "../../engine/semaphores/semaphores.ts";
import { ALARM_INTERVAL_MS } from "../../base/alarm-clock.ts";
import { logWarning } from "../../base/log.ts";
import { lostConnections } from "./lost-connections.ts";
import { shardName } from "../../base/names.ts";
import { readSettings } from "../../base/settings.ts";
import { turn } from "../../base/turn.ts";
import { CHECK_CONNECTIONS, CHECK_PAGES_MAX, RECLAIM_INTERVAL_MS } from "../../engine/sizes.ts";

/** A lost connection has to give back within `HOLDER_TIMEOUT_MS`: a third of that is left for the alarm and the calls. */
const CHECK_SHARE = 2 / 3;

/** Of one shard. The journal has the semaphores; when to look after them is in memory only. */
export class SemaphoreWork {
  readonly #env: Environment;
  readonly #shard: string;
  readonly #semaphores: Semaphores;
  readonly #checkIntervalMs: number;
  /** When Hubs are asked next about connections that hold anything, in the shard's time; Infinity when none holds any. */
  #checkAtMs = Infinity;
  /** Checks in a row that some Hub has not answered: the next one comes earlier, at first after a second. */
  #failures = 0;
  /** Where the next check goes on: one check looks at 32,768 connections at most. */
  #checkCursor = 0;
  /** When unused semaphores are collected next, in the shard's time. */
  #collectAtMs = -Infinity;
  /** When they may be collected early again, because the shard is full. */
  #reclaimAtMs = -Infinity;

  constructor(env: Environment, shard: string, semaphores: Semaphores) {
    this.#env = env;
    this.#shard = shard;
    this.#semaphores = semaphores;
    this.#checkIntervalMs = readSettings(env).HOLDER_TIMEOUT_MS * CHECK_SHARE;
  }

  /**
   * After a start: the time of the check is not stored, as that would be one more row for each. The alarm that was set
   * before stands for it.
   *
   * @param alarmAtMs Infinity when there is none: it may be about to ring
   */
  start(alarmAtMs: number): void {
    // Ends of leases may have no row: no alarm is needed for those that have passed.
    this.#semaphores.expire(presentMs());
    if (!this.#semaphores.hasConnections) return;
    const latestAtMs = this.#now() + this.#checkIntervalMs;
    this.#checkAtMs = alarmAtMs === Infinity ? 0 : Math.min(alarmAtMs, latestAtMs);
  }

  /** Says that the shard's clock was set back. */
  noteSetBack(): void {
    this.#checkAtMs = Infinity;
    this.#collectAtMs = -Infinity;
    this.#reclaimAtMs = -Infinity;
  }

  /** Present time of the shard: what is done at intervals goes on when the platform's clock goes back. */
  #now(): number {
    return this.#semaphores.readClock(presentMs());
  }

  /** The deadline: when something is due next, in ms since the epoch; Infinity when nothing is. */
  findDeadlineMs(): number {
    const { deadlineMs, hasConnections } = this.#semaphores;
    if (!hasConnections) return deadlineMs;
    if (this.#checkAtMs === Infinity) this.#checkAtMs = this.#now() + this.#checkIntervalMs;
    return Math.min(deadlineMs, this.#semaphores.toRealMs(this.#checkAtMs));
  }

  /** Does what is due. What it has changed is to be made durable. */
  async run(): Promise<void> {
    while (this.#semaphores.expireStep(presentMs())) await turn();
    await this.#check();
    await this.#collect();
  }

  /**
   * Asks Hubs about connections that hold anything, and releases what lost ones held. Several pages at once, but
   * bounded: each is a call to every Hub concerned.
   */
  async #check(): Promise<void> {
    if (!this.#semaphores.hasConnections) {
      this.#checkAtMs = Infinity;
      return;
    }
    if (this.#checkAtMs > this.#now()) return;
    const { namespace } = shardName.parse(this.#shard);
    let isComplete = true;
    let released = 0;
    let cursor: number | null = this.#checkCursor;
    for (let pages = 0; cursor !== null && pages < CHECK_PAGES_MAX; pages++) {
      const page = this.#semaphores.connections(cursor, CHECK_CONNECTIONS, presentMs());
      const answer = await lostConnections(this.#env, namespace, page.ids);
      for (const id of answer.lost) {
        this.#semaphores.releaseAll(connectionHolder(id), presentMs());
      }
      released += answer.lost.length;
      isComplete &&= answer.isComplete;
      ({ cursor } = page);
    }
    if (released > 0) logWarning("holders_lost", { shard: this.#shard, connections: released });
    this.#failures = isComplete ? 0 : this.#failures + 1;
    this.#checkCursor = cursor ?? 0;
    this.#checkAtMs =
      this.#now() + (cursor === null ? this.#untilNextCheckMs() : ALARM_INTERVAL_MS);
  }

  /** Twice as long with each failure, as a Hub that does not answer seldom does a second later. */
  #untilNextCheckMs(): number {
    if (this.#failures === 0) return this.#checkIntervalMs;
    return Math.min(this.#checkIntervalMs, ALARM_INTERVAL_MS * 2 ** (this.#failures - 1));
  }

  /** Collects semaphores that are not in use, if it is time: not before `#collectAtMs`. */
  async #collect(): Promise<void> {
    const startMs = this.#now();
    if (startMs < this.#collectAtMs) return;
    const collectAtMs = this.#semaphores.collectionDeadlineMs(presentMs());
    if (collectAtMs === null) return;
    await this.#collectAll(startMs, false);
    this.#collectAtMs = collectAtMs;
  }

  /** The shard is full: semaphores that are not in use are collected before their time. */
  async reclaim(): Promise<void> {
    const nowMs = this.#now();
    if (nowMs < this.#reclaimAtMs || this.#semaphores.deadlineMs === Infinity) return;
    this.#reclaimAtMs = nowMs + RECLAIM_INTERVAL_MS;
    await this.#collectAll(nowMs, true);
  }

  /** A step, then a turn for others: a shard may have hundreds of thousands. */
  async #collectAll(startMs: number, isUrgent: boolean): Promise<void> {
    for (let cursor: number | null = 0; cursor !== null;) {
      ({ cursor } = this.#semaphores.collectStep(cursor, presentMs(), isUrgent));
      if (cursor !== null) await turn();
    }
    this.#semaphores.noteCollection((this.#now() - startMs) * 1000);
  }
}
