/**
 * The server as tests run it: the whole Worker with a clock that a test can move ahead (`./clock.ts`). It is a bundle of its
 * own, `dist/test-worker.js`, so nothing of it is in what is deployed.
 *
 * Alarms are set in the machine's time, which the runtime waits for. When the present moves ahead, an alarm that was set
 * before would ring too late. So all objects with an alarm are rung then: one that rings too early finds nothing to do.
 */
import { DurableObject } from "cloudflare:workers";
import type { Environment } from "../base/environment.ts";
import { parseChannelObject } from "../base/names.ts";
import { directoryStub, groupStub, hubStub, shardStub } from "../base/stubs.ts";
import {
  Channel as DeployedChannel,
  Directory as DeployedDirectory,
  Hub as DeployedHub,
  Shard as DeployedShard,
} from "../worker/index.ts";
import { fromMachineMs, moveAhead, toMachineMs } from "./clock.ts";

export { default, Throttr } from "../worker/index.ts";

/** An object of the build for tests. */
interface Rings {
  /** Does what the alarm would do, if one is set. */
  ringNow(): Promise<void>;
}

/** The objects that have started in this isolate: makes the stub of each, by class and name. */
const started = new Map<string, () => Rings>();

export class Shard extends DeployedShard implements Rings {
  constructor(ctx: DurableObjectState, env: Environment) {
    follow(ctx, "Shard", (name) => shardStub(env, name));
    super(ctx, env);
  }

  async ringNow(): Promise<void> {
    if (await hasAlarm(this.ctx)) await this.alarm();
  }
}

export class Hub extends DeployedHub implements Rings {
  constructor(ctx: DurableObjectState, env: Environment) {
    follow(ctx, "Hub", (name) => hubStub(env, name));
    super(ctx, env);
  }

  async ringNow(): Promise<void> {
    if (await hasAlarm(this.ctx)) await this.alarm();
  }
}

export class Channel extends DeployedChannel implements Rings {
  constructor(ctx: DurableObjectState, env: Environment) {
    follow(ctx, "Channel", (name) => {
      const object = parseChannelObject(name);
      // The other kinds are the Directory, and objects of release 0.4.
      if (object.kind !== "group") throw new Error(`${name} is not a group`);
      return groupStub(env, object.namespace, object.index);
    });
    super(ctx, env);
  }

  async ringNow(): Promise<void> {
    if (await hasAlarm(this.ctx)) await this.alarm();
  }
}

export class Directory extends DeployedDirectory implements Rings {
  constructor(ctx: DurableObjectState, env: Environment) {
    follow(ctx, "Directory", (name) => directoryStub(env, name));
    super(ctx, env);
  }

  async ringNow(): Promise<void> {
    if (await hasAlarm(this.ctx)) await this.alarm();
  }
}

/** What a test calls to move the present. One object, which has no data. */
export class TestClock extends DurableObject<Environment> {
  /** Moves the present ahead, and returns when all alarms have rung. */
  async advance(ms: number): Promise<void> {
    moveAhead(ms);
    await Promise.all(Array.from(started.values(), (stub) => stub().ringNow()));
  }
}

/** Sets alarms of an object by the present, and remembers that it may have one. */
function follow({ id, storage }: DurableObjectState, kind: string, stub: (name: string) => object) {
  const name = id.name!;
  started.set(`${kind} ${name}`, () => stub(name) as Rings);
  const setAlarm = storage.setAlarm.bind(storage);
  const getAlarm = storage.getAlarm.bind(storage);
  storage.setAlarm = (atMs, options) => setAlarm(toMachineMs(Number(atMs)), options);
  storage.getAlarm = async (options) => {
    const atMs = await getAlarm(options);
    return atMs === null ? null : fromMachineMs(atMs);
  };
}

async function hasAlarm({ storage }: DurableObjectState): Promise<boolean> {
  return (await storage.getAlarm()) !== null;
}
