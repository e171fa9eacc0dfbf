/**
 * One run: a deployment, its clients, and what goes wrong, all from one seed. It lasts some simulated minutes with faults; then
 * the faults cease, every client ends what it has begun, what is left is read, and the checkers judge what was seen.
 */
import { parseSettings, type Settings } from "../../src/base/settings.ts";
import type { MsSpan } from "../support/models/span.ts";
import { AUDIT_MS, Auditor, REST_MS } from "./auditor.ts";
import { callLines } from "./call-lines.ts";
import type { ClockHistory } from "./checks/clocks.ts";
import { checkGoodbyes, isTaken, type Goodbye } from "./checks/goodbyes.ts";
import { Moments, type Violation } from "./checks/history.ts";
import { hasLostRelaxed } from "./checks/relaxed-calls.ts";
import { Random } from "./kernel/random.ts";
import { Trace } from "./kernel/trace.ts";
import { VirtualTime } from "./kernel/virtual-time.ts";
import { Cluster } from "./platform/cluster.ts";
import type { Program } from "./platform/program.ts";
import type { Release } from "./platform/realm.ts";
import { Door } from "./platform/door.ts";
import type { Faults } from "./platform/faults.ts";
import { LifeOver } from "./platform/life.ts";
import { RunningLife } from "./platform/running-life.ts";
import { Machine } from "./platform/site.ts";
import { CallTimes } from "./call-times.ts";
import { Failures } from "./failures.ts";
import { Witness } from "./witness.ts";
import { sizesOf, type Sizes } from "./platform/sizes.ts";
import * as production from "../../src/engine/sizes.ts";

/** What clients do, and what must hold for what they see. */
export interface Workload {
  readonly name: string;
  /** Starts its clients, with `World.start`. They begin nothing new once `world.isClosing`. */
  start(world: World): void;
  /** Reads what is left, when no fault happens any more and all clients have ended. */
  finish?(world: World, life: RunningLife): Promise<void>;
  check(world: World): readonly Violation[];
}

export interface WorldOptions {
  readonly seed: number;
  /** What it begins with. */
  readonly release: Release;
  /** The package that clients import. */
  readonly callers: Program;
  /** Whether the run begins with today's code, and so has no other release until it ends. */
  readonly isToday: boolean;
  /** Whether nothing goes wrong. */
  readonly isCalm: boolean;
  /** Whether databases of shards vanish for a while. */
  readonly hasLosses: boolean;
  /** Deployments have another secret by mistake. */
  readonly hasMistakes: boolean;
  readonly faults: (random: Random) => Faults;
  readonly variables: Readonly<Record<string, string>>;
  readonly machines: number;
  readonly doors: number;
  /** Whose clients use the deployment. */
  readonly namespaces: readonly string[];
  readonly workloads: readonly Workload[];
  /** How long clients work, in ms of virtual time. */
  readonly durationMs: number;
  /** Gets each line of the trace; null to keep only its hash. */
  readonly onTrace?: ((line: string) => void) | null;
}

/** Most runs have 20,000 events, and those of the busiest some 300,000. */
const EVENTS_MAX = 3_000_000;
/** The time that clients have to end what they have begun, after the last fault. */
const CLOSING_MS = 15 * 60_000;

/** Events go on and on: something repeats itself without a pause. */
export class EndlessRun extends Error {
  override readonly name = "EndlessRun";

  /** @param last whose event was the last one */
  constructor(last: string) {
    super(`has not ended after ${EVENTS_MAX} events, the last one of ${last}`);
  }
}

export class World {
  readonly time: VirtualTime;
  readonly trace: Trace;
  readonly random: Random;
  readonly cluster: Cluster;
  readonly doors: Door[] = [];
  readonly moments: Moments;
  /** Sizes of the server in this run. */
  readonly sizes: Sizes;
  readonly settings: Settings;
  /** The lowest and the highest number that each setting has had in a deployment. */
  readonly settingsLeast: Settings;
  readonly settingsMost: Settings;
  /** What befell objects and connections, for checkers. */
  readonly witness: Witness;
  /** What went wrong without a fault that explains it. */
  readonly failures: Failures;
  /** How long calls take. */
  readonly times: CallTimes;
  readonly violations: Violation[] = [];
  /** Keys on which too many calls overlap to be judged. */
  readonly undecided: string[] = [];
  /** Clients that may be suspended: those that have the package, which must notice. */
  readonly suspendable = new Set<RunningLife>();
  /** Clients end what they have begun, and begin nothing new. */
  isClosing = false;
  /** Requests that clients have made. */
  operations = 0;
  readonly #options: WorldOptions;
  readonly #auditor: Auditor;
  /** Clients have true time. */
  readonly #clients: Machine;
  readonly #open = new Map<string, number>();
  #connections = 0;
  readonly #goodbyes: Goodbye[] = [];
  readonly #taken = new Set<number>();

