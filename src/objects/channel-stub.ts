/** The object of a channel: its own, or the Directory for the channel that everybody hears. */
import type { Channel } from "./channel.ts";
import { channelName, EVERYBODY } from "./names.ts";

export function channelStub(
  env: Env,
  namespace: string,
  channel: string,
): DurableObjectStub<Channel> {
  return channel === EVERYBODY
    ? env.DIRECTORY.getByName(namespace)
    : env.CHANNEL.getByName(channelName.format(namespace, channel));
}
