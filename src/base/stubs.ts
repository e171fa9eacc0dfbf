/**
 * Stubs of the objects of a namespace, where the deployment says that they live. Each is typed by the interface in `calls/`,
 * so that no caller needs the class.
 *
 * A class is found by its binding, or else among the exports of the Worker: from compatibility date 2025-11-17 on, the
 * platform gives each exported class there, and needs no binding.
 *
 * A stub is cheap, and broken for good once its object was reset: make one for each stretch of work, and keep none.
 */
import type { ThrottrError } from "../wire/edge/error.ts";
import { deployment, variableOf, type Deployment } from "./deployment.ts";
import { classesMissing, exportedClass, nameOf } from "./exports.ts";
import type { Environment } from "./environment.ts";
import type { ChannelCalls, DirectoryCalls } from "./calls/channel.ts";
import type { HubCalls } from "./calls/hub.ts";
import type { ShardCalls } from "./calls/shard.ts";
import { groupName } from "./names.ts";
import { readSettings } from "./settings.ts";

/** The classes of the objects, each with the name of its binding. */
const BINDINGS = {
  Shard: "SHARD",
  Hub: "HUB",
  Channel: "CHANNEL",
  Directory: "DIRECTORY",
} as const;
type ObjectClass = keyof typeof BINDINGS;

/**
 * @param name see `shardName`
 * @throws ThrottrError `class_missing`, as all functions of this file
 */
export function shardStub(env: Environment, name: string): DurableObjectStub<ShardCalls> {
  const { LOCATION_HINT } = readSettings(env);
  const options =
    LOCATION_HINT === "" ? {} : { locationHint: LOCATION_HINT as DurableObjectLocationHint };
  return objectsOf<ShardCalls>(env, "Shard").getByName(name, options);
}

/** @param name see `hubName` */
export function hubStub(env: Environment, name: string): DurableObjectStub<HubCalls> {
  return objectsOf<HubCalls>(env, "Hub").getByName(name);
}

/** The Directory of a namespace: the object of the channel `*`. */
export function directoryStub(
  env: Environment,
  namespace: string,
): DurableObjectStub<DirectoryCalls> {
  return objectsOf<DirectoryCalls>(env, "Directory").getByName(namespace);
}

/**
 * Whether the Worker has a Directory. One with counters and limits alone needs none, and what others would be told of
 * there, such as figures, is then told to no one.
 */
export const hasDirectory = (env: Environment): boolean =>
  foundObjects(env, "Directory") !== undefined;

/** @param index see `GroupMap` */
export function groupStub(
  env: Environment,
  namespace: string,
  index: number,
): DurableObjectStub<ChannelCalls> {
  return objectsOf<ChannelCalls>(env, "Channel").getByName(groupName.format(namespace, index));
}

/** Objects of any class. The caller of `objectsOf` knows which. */
type Objects = DurableObjectNamespace<Rpc.DurableObjectBranded>;

/** The objects of an environment that were found, as long as a deployment says the same. */
interface Found {
  readonly of: Deployment;
  readonly objects: Partial<Record<ObjectClass, Objects>>;
}

/**
 * By environment. Each call of a limit finds its shard, and the platform's environment and exports are proxies: they took
 * a fortieth of such a call. Unlike a stub, a namespace of objects belongs to no request.
 */
const found = new WeakMap<Environment, Found>();

/**
 * The objects of a class, within the jurisdiction that the deployment keeps its data in. An object of another one has
 * another identity, so the variable must not change.
 */
function objectsOf<T extends Rpc.DurableObjectBranded>(
  env: Environment,
  name: ObjectClass,
): DurableObjectNamespace<T> {
  let known = found.get(env);
  if (known === undefined || known.of !== deployment()) {
    known = { of: deployment(), objects: {} };
    found.set(env, known);
  }
  return (known.objects[name] ??= findObjects(env, name)) as DurableObjectNamespace<T>;
}

/** @throws ThrottrError `class_missing` */
function findObjects(env: Environment, name: ObjectClass): Objects {
  const objects = foundObjects(env, name);
  if (objects === undefined) throw objectsMissing(env);
  const { JURISDICTION } = readSettings(env);
  return JURISDICTION === "" ? objects : objects.jurisdiction(JURISDICTION);
}

function foundObjects(env: Environment, name: ObjectClass): Objects | undefined {
  const bound = variableOf(env, BINDINGS[name]) as Objects | undefined;
  return bound ?? exportedObjects(name);
}

/** A class that is exported, but has no storage by the configuration, is no namespace of objects. */
function exportedObjects(name: ObjectClass): Objects | undefined {
  const exported = exportedClass(name) as Partial<Objects> | undefined;
  return typeof exported?.getByName === "function" ? (exported as Objects) : undefined;
}

/** Names all that are missing, so that one change of the Worker adds them. */
function objectsMissing(env: Environment): ThrottrError {
  const names = (Object.keys(BINDINGS) as ObjectClass[]).filter(
    (name) => foundObjects(env, name) === undefined,
  );
  const lines = names.map(
    (name) => `"${nameOf(name)}": { "type": "durable-object", "storage": "sqlite" }`,
  );
  return classesMissing(
    names,
    `, and "exports" of its wrangler.jsonc ${lines.length === 1 ? "the line" : "the lines"} ` +
      `${lines.join(", ")}; or run npx throttr-edge init`,
  );
}
