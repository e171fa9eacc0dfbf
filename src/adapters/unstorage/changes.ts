/**
 * Changes of keys as messages of a channel: `update:BASE:KEY` and `remove:BASE:KEY`. Drivers of several bases may share a
 * channel, so a message says the key with the prefix of its records.
 */
import type { Subscription } from "../../client/channels/subscription.ts";

/** The kind of a change, in the words of unstorage. */
export type WatchEvent = "update" | "remove";
export type WatchCallback = (event: WatchEvent, key: string) => unknown;

export function writeChange(event: WatchEvent, prefix: string, key: string): string {
  return `${event}:${prefix}${key}`;
}

/** Null for a change under another prefix, and for a message of another kind: channels have no owner. */
function readChange(text: string, prefix: string): { event: WatchEvent; key: string } | null {
  const [, event, name] = /^(update|remove):(.*)$/s.exec(text) ?? [];
  if (event === undefined || !name!.startsWith(prefix)) return null;
  return { event: event as WatchEvent, key: name!.slice(prefix.length) };
}

/** What is called of a watch. */
interface Watcher {
  readonly callback: WatchCallback;
  /** Called when the watch ends before it was unwatched. */
  readonly onError: (error: unknown) => void;
}

/** The open watches of a driver. */
export class Watches {
  readonly #prefix: string;
  readonly #open = new Set<Subscription>();

  /** @param prefix of the records whose changes count */
  constructor(prefix: string) {
    this.#prefix = prefix;
  }

  /**
   * Calls back for each change from now on, until the function that is returned, or `endAll`, is called, and until the client
   * is closed.
   *
   * @throws ThrottrError as `ready` of a subscription
   */
  async open(changes: Subscription, watcher: Watcher): Promise<() => Promise<void>> {
    this.#open.add(changes);
    try {
      await changes.ready;
    } catch (error) {
      this.#open.delete(changes);
      throw error;
    }
    this.#read(changes, watcher.callback).catch(watcher.onError);
    return async () => {
      await changes.return();
    };
  }

  async endAll(): Promise<void> {
    await Promise.all(Array.from(this.#open, async (changes) => await changes.return()));
  }

  async #read(changes: Subscription, callback: WatchCallback): Promise<void> {
    try {
      for await (const message of changes) {
        const change = readChange(message.text(), this.#prefix);
        if (change !== null) await callback(change.event, change.key);
      }
    } finally {
      this.#open.delete(changes);
    }
  }
}
