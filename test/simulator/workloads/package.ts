/** The package for callers, as a client of a run has it: modules with a state of their own, and the globals of its life. */
import type * as clients from "../../../src/client/index.ts";
import type { Random } from "../kernel/random.ts";
import { globalsOf } from "../platform/globals.ts";
import { exchange } from "../platform/net/exchange.ts";
import { bundle } from "../platform/realm.ts";
import type { RunningLife } from "../platform/running-life.ts";
import type { World } from "../world.ts";
import { callBinding, doorTo } from "./ports.ts";

type Clients = typeof clients;

const clientProgram = await bundle("src/client/index.ts");

export const SERVER = "https://edge.example";

const globalsFor = (
  world: World,
  life: RunningLife,
  random: Random,
): Readonly<Record<string, unknown>> => {
  const { network, trace } = world.cluster.site;
  return globalsOf({
    life: () => life,
    network,
    random: random.fork("globals"),
    kind: "client",
    onLog: (level, { name }, text) => trace.noteLog(`console.${level}`, name, text),
    fetch: async (request) => await exchange(network, life, doorTo(world, random), request),
  });
};

/** `throttr-edge/client` in the life of a client, which loads it once. */
export function clientPackage(world: World, life: RunningLife, random: Random): Clients {
  life.code ??= clientProgram(globalsFor(world, life, random));
  // The rest of the event that has loaded the package already calls it.
  life.code.enter();
  return life.code.exports as unknown as Clients;
}

/** A service binding to the deployment. */
export const bindingOf = (
  world: World,
  life: RunningLife,
  random: Random,
): clients.ThrottrBinding =>
  ({
    exchange: async (message: Uint8Array) => await callBinding(world, life, random, message),
  }) as unknown as clients.ThrottrBinding;
