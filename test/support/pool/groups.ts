/** Groups of channels, as tests reach them: without a deployment's secret. */
import { env } from "cloudflare:test";
import type { Channel } from "../../../src/objects/channel/channel.ts";
import { groupName } from "../../../src/base/names.ts";
import { GroupMap } from "../../../src/dispatch/placement.ts";

/** The object that has a channel. */
export function groupOf(namespace: string, channel: string): DurableObjectStub<Channel> {
  const index = new GroupMap(namespace, "").groupOf(channel);
  return env.CHANNEL.getByName(groupName.format(namespace, index));
}
