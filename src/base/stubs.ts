/**
 * Stubs of the objects of a namespace, where the deployment says that they live. Each is typed by the interface in `calls/`,
 * so that no caller needs the class.
 *
 * A stub is cheap, and broken for good once its object was reset: make one for each stretch of work, and keep none.
 */
import type { ChannelCalls, DirectoryCalls } from "./calls/channel.ts";
import type { HubCalls } from "./calls/hub.ts";
import type { ShardCalls } from "./calls/shard.ts";
import { groupName } from "./names.ts";
import { readSettings } from "./settings.ts";

/** @param name see `shardName` */
export function shardStub(env: Env, name: string): DurableObjectStub<ShardCalls> {
  const { LOCATION_HINT } = readSettings(env);
  const options =
    LOCATION_HINT === "" ? {} : { locationHint: LOCATION_HINT as DurableObjectLocationHint };
  return within<ShardCalls>(env, env.SHARD).getByName(name, options);
}

/** @param name see `hubName` */
export function hubStub(env: Env, name: string): DurableObjectStub<HubCalls> {
  return within<HubCalls>(env, env.HUB).getByName(name);
}

/** The Directory of a namespace: the object of the channel `*`. */
export function directoryStub(env: Env, namespace: string): DurableObjectStub<DirectoryCalls> {
  return within<DirectoryCalls>(env, env.DIRECTORY).getByName(namespace);
}

/** @param index see `GroupMap` */
export function groupStub(
  env: Env,
  namespace: string,
  index: number,
): DurableObjectStub<ChannelCalls> {
  return within<ChannelCalls>(env, env.CHANNEL).getByName(groupName.format(namespace, index));
}

/**
 * The objects of a class, within the jurisdiction that the deployment keeps its data in. An object of another one has
 * another identity, so the variable must not change.
 */
function within<T extends Rpc.DurableObjectBranded>(
  env: Env,
  objects: DurableObjectNamespace<T>,
): DurableObjectNamespace<T> {
  const { JURISDICTION } = readSettings(env);
  return JURISDICTION === ""
    ? objects
    : objects.jurisdiction(JURISDICTION as DurableObjectJurisdiction);
}
