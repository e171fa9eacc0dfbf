/** A life as the cluster runs it: its events one after the other, each of them perhaps its last. */
import { endAllOf } from "./net/endings.ts";
import type { Mortal } from "./faults.ts";
import { LifeOver, type Life } from "./life.ts";
import type { Instance } from "./program.ts";
import type { Machine, Site } from "./site.ts";

export class RunningLife implements Life {
  readonly name: string;
  readonly kind: Mortal["kind"];
  readonly machine: Machine;
  /** Whose code it runs; null for a client. */
  readonly release: string | null;
  isOver = false;
  /** Modules of its own, where it has some. */
  code: Instance | null = null;
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
    const cancel = this.site.time.after(delayMs, () => {
      end();
      this.run(what, event);
    });
    return () => {
      if (end()) cancel();
    };
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
