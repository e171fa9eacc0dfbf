/**
 * The channels with subscribers that the screen lists: those that have a name.
 *
 * Each connection is subscribed to a channel named like its ID from its beginning, without asking for it. These names come before
 * most others in the order of the server's pages, so a page may have nothing else.
 */
import type { NameFields } from "./names.ts";
import type { Page } from "./server.ts";

export interface ListedChannel extends NameFields<"channel"> {
  readonly publishedBytes: number;
  readonly deliveredBytes: number;
  readonly subscriptions: number;
}

export interface ChannelList {
  readonly named: readonly ListedChannel[];
  /** Connections' own ones that were read, and are not listed. */
  readonly own: number;
  /** There are no further ones. */
  readonly isWhole: boolean;
}

/** Channels that are listed. */
export const LISTED_MAX = 200;
/** Channels that are read to find them, at most. */
const READ_MAX = 20_000;
/** Each page asks all Hubs of the namespace: so it is as long as a page may be. */
const PAGE_CHANNELS = 1000;

const OWN_CHANNEL = /^[\da-f]{32}$/;

const isOwn = ({ channel }: ListedChannel): boolean =>
  channel !== undefined && OWN_CHANNEL.test(channel);

/**
 * Reads pages until it has enough channels, or has read the last page.
 *
 * @param read the page of a path
 */
export async function listChannels(
  read: (path: string) => Promise<Page<"channels", ListedChannel>>,
): Promise<ChannelList> {
  const all: ListedChannel[] = [];
  let named: ListedChannel[] = [];
  let cursor: string | null = null;
  do {
    const query: string = cursor === null ? "" : `&cursor=${cursor}`;
    const page: Page<"channels", ListedChannel> = await read(
      `/v1/channels?limit=${PAGE_CHANNELS}${query}`,
    );
    all.push(...page.channels);
    named = all.filter((channel) => !isOwn(channel));
    cursor = page.cursor;
  } while (cursor !== null && named.length <= LISTED_MAX && all.length < READ_MAX);
  return {
    named: named.slice(0, LISTED_MAX),
    own: all.length - named.length,
    isWhole: cursor === null && named.length <= LISTED_MAX,
  };
}
