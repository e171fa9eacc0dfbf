/** A life as the cluster runs it: its events one after the other, each of them perhaps its last. */
import type { MsSpan } from "../../support/models/span.ts";
import { endAllOf } from "./net/endings.ts";
import type { Mortal } from "./faults.ts";
import { LifeOver, type Life } from "./life.ts";
import type { Instance } from "./program.ts";
import type { Machine, Site } from "./site.ts";

/** What stands still with a machine. */
const TIMERS = ["timer", "interval", "scheduler.wait", "AbortSignal.timeout"];

export class RunningLife implements Life {
  readonly name: string;
  readonly kind: Mortal["kind"];
  readonly machine: Machine;
  /** Whose code it runs; null for a client. */
  readonly release: string | null;
  isOver = false;
  /** Modules of its own, where it has some. */
  code: Instance | null = null;
  /** When nothing of it happened, in order and apart from each other: see `suspend`. */
  readonly suspensions: MsSpan[] = [];
  /** How long its timers stood still. */
  stoodStillMs = 0;
  /** Events that are planned and have not happened. */
  planned = 0;
  /** Work that it has asked the platform to wait for. */
  waitedFor = 0;
  protected readonly site: Site;
  /** Calls that are not answered: they keep the life awake, and learn of its end. */
  protected readonly watchers = new Set<(error: Error) => void>();

  constructor(
    site: Site,
    machine: Machine,
    kind: Mortal["kind"],
    name: string,
    release: string | null = null,
  ) {
    this.release = release;
    this.site = site;
    this.kind = kind;
    this.machine = machine;
    this.name = name;
  }

  /** Whether nothing is going on: no timer, no work, and no call that is not answered. */
  get isIdle(): boolean {
    return this.planned === 0 && this.waitedFor === 0 && this.watchers.size === 0;
  }

  /** What keeps it awake, for messages. */
  get busyWith(): string {
    return `${this.planned} events planned, ${this.waitedFor} waited for, ${this.watchers.size} calls unanswered`;
  }

  get clockMs(): number {
    return this.machine.clockMs;
  }

  call(what: string): void {
    if (!this.isOver && this.site.faults.crashesAt(this, what)) this.crash(what);
    if (this.isOver) throw new LifeOver(this.name);
  }

  later(delayMs: number, what: string, event: () => void): () => void {
    if (this.isOver) return () => {};
    this.planned++;
    let isPlanned = true;
    const end = (): boolean => {
      if (!isPlanned) return false;
      isPlanned = false;
      this.planned--;
      return true;
    };
    const { time } = this.site;
    const [plannedAtMs, stoodStillMs] = [time.nowMs, this.stoodStillMs];
    const happen = (): void => {
      const waitMs =
        this.suspensions.length === 0 ? 0 : this.#waitMs(what, plannedAtMs + delayMs, stoodStillMs);
      if (waitMs > 0) {
        cancel = time.after(waitMs, happen);
        return;
      }
      end();
      this.run(what, event);
    };
    let cancel = time.after(delayMs, happen);
    return () => {
      if (end()) cancel();
    };
  }

  /** How much longer an event must wait that is due now, where the life is or was suspended. */
  #waitMs(what: string, dueMs: number, stoodStillMs: number): number {
    const lateMs = TIMERS.includes(what) ? this.stoodStillMs - stoodStillMs : 0;
    return Math.max(this.suspensions.at(-1)!.toMs, dueMs + lateMs) - this.site.time.nowMs;
  }

  /**
   * Lets nothing happen for a while, as in a process whose processor others have. What comes meanwhile happens afterwards, in its order.
   *
   * @param standsStill its timers, and the clock that never goes back, stand still meanwhile, as on a machine that is suspended
   * @returns whether it was not suspended already
   */
  suspend(forMs: number, standsStill: boolean): boolean {
    const { nowMs } = this.site.time;
    if ((this.suspensions.at(-1)?.toMs ?? 0) >= nowMs) return false;
    this.suspensions.push({ fromMs: nowMs, toMs: nowMs + forMs });
    if (standsStill) this.stoodStillMs += forMs;
    this.site.trace.note("suspended", this.name, forMs, standsStill);
    return true;
  }

  /** How long it has been suspended so far. */
  get suspendedMs(): number {
    const { nowMs } = this.site.time;
    return this.suspensions.reduce(
      (sum, { fromMs, toMs }) => sum + Math.min(toMs, nowMs) - fromMs,
      0,
    );
  }

  /** Plans events for what begins now and ends later: within `blockConcurrencyWhile`, what belongs to that happens before it ends. */
  planner(): Life["later"] {
    return (delayMs, what, event) => this.later(delayMs, what, event);
  }

  settled<T>(delayMs: number, what: string, settle: () => T): Promise<T> {
    return new Promise((resolve, reject) => {
      this.later(delayMs, what, () => {
        try {
          resolve(settle());
        } catch (error) {
          reject(error as Error);
        }
      });
    });
  }

  /** Runs an event of this life now, as the event that virtual time is at. */
  run(what: string, event: () => void): void {
    if (this.isOver) return;
    const { running } = this.site;
    // Reactions of promises run after the event: all of one life, or they would find the variables of another isolate.
    if (running !== null && running !== this) {
      throw new Error(`${this.name} runs within an event of ${running.name}`);
    }
    this.site.running = this;
    this.enter();
    this.site.trace.note(what, this.name);
    try {
      this.call(what);
      event();
    } catch (error) {
      if (!(error instanceof LifeOver)) throw error;
    }
  }

  /** Puts what its modules have in variables in place. */
  enter(): void {
    this.code?.enter();
  }

  /** Keeps what the platform shall wait for before it puts the life to sleep. A failure is no failure of anything else. */
  waitUntil(work: Promise<unknown>): void {
    this.waitedFor++;
    const end = (): void => {
      this.waitedFor--;
    };
    work.then(end, (error: unknown) => {
      end();
      if (this.isOver) return;
      this.site.trace.note("waitUntil failed", this.name, String(error));
      this.site.onError(this, `work of a ${this.kind}`, error);
    });
  }

  whenDurable(send: () => void): void {
    if (!this.isOver) send();
  }

  /** Lets a call leave, in its order among the calls of this life. */
  dispatch(send: () => void): void {
    this.whenDurable(send);
  }

  /** Tells of the end of this life, unless that is no longer of interest. */
  watch(watcher: (error: Error) => void): () => void {
    this.watchers.add(watcher);
    return () => this.watchers.delete(watcher);
  }

  /** Runs after each event of this life, when all promises have settled that can. */
  endTurn(): void {}

  /** The process has died at a call. */
  crash(what: string): void {
    if (this.isOver) return;
    this.site.trace.note("crash", this.name, what);
    this.end(lostConnection);
  }

  break(reason: string): void {
    if (this.isOver) return;
    this.site.trace.note("broken", this.name, reason);
    this.end(() => new Error(reason));
  }

  /** @param makeError what callers see: each request that is served ends, and most have no call that waits */
  protected end(makeError: () => Error): void {
    this.isOver = true;
    if (this.watchers.size > 0) {
      const error = makeError();
      const watchers = [...this.watchers];
      this.watchers.clear();
      for (const watcher of watchers) watcher(error);
    }
    endAllOf(this);
  }
}

/** What callers of an object see when its process dies. */
export const lostConnection = (): Error =>
  Object.assign(new Error("Network connection lost."), { retryable: true, remote: true });
