/** Stubs of the objects of a namespace, where the deployment says that they live. */
import type { Channel } from "../objects/channel/channel.ts";
import type { Directory } from "../objects/channel/directory.ts";
import type { Hub } from "../objects/hub/hub.ts";
import { groupName } from "./names.ts";
import { readSettings } from "./settings.ts";
import type { Shard } from "../objects/shard/shard.ts";

/** @param name see `shardName` */
export function shardStub(env: Env, name: string): DurableObjectStub<Shard> {
  const { LOCATION_HINT } = readSettings(env);
  const options =
    LOCATION_HINT === "" ? {} : { locationHint: LOCATION_HINT as DurableObjectLocationHint };
  return within(env, env.SHARD).getByName(name, options);
}

/** @param name see `hubName` */
export function hubStub(env: Env, name: string): DurableObjectStub<Hub> {
  return within(env, env.HUB as DurableObjectNamespace<Hub>).getByName(name);
}

export function directoryStub(env: Env, namespace: string): DurableObjectStub<Directory> {
  return within(env, env.DIRECTORY).getByName(namespace);
}

/** @param index see `GroupMap` */
export function groupStub(env: Env, namespace: string, index: number): DurableObjectStub<Channel> {
  return within(env, env.CHANNEL).getByName(groupName.format(namespace, index));
}

function within<T extends Rpc.DurableObjectBranded>(
  env: Env,
  objects: DurableObjectNamespace<T>,
): DurableObjectNamespace<T> {
  const { JURISDICTION } = readSettings(env);
  return JURISDICTION === ""
    ? objects
    : objects.jurisdiction(JURISDICTION as DurableObjectJurisdiction);
}
