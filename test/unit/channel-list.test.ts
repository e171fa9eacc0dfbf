/** The channels that the dashboard lists: those with a name, among as many connections' own ones as there are. */
import { describe, expect, it } from "vitest";
import {
  LISTED_MAX,
  listChannels,
  type ChannelList,
  type ListedChannel,
} from "../../src/dashboard/channel-list.ts";

const FIGURES = { publishedBytes: 0, deliveredBytes: 0, subscriptions: 1 };
const named = (name: string): ListedChannel => ({ channel: name, ...FIGURES });
const own = (count: number): ListedChannel[] =>
  Array.from({ length: count }, (_, i) => named(i.toString(16).padStart(32, "0")));

/** Lists channels that a server has in this order; counts the pages that it is asked for. */
async function list(channels: readonly ListedChannel[]): Promise<ChannelList & { pages: number }> {
  let pages = 0;
  const listed = await listChannels(async (path) => {
    pages++;
    const query = new URL(path, "http://localhost").searchParams;
    const limit = Number(query.get("limit"));
    const from = Number(query.get("cursor") ?? 0);
    const to = from + limit;
    const cursor = to < channels.length ? String(to) : null;
    return { channels: channels.slice(from, to), cursor };
  });
  return { ...listed, pages };
}

describe("the list of channels", () => {
  it("channels are listed however many connections have one of their own before them", async () => {
    const listed = await list([named("*"), ...own(2500), named("news")]);
    expect(listed.named.map(({ channel }) => channel)).toEqual(["*", "news"]);
    expect(listed).toMatchObject({ own: 2500, isWhole: true, pages: 3 });
  });

  it("a name that is not text is no connection's ID", async () => {
    const channel = { channelBase64: "/w==", ...FIGURES };
    expect((await list([channel])).named).toEqual([channel]);
  });

  it("no further page is read when the list is full, and the list says that it is not whole", async () => {
    const names = Array.from({ length: 5000 }, (_, i) => named(`n${i}`));
    const listed = await list(names);
    expect(listed.named).toEqual(names.slice(0, LISTED_MAX));
    expect(listed).toMatchObject({ isWhole: false, pages: 1 });
    expect(await list(names.slice(0, LISTED_MAX))).toMatchObject({ isWhole: true });
  });

  it("the pages that are read are bounded", async () => {
    expect(await list([...own(30_000), named("news")])).toMatchObject({
      named: [],
      isWhole: false,
      pages: 20,
    });
  });
});
