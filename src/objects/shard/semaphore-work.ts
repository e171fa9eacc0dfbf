/**
 * What a shard does about semaphores by itself, whenever its alarm rings: leases end, connections that are
 * no more give back what they held, semaphores that nobody has used are collected.
 */
import { connectionHolder } from "../../engine/semaphores/holder.ts";
import type { Semaphores } from "../../engine/semaphores/semaphores.ts";
import { ALARM_INTERVAL_MS } from "../../base/alarm-clock.ts";
import { logWarning } from "../../base/log.ts";
import { lostConnections } from "./lost-connections.ts";
import { shardName } from "../../base/names.ts";
import { readSettings } from "../../base/settings.ts";
import { turn } from "../../base/turn.ts";

/** Connections that are asked about at once: 64 KiB of ids. */
const CHECK_CONNECTIONS = 4096;
/** Pages of one check; the next one goes on behind them. */
const CHECK_PAGES_MAX = 8;
/** In a shard that is full, semaphores that nobody holds are collected at most so often. */
const RECLAIM_INTERVAL_MS = 1000;
/** Of the time within which lost connections give back: the rest is left to the alarm and the calls. */
const CHECK_SHARE = 2 / 3;

export class SemaphoreWork {
  readonly #env: Env;
  readonly #shard: string;
  readonly #semaphores: Semaphores;
  readonly #checkIntervalMs: number;
  /** When connections that hold anything are asked about next, in the shard's time; Infinity when none was seen to. */
  #checkAtMs = Infinity;
  /** Checks in a row that some Hub has not answered. */
  #failures = 0;
  #checkCursor = 0;
  #collectAtMs = -Infinity;
  #reclaimAtMs = -Infinity;

  constructor(env: Env, shard: string, semaphores: Semaphores) {
    this.#env = env;
    this.#shard = shard;
    this.#semaphores = semaphores;
    this.#checkIntervalMs = readSettings(env).HOLDER_TIMEOUT_MS * CHECK_SHARE;
  }

  /**
   * After a start: the alarm that was set before stands for the check that was due.
   *
   * @param alarmAtMs Infinity when there is none: it may be about to ring
   */
  start(alarmAtMs: number): void {
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
    return this.#semaphores.readClock(Date.now());
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
    this.#semaphores.expire(Date.now());
    await this.#check();
    await this.#collect();
  }

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
      const page = this.#semaphores.connections(cursor, CHECK_CONNECTIONS, Date.now());
      const answer = await lostConnections(this.#env, namespace, page.ids);
      for (const id of answer.lost) {
        this.#semaphores.releaseAll(connectionHolder(id), Date.now());
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

  #untilNextCheckMs(): number {
    if (this.#failures === 0) return this.#checkIntervalMs;
    return Math.min(this.#checkIntervalMs, ALARM_INTERVAL_MS * 2 ** (this.#failures - 1));
  }

  async #collect(): Promise<void> {
    const startMs = this.#now();
    if (startMs < this.#collectAtMs) return;
    const collectAtMs = this.#semaphores.collectionDeadlineMs(Date.now());
    if (collectAtMs === null) return;
    await this.#collectAll(startMs, false);
    this.#collectAtMs = collectAtMs;
  }

  /** The shard is full: semaphores that nobody holds go before their time. */
  async reclaim(): Promise<void> {
    const nowMs = this.#now();
    if (nowMs < this.#reclaimAtMs || this.#semaphores.deadlineMs === Infinity) return;
    this.#reclaimAtMs = nowMs + RECLAIM_INTERVAL_MS;
    await this.#collectAll(nowMs, true);
  }

  async #collectAll(startMs: number, isUrgent: boolean): Promise<void> {
    for (let cursor: number | null = 0; cursor !== null;) {
      ({ cursor } = this.#semaphores.collectStep(cursor, Date.now(), isUrgent));
      if (cursor !== null) await turn();
    }
    this.#semaphores.noteCollection((this.#now() - startMs) * 1000);
  }
}
