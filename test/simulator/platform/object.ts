/**
 * An object of the platform: a name, a disk, and one life after the other. It starts with the first event that comes for it,
 * delivers events one by one, and holds what leaves it until what it has written is durable.
 */
import { copyError } from "./clone.ts";
import type { Disk } from "./disk/disk.ts";
import type { Isolate } from "./isolate.ts";
import type { Release } from "./realm.ts";
import { LifeOver, type Life } from "./life.ts";
import { LateCalls } from "./late-calls.ts";
import { lostConnection, RunningLife } from "./running-life.ts";
import type { Site } from "./site.ts";
import { endAllOf } from "./net/endings.ts";
import { HibernatingSockets, type SocketHandlers } from "./net/hibernation.ts";
import { makeBlob } from "./net/network.ts";
import type { SimRequest, SimResponse } from "./net/messages.ts";
import type { SocketEnd } from "./net/socket-end.ts";

/** Something that comes from outside, and is the object's next event. */
export interface Incoming {
  readonly what: string;
  /** Runs in an event of the object. */
  readonly run: (life: ObjectLife) => void;
  /** The life has ended, or could not begin. */
  readonly fail: (error: Error) => void;
}

export interface ObjectInstance {
  fetch?(request: SimRequest): Promise<SimResponse> | SimResponse;
  alarm?(info: { retryCount: number; isRetry: boolean }): Promise<void> | void;
}

/** One instance of an object, from its constructor on. */
export class ObjectLife extends RunningLife {
  readonly object: SimulatedObject;
  readonly isolate: Isolate;
  readonly disk: Disk;
  instance: ObjectInstance | null = null;
  /** When it took the last event from outside, in true time. */
  lastTakenMs = -Infinity;
  /** Why it is over; null while it is not, and when the process died. */
  reason: Error | null = null;
  #isBlocked = false;
  #held: Incoming[] = [];
  /** Those that the present event has made. */
  readonly #calls: (() => void)[] = [];
  /** Stubs that have called it. */
  readonly #stubs: ((error: Error) => void)[] = [];

  constructor(site: Site, object: SimulatedObject, isolate: Isolate, disk: Disk, name: string) {
    super(site, isolate.machine, object.className, name, isolate.release);
    this.object = object;
    this.isolate = isolate;
    this.disk = disk;
  }

  /** Whether the platform may put the object to sleep. */
  override get isIdle(): boolean {
    return super.isIdle && !this.#isBlocked && this.disk.isDurable;
  }

  /** Whether it takes events. */
  get isReady(): boolean {
    return this.instance !== null && !this.#isBlocked && !this.isOver;
  }

  override enter(): void {
    this.isolate.enter();
  }

  /** Constructs the instance, as the event that virtual time is at. */
  start(): void {
    this.run("constructor", () => {
      try {
        this.instance = this.object.construct(this);
      } catch (error) {
        if (error instanceof LifeOver) throw error;
        this.#reset(error);
      }
    });
  }

  /** @returns what the callback returns; no event is delivered before */
  async blockConcurrencyWhile<T>(callback: () => Promise<T>): Promise<T> {
    this.#isBlocked = true;
    try {
      const result = await callback();
      this.#open();
      return result;
    } catch (error) {
      if (!this.isOver && !(error instanceof LifeOver)) this.#reset(error);
      // The code that waits here never goes on.
      return await new Promise<never>(() => {});
    }
  }

  /**
   * While concurrency is blocked, what was planned before waits, too: timers, and answers of calls. The callback's own events
   * happen.
   */
  override later(delayMs: number, what: string, event: () => void): () => void {
    return this.#plan(this.#isBlocked, delayMs, what, event);
  }

  override planner(): Life["later"] {
    const isOfBlock = this.#isBlocked;
    return (delayMs, what, event) => this.#plan(isOfBlock, delayMs, what, event);
  }

