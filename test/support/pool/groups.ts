/** Groups of channels, as tests reach them: without a deployment's secret. */
import { env, runInDurableObject } from "cloudflare:test";
import type { Channel } from "../../../src/objects/channel/channel.ts";
import type { Group } from "../../../src/objects/channel/group.ts";
import { groupName } from "../../../src/base/names.ts";
import { GroupMap } from "../../../src/dispatch/placement.ts";

/** The object that has a channel. */
export function groupOf(namespace: string, channel: string): DurableObjectStub<Channel> {
  const index = new GroupMap(namespace, "").groupOf(channel);
  return env.CHANNEL.getByName(groupName.format(namespace, index));
}

/** Makes the group of a channel forget that a Hub has subscribers. */
export async function forgetHub(namespace: string, channel: string, hub: string): Promise<void> {
  await runInDurableObject(groupOf(namespace, channel), (object) => {
    (object as unknown as { group: Group }).group.joins.drop(channel, hub);
  });
}