  constructor(options: WorldOptions) {
    this.#options = options;
    this.random = new Random(options.seed);
    this.time = new VirtualTime(() => this.#endEvent());
    this.trace = new Trace(this.time, options.onTrace ?? null);
    this.moments = new Moments(
      () => this.time.nowMs,
      this.trace.isKept ? callLines(this.trace) : null,
    );
    const sizes = sizesOf(this.random.fork("sizes"));
    this.sizes = { ...production, ...sizes };
    this.settings = parseSettings(options.variables);
    this.settingsLeast = { ...this.settings };
    this.settingsMost = { ...this.settings };
    this.#clients = new Machine(this.time, "clients");
    this.failures = new Failures({
      hasFaults: !options.isCalm,
      hasLosses: options.hasLosses,
      hasMistakes: options.hasMistakes,
      hasReleases: !options.isToday,
      hasSplits: Number(options.variables["SHARDS_MAX"]) > 1,
      hasTokens: options.workloads.some(({ name }) => name === "tokens"),
      pendingBytesMax: this.sizes.HUB_PENDING_BYTES_MAX,
      variables: options.variables,
    });
    this.times = new CallTimes(() => this.time.nowMs, { hasFaults: !options.isCalm });
    this.witness = new Witness(this.moments, this.failures);
    this.cluster = new Cluster({
      time: this.time,
      trace: this.trace,
      random: this.random.fork("cluster"),
      faults: options.faults(this.random.fork("faults")),
      release: options.release,
      variables: options.variables,
      machines: options.machines,
      sizes,
      watcher: this.witness,
    });
    this.#auditor = new Auditor({
      cluster: this.cluster,
      doors: this.doors,
      moments: this.moments,
      times: this.times,
      clocks: this.clocks,
      sizes: this.sizes,
      namespaces: options.namespaces,
      settings: this.settingsMost,
      isToday: options.isToday,
    });
    for (let i = 0; i < options.doors; i++) this.openDoor();
  }

  /** A deployment sets variables, beside those that the run began with. */
  noteVariables(variables: Readonly<Record<string, string>>): void {
    const settings = parseSettings({ ...this.#options.variables, ...variables });
    const [least, most] = [this.settingsLeast, this.settingsMost].map(
      (bounds) => bounds as unknown as Record<string, number>,
    );
    for (const [name, value] of Object.entries(settings)) {
      if (typeof value !== "number") continue;
      least![name] = Math.min(least![name]!, value);
      most![name] = Math.max(most![name]!, value);
    }
  }

  /** What the clocks of objects have shown. */
  get clocks(): ClockHistory {
    return this.witness.facts.clocks;
  }

  /** How long answers are kept under idempotency keys, at least and at most. */
  get answersKept(): MsSpan {
    const [least, most] = [this.settingsLeast, this.settingsMost];
    return { fromMs: least.IDEMPOTENCY_TTL_MS, toMs: most.IDEMPOTENCY_TTL_MS };
  }

  /** Whether an object may have lost what it did for a relaxed call, executed between two moments of true time. */
  hasLostRelaxed(object: string, executed: MsSpan): boolean {
    const { commitMsMost } = this.cluster.site.faults;
    return hasLostRelaxed(this.witness.facts, object, executed, commitMsMost);
  }

  /** An isolate of the Worker more. */
  openDoor(): Door {
    const { cluster } = this;
    const isolate = cluster.newIsolate(cluster.site.random.pick(cluster.machines));
    const door = new Door(cluster, isolate);
    this.doors.push(door);
    return door;
  }

  /** A door that is open now, whichever the network leads a client to. */
  door(random: Random): Door {
    const open = this.doors.filter(({ isolate }) => !isolate.isOver);
    return open.length > 0 ? random.pick(open) : this.openDoor();
  }

  /** Sets the clock of a machine, for all that live on it. */
  setClock(machine: Machine, offsetMs: number): void {
    machine.offsetMs = offsetMs;
    for (const object of this.cluster.objects) {
      if (object.life?.machine === machine) this.witness.noteClock(object, this.time.nowMs);
    }
  }

  /** The package that clients import. */
  get callers(): Program {
    return this.#options.callers;
  }

  /** Whose clients use the deployment. */
  get namespaces(): readonly string[] {
    return this.#options.namespaces;
  }

  /** Whether the run begins with today's code. */
  get isToday(): boolean {
    return this.#options.isToday;
  }

  /** Whether nothing goes wrong: objects are put to sleep all the same. */
  get isCalm(): boolean {
    return this.#options.isCalm;
  }

  /** Notes how a connection has ended that its client had ended. */
  noteGoodbye(goodbye: Goodbye): void {
    if (!this.isCalm) return;
    this.#goodbyes.push(goodbye);
    if (isTaken(goodbye)) this.#taken.add(goodbye.connection);
  }

  /** Whether the server has certainly taken all that came over a connection before its client closed it, and executes its writes. */
  hasTaken(connection: number): boolean {
    return this.#taken.has(connection);
  }

  /** How long clients work, in ms of virtual time. */
  get durationMs(): number {
    return this.#options.durationMs;
  }

  /** A number that no other connection or body of this run has. */
  newConnection(): number {
    return ++this.#connections;
  }

  /**
   * Starts a client: a life that no fault ends. The run waits for it.
   *
   * @param work what it does; it waits by `life.settled`
   */
  start(name: string, work: (life: RunningLife) => Promise<void>): void {
    const life = new RunningLife(this.cluster.site, this.#clients, "client", name);
    this.#open.set(name, (this.#open.get(name) ?? 0) + 1);
    life.later(0, "begin", () => {
      work(life).then(
        () => this.#end(name),
        (error: unknown) => this.#fail(name, error),
      );
    });
  }

  /** Plays the run to its end. Call it outside of reactions of promises. @returns what contradicts a promise */
  play(): readonly Violation[] {
    const { time } = this;
    const { durationMs, workloads } = this.#options;
    for (const workload of workloads) workload.start(this);
    this.#runUntil(time.nowMs + durationMs);
    this.isClosing = true;
    this.cluster.site.faults.cease();
    this.#untilEnded();
    for (const workload of workloads) {
      this.start(`finish of ${workload.name}`, async (life) => await workload.finish?.(this, life));
    }
    this.#untilEnded();
    time.runUntil(time.nowMs + REST_MS, () => this.#auditor.isAtRest());
    this.witness.addConnections();
    this.witness.addSplits(this.cluster.objects, this.settings.SHARDS);
    if (this.violations.length === 0) {
      this.violations.push(...this.#auditor.check(), ...checkGoodbyes(this.#goodbyes));
      for (const workload of workloads) this.violations.push(...workload.check(this));
      this.violations.push(...this.witness.alarms.violations(), ...this.witness.falseAlarms);
      this.times.judgeOpen();
      this.violations.push(...this.failures.violations, ...this.times.violations);
    }
    return this.violations;
  }

  /** Frees what the run has of the process. */
  close(): void {
    for (const object of this.cluster.objects) object.close();
  }

  /** Lets everything happen up to a moment, and looks at the run now and then. */
  #runUntil(endMs: number, isDone: () => boolean = () => false): void {
    const { time } = this;
    while (time.nowMs < endMs && !isDone()) {
      time.runUntil(Math.min(endMs, time.nowMs + AUDIT_MS), isDone);
      this.#auditor.look();
    }
  }

  #untilEnded(): void {
    this.#runUntil(this.time.nowMs + CLOSING_MS, () => this.#open.size === 0);
    for (const name of this.#open.keys()) {
      this.#violate(
        "Progress",
        name,
        `has not ended ${CLOSING_MS / 60_000} minutes after the last fault`,
      );
    }
    this.#open.clear();
  }

  #end(name: string): void {
    const left = this.#open.get(name)! - 1;
    if (left === 0) this.#open.delete(name);
    else this.#open.set(name, left);
  }

  #fail(name: string, error: unknown): void {
    this.#violate(
      "Clients",
      name,
      `failed: ${error instanceof Error ? error.stack : String(error)}`,
    );
    this.#end(name);
  }

  #violate(promise: string, subject: string, message: string): void {
    this.trace.note("violation", subject, promise, message);
    this.violations.push({ promise, subject, message });
  }

  /** A promise was rejected, and no code handles that. */
  noteUnhandled(error: unknown): void {
    const life = this.cluster.site.running;
    if (error instanceof LifeOver || life?.isOver === true) return;
    const text = error instanceof Error ? (error.stack ?? error.message) : String(error);
    this.#violate("Unhandled rejections", life?.name ?? "no object", text);
  }

  #endEvent(): void {
    const { site } = this.cluster;
    const { running } = site;
    running?.endTurn();
    site.running = null;
    if (this.time.tick >= EVENTS_MAX) throw new EndlessRun(running?.name ?? "no life");
  }
}