  #plan(isOfBlock: boolean, delayMs: number, what: string, event: () => void): () => void {
    return super.later(delayMs, what, () => {
      if (this.#isBlocked && !isOfBlock) this.#held.push({ what, run: event, fail: () => {} });
      else event();
    });
  }

  /** Takes an event from outside: now, or when no earlier one blocks it. */
  receive(incoming: Incoming): void {
    // It has crashed in its constructor.
    if (this.isOver) {
      incoming.fail(this.reason ?? lostConnection());
      return;
    }
    if (!this.#isBlocked && this.#held.length === 0) {
      this.#take(incoming);
      return;
    }
    this.#held.push(incoming);
    if (!this.#isBlocked) this.#planHeld();
  }

  /** Tells a stub of the end; that it may still call keeps nothing awake. */
  onEnd(stub: (error: Error) => void): void {
    this.#stubs.push(stub);
  }

  override whenDurable(send: () => void): void {
    if (this.isOver) return;
    if (this.disk.isDurable) send();
    else this.disk.onDurable(send);
  }

  /** Calls wait for rows that come behind them in their event, too, as workerd makes them when the event is over. */
  override dispatch(send: () => void): void {
    if (this.site.faults.hasEarlyCalls) this.whenDurable(send);
    else this.#calls.push(send);
  }

  override endTurn(): void {
    const calls = this.#calls.splice(0);
    if (this.isOver) return;
    const step = this.disk.endTurn();
    for (const send of calls) this.whenDurable(send);
    if (step !== null && this.isReady && this.site.faults.partsAt(this.disk.name, step)) {
      this.site.time.after(0, () => this.object.part(this));
    }
  }

  /** The process dies: of what was not durable, any part may be lost. */
  override crash(what: string): void {
    if (!this.isOver) this.disk.crash(this.site.random);
    super.crash(what);
  }

  /** `ctx.abort`: the turn's writes are lost, and no line of code runs behind it. Turns before it are committed. */
  abort(reason: unknown): never {
    if (!this.isOver) this.#reset(reason);
    throw new LifeOver(this.name);
  }

  #reset(reason: unknown): void {
    this.site.trace.note("aborted", this.name, String(reason));
    this.site.onError(this, `${this.object.className} reset`, reason);
    this.disk.dropTurn();
    this.end(() => Object.assign(copyError(reason), { durableObjectReset: true }));
  }

  /** The platform takes the instance away, as nothing goes on. Its hibernating sockets stay. */
  evict(): void {
    this.site.trace.note("evicted", this.name);
    this.isOver = true;
    this.object.forget(this);
    endAllOf(this);
  }

