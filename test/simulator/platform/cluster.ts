/** A deployment: machines, isolates, objects by class and name, and the Workers at its doors. */
import { Disk } from "./disk/disk.ts";
import type { Faults } from "./faults.ts";
import { Isolate } from "./isolate.ts";
import { Network } from "./net/network.ts";
import {
  ObjectLife,
  SimulatedObject,
  type ObjectHost,
  type ObjectInstance,
  type Watcher,
} from "./object.ts";
import type { Release } from "./realm.ts";
import { Machine, type Site } from "./site.ts";
import type { Sizes } from "./sizes.ts";
import { makeStub } from "./stub.ts";
import type { Random } from "../kernel/random.ts";
import type { Trace } from "../kernel/trace.ts";
import type { VirtualTime } from "../kernel/virtual-time.ts";

/** The bindings of the server, with the class of objects that each of them stands for. */
const SERVER_BINDINGS: Readonly<Record<string, string>> = {
  SHARD: "Shard",
  HUB: "Hub",
  CHANNEL: "Channel",
  DIRECTORY: "Directory",
};

export interface ClusterOptions {
  readonly time: VirtualTime;
  readonly trace: Trace;
  readonly random: Random;
  readonly faults: Faults;
  readonly release: Release;
  /** Bindings, with the class of objects that each of them stands for: those of the server by default. */
  readonly bindings?: Readonly<Record<string, string>>;
  /** Variables of the deployment. */
  readonly variables: Readonly<Record<string, string>>;
  readonly machines: number;
  /** Sizes of the production code that differ from its own, in all isolates alike. */
  readonly sizes?: Partial<Sizes>;
  readonly watcher?: Watcher;
}

export class Cluster implements ObjectHost {
  readonly site: Site;
  readonly machines: readonly Machine[];
  release: Release;
  /** From when on no object and no door runs another release than the present one, in true time. */
  deployedMs = -Infinity;
  readonly #bindings: Readonly<Record<string, string>>;
  readonly #variables: Readonly<Record<string, string>>;
  readonly #objects = new Map<string, SimulatedObject>();
  /** Those that run; objects of one machine share one. */
  #isolates: Isolate[] = [];
  readonly #sizes: Partial<Sizes>;
  readonly watcher: Watcher;
  /** By machine and release. */
  readonly #forObjects = new Map<string, Isolate>();
  #isolateCount = 0;

  constructor(options: ClusterOptions) {
    const { time, trace, random, faults } = options;
    const network = new Network({ time, random: random.fork("network"), trace, faults });
    this.watcher = options.watcher ?? {};
    const onError: Site["onError"] = (life, what, error) =>
      this.watcher.onError?.(life, what, error);
    this.site = { time, trace, random, faults, network, running: null, onError };
    this.machines = Array.from(
      { length: options.machines },
      (_, index) => new Machine(time, `machine ${index}`),
    );
    this.release = options.release;
    this.#bindings = options.bindings ?? SERVER_BINDINGS;
    this.#variables = options.variables;
    this.#sizes = options.sizes ?? {};
  }

  /** All objects that have been asked for so far. */
  get objects(): Iterable<SimulatedObject> {
    return this.#objects.values();
  }

  object(className: string, name: string): SimulatedObject {
    const key = `${className} ${name}`;
    let object = this.#objects.get(key);
    if (object === undefined) {
      const { site } = this;
      object = new SimulatedObject(this, {
        className,
        name,
        disk: new Disk(site, key),
        release: this.release,
      });
      this.#objects.set(key, object);
    }
    return object;
  }

  newIsolate(machine: Machine, { name, program, variables = {} }: Release = this.release): Isolate {
    const isolate = new Isolate(this.site, machine, {
      name: `isolate ${++this.#isolateCount} (${name})`,
      release: name,
      program,
      variables,
      sizes: this.#sizes,
      onLog: (life, text) => this.watcher.onLog?.(life, text, name),
    });
    this.#isolates.push(isolate);
    return isolate;
  }

  isolateFor({ release }: SimulatedObject): Isolate {
    const machine = this.site.random.pick(this.machines);
    const key = `${machine.name} ${release.name} ${JSON.stringify(release.variables)}`;
    let isolate = this.#forObjects.get(key);
    if (isolate === undefined || isolate.isOver) {
      isolate = this.newIsolate(machine, release);
      this.#forObjects.set(key, isolate);
    }
    return isolate;
  }

  /** A machine loses its power, with all objects and doors on it. */
  endMachine(machine: Machine): void {
    const what = "the machine has ended";
    for (const { lives } of this.objects) {
      for (const life of lives) if (life.machine === machine) life.crash(what);
    }
    for (const isolate of this.#isolates) if (isolate.machine === machine) isolate.crash(what);
    this.#isolates = this.#isolates.filter(({ isOver }) => !isOver);
  }

  /**
   * A release takes the place of the one before: each object and each door ends at a moment of its own, and begins anew with the code of
   * the release. Until then old ones meet new ones.
   *
   * @param overMs how long it takes, in ms
   */
  deploy(release: Release, overMs: number): void {
    const { random, time } = this.site;
    if (release.name !== this.release.name) this.deployedMs = time.nowMs + overMs;
    this.release = release;
    for (const object of this.objects) {
      time.after(random.between(0, overMs), () => {
        // Another release may have come meanwhile.
        object.release = this.release;
        for (const life of object.lives) life.crash("deployment");
      });
    }
    const ofObjects = new Set(this.#forObjects.values());
    for (const isolate of this.#isolates.filter((each) => !ofObjects.has(each))) {
      time.after(random.between(0, overMs), () => isolate.crash("deployment"));
    }
  }

  construct(object: SimulatedObject, life: ObjectLife): ObjectInstance {
    const Class = life.isolate.exports[object.className] as new (
      ctx: object,
      env: object,
    ) => ObjectInstance;
    this.watcher.onStart?.(object, life);
    return new Class(this.#contextOf(object, life), this.environment(life.isolate));
  }

  /** Variables and bindings. A stub belongs to the life whose event makes it. */
  environment({ variables }: Isolate): object {
    const bindings = Object.entries(this.#bindings).map(([binding, className]) => [
      binding,
      this.#namespaceOf(className),
    ]);
    return { ...this.#variables, ...variables, ...Object.fromEntries(bindings) };
  }

  #namespaceOf(className: string): object {
    const namespace = {
      getByName: (name: string) =>
        makeStub(this.site, this.site.running!, this.object(className, name)),
      idFromName: (name: string) => ({ name, toString: () => name }),
      get: ({ name }: { name: string }) => namespace.getByName(name),
      jurisdiction: () => namespace,
    };
    return namespace;
  }

  #contextOf(object: SimulatedObject, life: ObjectLife): object {
    return Object.assign(object.sockets.contextOf(life), {
      id: { name: object.name, toString: () => object.name },
      storage: object.disk.open(life),
      waitUntil: (work: Promise<unknown>) => life.waitUntil(work),
      blockConcurrencyWhile: async (callback: () => Promise<unknown>) =>
        await life.blockConcurrencyWhile(callback),
      abort: (reason: unknown) => life.abort(reason),
    });
  }
}
