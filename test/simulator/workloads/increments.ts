/** Clients add to shared counters: in the end each has what was acknowledged, and nothing that was not sent. */
import * as operations from "../../../src/wire/edge/operations.ts";
import type { Plan } from "../campaign/plan.ts";
import type { Violation } from "../checks/history.ts";
import type { RunningLife } from "../platform/running-life.ts";
import type { Workload, World } from "../world.ts";
import { bindingPort, httpPort } from "./ports.ts";
import { gatewayPort, tcpPort, webSocketPort } from "./socket-port.ts";

const KEYS = 7;
const TTL = { ttlMs: 24 * 3_600_000 };
/** Between two requests of a client, in ms. */
const PAUSE_MS = { least: 1, most: 5000 };

interface Tally {
  acknowledged: number;
  unknown: number;
  read: number | null;
}

export class Increments implements Workload {
  readonly name = "increments";
  readonly #plan: Plan;
  readonly #tallies = Array.from({ length: KEYS }, (): Tally => ({
    acknowledged: 0,
    unknown: 0,
    read: null,
  }));

  constructor(plan: Plan) {
    this.#plan = plan;
  }

  start(world: World): void {
    const { clients } = this.#plan;
    for (let i = 0; i < clients; i++) {
      world.start(`increments ${i}`, async (life) => await this.#work(world, life));
    }
  }

  async #work(world: World, life: RunningLife): Promise<void> {
    const random = world.random.fork(life.name);
    const open = random.pick([httpPort, bindingPort, webSocketPort, tcpPort, gatewayPort]);
    const port = open(world, life, random);
    const each = this.#plan.operations / this.#plan.clients;
    for (let i = 0; i < each && !world.isClosing; i++) {
      await life.settled(random.skewed(PAUSE_MS.least, PAUSE_MS.most), "pause", () => {});
      const key = random.int(KEYS);
      world.operations++;
      world.trace.say(life.name, () => `increments ${nameOf(key)} over ${port.door}`);
      const [answer] = await port.exchange([operations.increment(nameOf(key), TTL)]);
      world.trace.say(life.name, () => `gets ${answer!.kind} for ${nameOf(key)}`);
      if (answer!.kind === "reply") this.#tallies[key]!.acknowledged++;
      else if (answer!.kind === "unknown") this.#tallies[key]!.unknown++;
    }
  }

  async finish(world: World, life: RunningLife): Promise<void> {
    const port = httpPort(world, life, world.random.fork("finish"));
    for (const [key, tally] of this.#tallies.entries()) {
      const operation = operations.query(nameOf(key));
      const [answer] = await port.exchange([operation]);
      if (answer?.kind !== "reply") throw new Error(`the last read failed: ${answer?.kind}`);
      tally.read = Number(operation.read(answer.reply)?.quota ?? 0n);
    }
  }

  check(): Violation[] {
    return this.#tallies.flatMap(({ acknowledged, unknown, read }, key) => {
      if (read! >= acknowledged && read! <= acknowledged + unknown) return [];
      const message = `${read} was read after ${acknowledged} acknowledged and ${unknown} unknown increments`;
      return [{ promise: "Durable before the reply", subject: nameOf(key), message }];
    });
  }
}

const nameOf = (key: number): string => `increments:${key}`;
