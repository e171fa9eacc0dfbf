/** Changes of keys as messages of a channel: `update:KEY` and `remove:KEY`. */
import type { Subscription } from "../../client/channels/subscription.ts";

/** The kind of a change, in the words of unstorage. */
export type WatchEvent = "update" | "remove";
export type WatchCallback = (event: WatchEvent, key: string) => unknown;

export function writeChange(event: WatchEvent, key: string): string {
  return `${event}:${key}`;
}

/** Null for a message of another kind: channels have no owner. */
function readChange(text: string): { event: WatchEvent; key: string } | null {
  const [, event, key] = /^(update|remove):(.*)$/s.exec(text) ?? [];
  return event === undefined ? null : { event: event as WatchEvent, key: key! };
}

/**
 * Calls back for each change from now on. It ends with the function that is returned, and with the client.
 *
 * @param onError is called when it ends for another reason
 * @throws ThrottrError as `ready` of a subscription
 */
export async function watchChanges(
  changes: Subscription,
  callback: WatchCallback,
  onError: (error: unknown) => void,
): Promise<() => Promise<void>> {
  await changes.ready;
  callBack(changes, callback).catch(onError);
  return async () => {
    await changes.return();
  };
}

async function callBack(changes: Subscription, callback: WatchCallback): Promise<void> {
  for await (const message of changes) {
    const change = readChange(message.text());
    if (change !== null) await callback(change.event, change.key);
  }
}
