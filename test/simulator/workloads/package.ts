/** The package for callers, as a client of a run has it: modules with a state of their own, and the globals of its life. */
import type { Random } from "../kernel/random.ts";
import { globalsOf } from "../platform/globals.ts";
import { exchange } from "../platform/net/exchange.ts";
import type { RunningLife } from "../platform/running-life.ts";
import type { World } from "../world.ts";
import type * as entry from "./package-entry.ts";
import { DEFAULT, tokenOf } from "./namespaces.ts";
import { callBinding, doorTo, SERVER } from "./ports.ts";

type Package = typeof entry;
type ThrottrBinding = entry.clients.ThrottrBinding;
type ThrottrClient = entry.clients.ThrottrClient;
type ClientOptions = entry.clients.ClientOptions;
type Transport = entry.clients.Transport;
/** A Worker's isolate has one clock, and work that it must ask the platform to wait for. */
export type Runtime = "worker" | "client";

const globalsFor = (
  world: World,
  life: RunningLife,
  random: Random,
  kind: Runtime,
): Readonly<Record<string, unknown>> => {
  const { network, trace } = world.cluster.site;
  return globalsOf({
    life: () => life,
    network,
    random: random.fork("globals"),
    kind,
    onLog: (level, { name }, text) => trace.noteLog(`console.${level}`, name, text),
    fetch: async (request) => await exchange(network, life, doorTo(world, random), request),
  });
};

/** The package in the life of a client, which loads it once. */
export function packageIn(
  world: World,
  life: RunningLife,
  random: Random,
  runtime: Runtime = "client",
): Package {
  life.code ??= world.callers(globalsFor(world, life, random, runtime));
  world.suspendable.add(life);
  // The rest of the event that has loaded the package already calls it.
  life.code.enter();
  return life.code.exports as unknown as Package;
}

/** A service binding to the deployment. */
const bindingOf = (
  world: World,
  life: RunningLife,
  random: Random,
  namespace: string,
): ThrottrBinding =>
  ({
    exchange: async (message: Uint8Array) =>
      await callBinding(world, life, random, message, namespace),
  }) as unknown as ThrottrBinding;

interface PackageOptions extends ClientOptions {
  readonly runtime?: Runtime;
  readonly namespace?: string;
  /** Sees each message before it is sent. */
  readonly onMessage?: (message: Uint8Array) => void;
}

/** A client of the package, over HTTP or a service binding. */
export function clientOf(
  world: World,
  life: RunningLife,
  random: Random,
  options: PackageOptions = {},
): ThrottrClient {
  const { runtime, namespace = DEFAULT, onMessage, ...rest } = options;
  const token = tokenOf(namespace);
  const {
    ThrottrClient: Client,
    http,
    serviceBinding,
  } = packageIn(world, life, random, runtime).clients;
  const transport = random.chance(0.5)
    ? http(SERVER, token === null ? {} : { token })
    : serviceBinding(bindingOf(world, life, random, namespace));
  return new Client(onMessage === undefined ? transport : watched(transport, onMessage), rest);
}

const watched = (transport: Transport, onMessage: (message: Uint8Array) => void): Transport => ({
  exchange: async (message, signal) => {
    onMessage(message);
    return await transport.exchange!(message, signal);
  },
  connect: (events) => transport.connect(events),
});
