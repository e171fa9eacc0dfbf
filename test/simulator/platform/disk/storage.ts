/** `ctx.storage` of one life: what objects with SQLite use of the platform's interface. */
import type { DurableObjectStorage } from "@cloudflare/workers-types";
import type { Life } from "../life.ts";
import type { Disk } from "./disk.ts";
import { Kv } from "./kv.ts";
import { Sql } from "./sql.ts";

/** The platform takes no dates after 2189. */
const ALARM_MAX_MS = Date.UTC(2189, 11, 31);

export type ObjectStorage = Pick<
  DurableObjectStorage,
  "kv" | "sync" | "getAlarm" | "setAlarm" | "deleteAlarm" | "deleteAll" | "transactionSync"
> & { readonly sql: Pick<DurableObjectStorage["sql"], "exec" | "databaseSize"> };

export class Storage implements ObjectStorage {
  readonly sql: Sql;
  readonly kv: Kv;
  readonly #disk: Disk;
  readonly #life: Life;
  /** Calls of `transactionSync` that are under way. */
  #transactions = 0;

  constructor(disk: Disk, life: Life) {
    this.#disk = disk;
    this.#life = life;
    this.sql = new Sql(disk, life);
    this.kv = new Kv(disk, life);
  }

  /** Settles in an event of its own, even where nothing was written. */
  sync(): Promise<void> {
    this.#life.call("storage.sync");
    return new Promise((resolve) => {
      this.#disk.onDurable(() => this.#life.later(0, "storage.sync settled", resolve));
    });
  }

  /** Settles within the turn, as all that follow: they act at the call. */
  getAlarm(): Promise<number | null> {
    this.#life.call("storage.getAlarm");
    return Promise.resolve(this.#disk.shownAlarmMs);
  }

  setAlarm(scheduledTime: number | Date): Promise<void> {
    this.#life.call("storage.setAlarm");
    const atMs = Math.trunc(Number(scheduledTime));
    const refusal = alarmRefusal(atMs);
    if (refusal !== null) return Promise.reject(new TypeError(refusal));
    this.#disk.setAlarm(atMs);
    return Promise.resolve();
  }

  deleteAlarm(): Promise<void> {
    this.#life.call("storage.deleteAlarm");
    this.#disk.setAlarm(null);
    return Promise.resolve();
  }

  /** Removes the alarm, too, as it does since the compatibility date 2026-02-24. */
  deleteAll(): Promise<void> {
    this.#life.call("storage.deleteAll");
    if (this.#transactions > 0) {
      return Promise.reject(new Error("Cannot call deleteAll() within a transaction"));
    }
    this.sql.cancelCursors();
    this.#disk.deleteAll();
    return Promise.resolve();
  }

  transactionSync<T>(closure: () => T): T {
    this.#life.call("storage.transactionSync");
    this.#transactions++;
    try {
      return this.#disk.transact(this.#life, closure);
    } finally {
      this.#transactions--;
    }
  }
}

function alarmRefusal(atMs: number): string | null {
  if (!Number.isFinite(atMs))
    return "The value cannot be converted because it is not a valid Date.";
  if (atMs <= 0) return "setAlarm() cannot be called with an alarm time <= 0";
  return atMs > ALARM_MAX_MS ? "This API doesn't support dates after 2189." : null;
}
