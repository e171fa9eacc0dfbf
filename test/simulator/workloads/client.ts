/** A client of a workload: who it is, how much it does, and how it pauses. */
import { DURATION_MS, type Plan } from "../campaign/plan.ts";
import type { Random } from "../kernel/random.ts";
import type { RunningLife } from "../platform/running-life.ts";
import type { World } from "../world.ts";

export interface Client {
  readonly world: World;
  readonly life: RunningLife;
  readonly random: Random;
  readonly number: number;
  /** Requests to make. */
  readonly most: number;
}

/** Between two requests of a client, in ms. */
const PAUSE_MS = { least: 0.5, most: 20_000 };
/** Clients of a longer run than most pause longer, yet must end when it does. */
const LONGEST_MS = 600_000;

/** The longest pause in a run, where it is `mostMs` in one of ten minutes. */
export const longestPauseMs = (mostMs: number, { durationMs }: Pick<Plan, "durationMs">): number =>
  Math.min(LONGEST_MS, mostMs * Math.max(1, durationMs / DURATION_MS));

export const pause = async ({ world, life, random }: Client): Promise<void> => {
  const ms = random.skewed(PAUSE_MS.least, longestPauseMs(PAUSE_MS.most, world));
  await life.settled(ms, "pause", () => {});
};

/** The same for a client that is there beside those of the workloads: it ends with the run, however short that is. */
export async function pauseBeside(
  world: World,
  life: RunningLife,
  random: Random,
  { least, most }: { readonly least: number; readonly most: number },
): Promise<void> {
  const mostMs = Math.min(longestPauseMs(most, world), world.durationMs);
  await life.settled(random.skewed(least, mostMs), "pause", () => {});
}

/** Starts the clients of a workload, of which each makes its share of the operations of a run. */
export function startClients(
  world: World,
  name: string,
  { clients, operations }: Plan,
  work: (client: Client) => Promise<void>,
): void {
  for (let number = 0; number < clients; number++) {
    world.start(`${name} ${number}`, async (life) => {
      const random = world.random.fork(life.name);
      await work({ world, life, random, number, most: operations / clients });
    });
  }
}
