/** A deployment of the simulated platform: what befalls its objects with the machines that they live on. */
import { describe, expect, it } from "vitest";
import { inMacrotask } from "../../simulator/kernel/drain.ts";
import { Random } from "../../simulator/kernel/random.ts";
import { Trace } from "../../simulator/kernel/trace.ts";
import { VirtualTime } from "../../simulator/kernel/virtual-time.ts";
import { Cluster } from "../../simulator/platform/cluster.ts";
import { calm, type Faults } from "../../simulator/platform/faults.ts";
import type { SimulatedObject } from "../../simulator/platform/object.ts";
import { bundleOf } from "../../simulator/platform/realm.ts";

const THING = `
  var { DurableObject } = require("cloudflare:workers");
  var Thing = class extends DurableObject {
    open() {
      const { 0: client, 1: server } = new WebSocketPair();
      this.ctx.acceptWebSocket(server);
      client.accept();
      this.client = client;
    }
    write() {
      this.ctx.storage.kv.put("key", "value");
    }
    takeTurns(count) {
      this.turns = [];
      for (let i = 0; i < count; i++) setTimeout(() => this.turns.push([i, Date.now()]), 0);
    }
    get sockets() {
      return this.ctx.getWebSockets();
    }
  };
  module.exports = { Thing };`;

/** What the tests ask of it. */
interface Thing {
  open(): void;
  write(): void;
  takeTurns(count: number): void;
  readonly turns: readonly (readonly [number, number])[];
  readonly sockets: readonly object[];
}

function makeCluster(
  machines: number,
  faults: Partial<Faults> = {},
): {
  cluster: Cluster;
  wake: (object: SimulatedObject) => void;
} {
  const time = new VirtualTime(() => {
    cluster.site.running?.endTurn();
    cluster.site.running = null;
  });
  const random = new Random(1);
  const cluster: Cluster = new Cluster({
    time,
    trace: new Trace(time),
    random,
    faults: { ...calm(random.fork("calm")), ...faults },
    release: { name: "things", program: bundleOf("things", THING) },
    bindings: { THING: "Thing" },
    variables: {},
    machines,
  });
  const wake = (object: SimulatedObject): void => {
    time.after(0, () => object.wake());
    time.step();
  };
  return { cluster, wake };
}

describe("the end of a machine", () => {
  it("ends the life of an object on it, and a copy of it that a partition has left there", async () => {
    await inMacrotask(() => {
      const { cluster, wake } = makeCluster(1);
      const [machine] = cluster.machines;
      const object = cluster.object("Thing", "1");
      wake(object);
      object.partition();
      wake(object);
      const lives = object.lives;
      expect(lives).toHaveLength(2);
      cluster.endMachine(machine!);
      expect(lives.map(({ isOver }) => isOver)).toEqual([true, true]);
      expect(object.lives).toEqual([]);
      object.close();
    });
  });

  it("leaves lives on other machines alone", async () => {
    await inMacrotask(() => {
      const { cluster, wake } = makeCluster(2);
      const object = cluster.object("Thing", "1");
      wake(object);
      const other = cluster.machines.find((each) => each !== object.life!.machine);
      cluster.endMachine(other!);
      expect(object.lives).toHaveLength(1);
      object.close();
    });
  });
});

describe("a copy of an object that the network has parted from the rest", () => {
  it("has the sockets that it accepts for itself, and both copies keep theirs", async () => {
    await inMacrotask(() => {
      const { cluster, wake } = makeCluster(2);
      const object = cluster.object("Thing", "1");
      wake(object);
      object.partition();
      wake(object);
      const [old, present] = object.lives.map((life) => ({
        in: <T>(ask: (thing: Thing) => T): T => {
          let answer: T;
          const { time } = cluster.site;
          time.after(0, () =>
            life.run("asked", () => (answer = ask(life.instance as unknown as Thing))),
          );
          time.step();
          return answer!;
        },
      }));
      present!.in((thing) => thing.open());
      const [before] = present!.in((thing) => thing.sockets);
      old!.in((thing) => thing.open());
      expect(old!.in((thing) => thing.sockets)).toHaveLength(1);
      const sockets = present!.in((thing) => thing.sockets);
      expect(sockets).toHaveLength(1);
      expect(sockets[0]).toBe(before);
      object.close();
    });
  });

  it("ends within a minute", async () => {
    await inMacrotask(() => {
      const { cluster, wake } = makeCluster(2);
      const object = cluster.object("Thing", "1");
      wake(object);
      const [old] = object.lives;
      object.partition();
      wake(object);
      const { time } = cluster.site;
      time.runUntil(time.nowMs + 60_000);
      expect(old!.isOver).toBe(true);
      expect(object.lives).toEqual([object.life]);
      object.close();
    });
  });
});

describe("the turns of an isolate", () => {
  it("come in the order in which they were asked for, each when others have let go of the processor", async () => {
    await inMacrotask(() => {
      const waits = [50, 1, 70];
      const { cluster, wake } = makeCluster(1, { turnMs: () => waits.shift()! });
      const object = cluster.object("Thing", "1");
      wake(object);
      const { time } = cluster.site;
      const life = object.life!;
      const thing = life.instance as unknown as Thing;
      const begunMs = life.clockMs;
      life.later(0, "asked", () => thing.takeTurns(3));
      time.runUntil(time.nowMs + 1000);
      expect(thing.turns.map(([turn, atMs]) => [turn, atMs - begunMs])).toEqual([
        [0, 50],
        [1, 50],
        [2, 70],
      ]);
      object.close();
    });
  });
});

describe("a partition while a commit is under way", () => {
  it("leaves a copy of the object, which ends when its commit has failed", async () => {
    await inMacrotask(() => {
      const steps: string[] = [];
      const { cluster, wake } = makeCluster(2, {
        partsAt: (object, step) => steps.push(`${object} ${step}`) === 1,
      });
      const object = cluster.object("Thing", "1");
      wake(object);
      const { life } = object;
      const { time } = cluster.site;
      time.after(0, () => life!.run("asked", () => (life!.instance as unknown as Thing).write()));
      time.step();
      expect(object.life).toBe(life);
      time.step();
      expect(steps).toEqual(["Thing 1 kv.put"]);
      expect(object.life).toBeNull();
      expect(object.lives).toEqual([life]);
      time.runUntil(time.nowMs + 1000);
      expect(life!.isOver).toBe(true);
      expect(life!.reason?.message).not.toBe("Network connection lost.");
      object.close();
    });
  });
});

describe("the database of an object that has vanished", () => {
  it("is empty for the next lives, and is as it was when it is back", async () => {
    await inMacrotask(() => {
      const { cluster, wake } = makeCluster(1);
      const { time } = cluster.site;
      const object = cluster.object("Thing", "1");
      const write = (): void => {
        wake(object);
        const life = object.life!;
        time.after(0, () => life.run("asked", () => (life.instance as unknown as Thing).write()));
        time.runUntil(time.nowMs + 1000);
      };
      const { disk } = object;
      write();
      const { bytes } = disk.database;
      const { life } = object;
      const putBack = object.loseData();
      expect(life!.isOver).toBe(true);
      expect(object.disk.database.bytes).toBeLessThan(bytes);
      write();
      putBack();
      expect(object.life).toBeNull();
      expect(object.disk).toBe(disk);
      expect(disk.database.bytes).toBe(bytes);
      object.close();
    });
  });
});
