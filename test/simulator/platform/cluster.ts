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
import type { Bundle } from "./realm.ts";
import type { RunningLife } from "./running-life.ts";
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

/** The code of a release, and under which name the trace knows it. */
export interface Release {
  readonly name: string;
  readonly bundle: Bundle;
}

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
  readonly #bindings: Readonly<Record<string, string>>;
  readonly #variables: Readonly<Record<string, string>>;
  readonly #objects = new Map<string, SimulatedObject>();
  /** Those that run; objects of one machine share one. */
  readonly #isolates: Isolate[] = [];
  readonly #sizes: Partial<Sizes>;
  readonly watcher: Watcher;
  readonly #forObjects = new Map<Machine, Isolate>();
  #isolateCount = 0;

  constructor(options: ClusterOptions) {
    const { time, trace, random, faults } = options;
    const network = new Network({ time, random: random.fork("network"), trace });
    this.site = { time, trace, random, faults, network, running: null };
    this.machines = Array.from(
      { length: options.machines },
      (_, index) => new Machine(time, `machine ${index}`),
    );
    this.release = options.release;
    this.#bindings = options.bindings ?? SERVER_BINDINGS;
    this.#variables = options.variables;
    this.#sizes = options.sizes ?? {};
    this.watcher = options.watcher ?? {};
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
      });
      this.#objects.set(key, object);
    }
    return object;
  }

  /** The isolate that a machine runs the code of today in. */
  isolateOn(machine: Machine): Isolate {
    let isolate = this.#forObjects.get(machine);
    if (isolate === undefined || isolate.isOver) {
      isolate = this.newIsolate(machine);
      this.#forObjects.set(machine, isolate);
    }
    return isolate;
  }

  newIsolate(machine: Machine): Isolate {
    const { name, bundle } = this.release;
    const isolate = new Isolate(this.site, machine, {
      name: `isolate ${++this.#isolateCount} (${name})`,
      release: name,
      bundle,
      sizes: this.#sizes,
    });
    this.#isolates.push(isolate);
    return isolate;
  }

  isolateFor(): Isolate {
    return this.isolateOn(this.site.random.pick(this.machines));
  }

  /** A machine loses its power, with all objects and doors on it. */
  endMachine(machine: Machine): void {
    this.#end("the machine has ended", (isolate) => isolate.machine === machine);
  }

  /** A release takes the place of the one before: all objects and doors end, and begin anew with its code. */
  deploy(release: Release): void {
    this.release = release;
    this.#end("deployment", () => true);
  }

  #end(what: string, isMeant: (isolate: Isolate) => boolean): void {
    for (const { life } of this.objects)
      if (life !== null && isMeant(life.isolate)) life.crash(what);
    for (const isolate of this.#isolates.splice(0)) {
      if (isMeant(isolate)) isolate.crash(what);
      else this.#isolates.push(isolate);
    }
  }

  construct(object: SimulatedObject, life: ObjectLife): ObjectInstance {
    const Class = life.isolate.exports[object.className] as new (
      ctx: object,
      env: object,
    ) => ObjectInstance;
    this.watcher.onStart?.(object, life);
    return new Class(this.#contextOf(object, life), this.environmentOf(life));
  }

  /** Variables and bindings, for one life: a stub belongs to who made it. */
  environmentOf(life: RunningLife): object {
    const bindings = Object.entries(this.#bindings).map(([binding, className]) => [
      binding,
      this.#namespaceOf(className, life),
    ]);
    return { ...this.#variables, ...Object.fromEntries(bindings) };
  }

  #namespaceOf(className: string, life: RunningLife): object {
    const namespace = {
      getByName: (name: string) => makeStub(this.site, life, this.object(className, name)),
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
