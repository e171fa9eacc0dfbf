/**
 * The groups of channels of a namespace, as the settings of the deployment spread its channels over them.
 *
 * `GroupMap` itself knows no settings, so that unit tests run it without the platform.
 */
import type { Environment } from "../base/environment.ts";
import type { ChannelCalls } from "../base/calls/channel.ts";
import { readSettings } from "../base/settings.ts";
import { groupStub } from "../base/stubs.ts";
import { GroupMap } from "./placement.ts";

/** All that publish, subscribe and store in a namespace must use this map, or they would miss each other. */
export function groupMapOf(env: Environment, namespace: string): GroupMap {
  return new GroupMap(namespace, readSettings(env).SHARD_SECRET);
}

/**
 * A stub of the group that has a channel. Make one for each stretch of work: see `stubs.ts`.
 *
 * @param channel as a binary string
 */
export function groupStubOf(
  env: Environment,
  namespace: string,
  channel: string,
): DurableObjectStub<ChannelCalls> {
  return groupStub(env, namespace, groupMapOf(env, namespace).groupOf(channel));
}