  #take(incoming: Incoming): void {
    this.lastTakenMs = this.site.time.nowMs;
    this.object.noteTaken(incoming.what);
    let hasBegun = false;
    this.run(incoming.what, () => {
      hasBegun = true;
      incoming.run(this);
    });
    // The life has crashed as the event came.
    if (!hasBegun) incoming.fail(this.reason ?? lostConnection());
  }

  /** What was held is delivered in its order, one event each, before anything that is planned from now on. */
  #open(): void {
    this.#isBlocked = false;
    for (let i = 0; i < this.#held.length; i++) this.#planHeld();
  }

  #planHeld(): void {
    this.later(0, "input gate", () => {
      const next = this.#held.shift();
      if (next !== undefined) this.#take(next);
    });
  }

  protected override end(makeError: () => Error): void {
    const error = makeError();
    this.reason = error;
    this.isOver = true;
    this.object.lose(this);
    for (const { fail } of this.#held) fail(error);
    this.#held = [];
    for (const stub of this.#stubs) stub(error);
    super.end(() => error);
  }
}

/** Hears what befalls objects. */
export interface Watcher {
  /** An object begins a new life, perhaps on another machine. */
  onStart?(object: SimulatedObject, life: ObjectLife): void;
  /** @param isReset false for one that was put to sleep */
  onEnd?(object: SimulatedObject, life: ObjectLife, isReset: boolean): void;
  /** The life is no longer the object's, and goes on. */
  onPartition?(object: SimulatedObject, life: ObjectLife): void;
  /** The alarm of the object rings. */
  onAlarm?(object: SimulatedObject): void;
  /**
   * The object has accepted a hibernating socket.
   *
   * @param isParted by a life that the network had parted from the rest before
   */
  onSocket?(object: SimulatedObject, end: SocketEnd, isParted: boolean): void;
  onCall?(call: CallMade): CallWatch;
  /** A line of the log, of code of a release. */
  onLog?(life: Life, text: string, release: string): void;
  /** Code has thrown an error that the platform takes: the end of a call, of an event or of the life. */
  onError?(life: RunningLife, what: string, error: unknown): void;
}

/** A call of an object, as it is made. */
export interface CallMade {
  readonly object: SimulatedObject;
  readonly caller: RunningLife;
  readonly method: string;
  readonly parameters: readonly unknown[];
}

/** Hears what becomes of a call. */
export interface CallWatch {
  /** The object has taken it, as an event of this life. */
  onTaken(life: ObjectLife): void;
  /** It is known when the caller has its answer, or an error. */
  onAnswer(hasFailed: boolean, answeredMs: number): void;
}

/** How an object is made, and what it lives on. */
export interface ObjectHost {
  readonly site: Site;
  /** The isolate that a new life begins in. */
  isolateFor(object: SimulatedObject): Isolate;
  construct(object: SimulatedObject, life: ObjectLife): ObjectInstance;
  readonly watcher: Watcher;
}

export class SimulatedObject {
  /** Whose code its lives run. */
  release: Release;
  readonly className: string;
  readonly name: string;
  disk: Disk;
  /** Lives that the network has parted from the rest. */
  readonly #parted: ObjectLife[] = [];
  /** What such a life accepts belongs to it alone: no other copy hears of these sockets. */
  readonly #partedSockets = new Map<HibernatingSockets, ObjectLife>();
  /** Of its life, and of the ones before and behind it. A life that is parted from the rest keeps those that it had then. */
  sockets: HibernatingSockets;
  life: ObjectLife | null = null;
  /** Lives that have begun. */
  livesBegun = 0;
  /** How often its alarm rang though it was not due. */
  timesRungAgain = 0;
  /** Lives that a partition has left behind: each may still write once, in vain. */
  livesParted = 0;
  /** Events from outside that came so far, and how often each of them did: a call by its method. */
  taken = 0;
  readonly #takenOf = new Map<string, number>();
  /** Calls of it that are late. */
  readonly late: LateCalls;
  readonly #host: ObjectHost;
  #cancelAlarm: (() => void) | null = null;
  #alarmRetries = 0;
  /** Not before then does it ring again. */
  #retryAtMs = 0;
  #isRinging = false;

  constructor(
    host: ObjectHost,
    options: {
      readonly className: string;
      readonly name: string;
      readonly disk: Disk;
      readonly release: Release;
    },
  ) {
    this.release = options.release;
    this.#host = host;
    this.className = options.className;
    this.name = options.name;
    this.disk = options.disk;
    this.late = new LateCalls(host.site.time);
    this.sockets = this.#makeSockets();
    this.disk.onAlarmChanged = () => this.#planAlarm();
  }

  noteTaken(what: string): void {
    this.taken++;
    this.#takenOf.set(what, this.takenOf(what) + 1);
  }

  takenOf(what: string): number {
    return this.#takenOf.get(what) ?? 0;
  }

  /**
   * The network parts the running life from the rest: new callers get another one, elsewhere. Those that it knows still reach it
   * for a moment, until one of its commits fails at the latest.
   */
  partition(): void {
    if (this.life !== null) this.part(this.life);
  }

  /** As `partition`, unless the life is no longer the object's. */
  part(life: ObjectLife): void {
    if (this.life !== life || !life.isReady) return;
    const { disk } = this;
    this.#host.site.trace.note("partition", life.name);
    this.#host.watcher.onPartition?.(this, life);
    this.life = null;
    this.livesParted++;
    disk.onAlarmChanged = () => {};
    this.#parted.push(life);
    this.disk = disk.handOver(this.#host.site.random);
    this.disk.onAlarmChanged = () => this.#planAlarm();
    // Its peers may stay with it until it ends.
    if (!this.#host.site.random.chance(STAY_SHARE)) this.sockets.cutAll();
    this.#partedSockets.set(this.sockets, life);
    this.sockets = this.#makeSockets();
    const { time, random } = this.#host.site;
    time.after(random.skewed(PARTED_MS.least, PARTED_MS.most), () => {
      if (!life.isOver) life.crash("parted");
    });
    this.#planAlarm();
  }

  /**
   * Its database vanishes, as where a volume is not mounted, and its lives find an empty one.
   *
   * @returns puts the database back, as it was
   */
  loseData(): () => void {
    const { disk } = this;
    this.#replaceDisk("its data is lost", disk.emptyTwin());
    return () => {
      const empty = this.disk;
      this.#replaceDisk("its data is back", disk);
      empty.close();
    };
  }

  #replaceDisk(why: string, disk: Disk): void {
    this.life?.crash(why);
    this.disk.onAlarmChanged = () => {};
    this.disk = disk;
    disk.onAlarmChanged = () => this.#planAlarm();
    this.#planAlarm();
  }

  /** Frees what its disks have of the process. */
  close(): void {
    for (const { disk } of [this, ...this.#parted]) disk.close();
  }

  /** Its life, and copies of it that the network has parted from the rest. */
  get lives(): ObjectLife[] {
    const lives = this.life === null ? this.#parted : [...this.#parted, this.life];
    return lives.filter(({ isOver }) => !isOver);
  }

  get watcher(): Watcher {
    return this.#host.watcher;
  }

  /** Gives an event to the running life, or to a new one. */
  deliver(incoming: Incoming): void {
    (this.life ?? this.#start()).receive(incoming);
  }

  #makeSockets(): HibernatingSockets {
    const host = this.#host;
    const sockets: HibernatingSockets = new HibernatingSockets(
      {
        get clockMs() {
          return host.site.time.nowMs;
        },
        wake: (what, event) => this.#deliverSocketEvent(sockets, what, event),
        onAccepted: (end) => host.watcher.onSocket?.(this, end, this.#partedSockets.has(sockets)),
      },
      makeBlob,
    );
    return sockets;
  }

  /** Its handler keeps the object awake, and harms nothing by failing. */
  #deliverSocketEvent(
    sockets: HibernatingSockets,
    what: string,
    event: (handlers: SocketHandlers, life: ObjectLife) => unknown,
  ): void {
    const life = this.#partedSockets.get(sockets) ?? this.life ?? this.#start();
    life.receive({
      what,
      run: () => life.waitUntil(resultOf(() => event(life.instance as SocketHandlers, life))),
      fail: () => {},
    });
  }

  /** The running life, or a new one. */
  wake(): ObjectLife {
    return this.life ?? this.#start();
  }

  construct(life: ObjectLife): ObjectInstance {
    return this.#host.construct(this, life);
  }

  /** A life has ended by a crash, an abort or a failed commit. */
  lose(life: ObjectLife): void {
    this.#host.watcher.onEnd?.(this, life, true);
    for (const [sockets, owner] of this.#partedSockets) if (owner === life) sockets.loseAll();
    if (this.life !== life) return;
    this.life = null;
    this.sockets.loseAll();
    this.#planAlarm();
  }

  /** A life was put to sleep: what it wrote is durable, and its sockets stay. */
  forget(life: ObjectLife): void {
    this.#host.watcher.onEnd?.(this, life, false);
    if (this.life === life) this.life = null;
  }

  #start(): ObjectLife {
    const { site } = this.#host;
    const isolate = this.#host.isolateFor(this);
    const name = `${this.className} ${this.name} #${++this.livesBegun}`;
    const life = new ObjectLife(site, this, isolate, this.disk, name);
    this.life = life;
    life.start();
    // What the constructor has set off belongs to the new life; the event that woke it comes next.
    return life;
  }

  /** Lets the alarm ring when its time has come by the platform's clock, which is true time. */
  #planAlarm(): void {
    this.#cancelAlarm?.();
    this.#cancelAlarm = null;
    const { alarmMs } = this.disk;
    if (alarmMs === null || this.#isRinging) return;
    const { time, faults } = this.#host.site;
    const atMs = Math.max(alarmMs, this.#retryAtMs, time.nowMs) + faults.alarmLateMs();
    this.#cancelAlarm = time.at(atMs, () => this.#ring());
  }

  /** Rings although it has rung, as a platform does that has lost its answer. @returns whether an alarm is set */
  ringAgain(): boolean {
    if (this.disk.alarmMs === null) return false;
    this.timesRungAgain++;
    this.#ring();
    return true;
  }

  #ring(): void {
    this.#cancelAlarm?.();
    this.#cancelAlarm = null;
    // One that is due while another runs rings after it.
    if (this.#isRinging) return;
    this.#isRinging = true;
    const { disk } = this;
    const retryCount = this.#alarmRetries;
    this.deliver({
      what: "alarm",
      run: (life) => {
        // Somebody has deleted it, or set a later one, while it waited for its turn.
        if (disk.alarmMs === null) return this.#endAlarm();
        disk.beginAlarm();
        this.#host.watcher.onAlarm?.(this);
        const end = life.watch(() => {
          disk.endAlarm(false);
          this.#retryAlarm();
        });
        resultOf(() => life.instance!.alarm?.({ retryCount, isRetry: retryCount > 0 })).then(
          () => {
            if (life.isOver) return;
            disk.endAlarm();
            // An alarm whose commit fails has failed.
            life.whenDurable(() => {
              end();
              this.#alarmRetries = 0;
              this.#endAlarm();
            });
          },
          (error: unknown) => {
            if (life.isOver) return;
            end();
            this.#host.site.trace.note("alarm failed", life.name, String(error));
            this.#host.site.onError(life, `${this.className}.alarm`, error);
            const isSetAnew = disk.shownAlarmMs !== null;
            disk.endAlarm(false);
            if (!isSetAnew) return this.#retryAlarm();
            this.#alarmRetries = 0;
            this.#endAlarm();
          },
        );
      },
      fail: () => this.#retryAlarm(),
    });
  }

  #endAlarm(): void {
    this.#isRinging = false;
    this.#planAlarm();
  }

  /** An alarm that fails rings again after 2 s, 4 s and so on. A reset of the object counts as a failure. */
  #retryAlarm(): void {
    this.#isRinging = false;
    this.#cancelAlarm?.();
    if (this.#alarmRetries >= ALARM_RETRIES_MAX) {
      this.#alarmRetries = 0;
      this.disk.setAlarm(null);
      return;
    }
    const delayMs = ALARM_RETRY_MS * 2 ** this.#alarmRetries++;
    this.#retryAtMs = this.#host.site.time.nowMs + delayMs;
    this.#planAlarm();
  }
}

/** As a promise, also of a method that throws at once. */
export async function resultOf(invoke: () => unknown): Promise<unknown> {
  return await invoke();
}

/** How long a life lasts that the network has parted from the rest: then the platform ends it. */
/** How often the sockets of such a copy stay open. */
const STAY_SHARE = 0.5;
const PARTED_MS = { least: 10, most: 60_000 };
const ALARM_RETRY_MS = 2000;
const ALARM_RETRIES_MAX = 6;
