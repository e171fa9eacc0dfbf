/**
 * How the dashboard follows the overview: when it asks again after a stream has ended, or while the page was hidden, and what
 * happens in a second.
 */
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import type { Session } from "../../src/dashboard/session.ts";

const NOTHING = { total: 0, perMinute: 0 };
const OVERVIEW = {
  atMs: 1,
  requests: { ...NOTHING, byName: {} },
  readBytes: NOTHING,
  writeBytes: NOTHING,
  limits: { allowed: NOTHING, refused: NOTHING },
  shards: [],
  hubs: [],
};
const eventOf = (overview: object): Uint8Array =>
  new TextEncoder().encode(`data: ${JSON.stringify(overview)}\n\n`);
const EVENT = eventOf(OVERVIEW);

class Page extends EventTarget {
  hidden = false;

  /** Hides the page, or shows it again. */
  setHidden(isHidden: boolean): void {
    this.hidden = isHidden;
    this.dispatchEvent(new Event("visibilitychange"));
  }
}

describe("the feed of the overview", () => {
  const page = new Page();
  const session = { token: null } as Session;
  let abort: AbortController;
  let ended: Promise<void>;
  let asked: number;
  /** What the server does with a request. */
  let answer: (signal: AbortSignal) => Response;

  /** A stream with one event, which ends with the request, or is lost after a while. */
  function streamFor(signal: AbortSignal, lostAfterMs = Infinity): Response {
    const body = new ReadableStream({
      start(controller) {
        controller.enqueue(EVENT);
        signal.addEventListener("abort", () => controller.error(signal.reason));
        if (lostAfterMs < Infinity)
          setTimeout(() => controller.error(new Error("lost")), lostAfterMs);
      },
    });
    return new Response(body);
  }

  beforeEach(() => {
    vi.useFakeTimers();
    vi.stubGlobal("document", page);
    vi.stubGlobal("location", new URL("http://localhost/dashboard"));
    asked = 0;
    vi.stubGlobal("fetch", async (_url: string, { signal }: { signal: AbortSignal }) => {
      asked++;
      return answer(signal);
    });
    page.hidden = false;
    abort = new AbortController();
    answer = (signal) => streamFor(signal);
  });

  afterEach(async () => {
    abort.abort();
    await ended;
    vi.useRealTimers();
    vi.unstubAllGlobals();
  });

  const follow = async (): Promise<void> => {
    // Its modules read the address of the page when they are loaded.
    const { followOverview } = await import("../../src/dashboard/overview-feed.ts");
    ended = followOverview(session, abort.signal);
    await vi.advanceTimersByTimeAsync(0);
  };

  it("a page that is seen again asks at once, however often it was hidden", async () => {
    await follow();
    expect(asked).toBe(1);
    for (const round of [2, 3, 4, 5, 6]) {
      page.setHidden(true);
      await vi.advanceTimersByTimeAsync(100);
      page.setHidden(false);
      await vi.advanceTimersByTimeAsync(0);
      expect(asked).toBe(round);
    }
  });

  it("each stream that has begun is asked for again within a second after it was lost", async () => {
    answer = (signal) => streamFor(signal, 5000);
    await follow();
    for (const round of [2, 3, 4, 5, 6]) {
      await vi.advanceTimersByTimeAsync(6000);
      expect(asked).toBe(round);
    }
  });

  it.each(["answer", "event"])(
    "a server that sends no further %s is asked again after 16 s, and is not live meanwhile",
    async (what) => {
      const { feedStore } = await import("../../src/dashboard/overview-feed.ts");
      const none = async (_: string, { signal }: { signal: AbortSignal }): Promise<Response> =>
        await new Promise((_, reject) => {
          asked++;
          signal.addEventListener("abort", () => reject(signal.reason as Error));
        });
      if (what === "answer") vi.stubGlobal("fetch", none);
      await follow();
      await vi.advanceTimersByTimeAsync(14_000);
      expect(asked).toBe(1);
      await vi.advanceTimersByTimeAsync(1500);
      expect(feedStore.value).toMatchObject({
        status: "lost",
        error: { code: "connection_failed" },
      });
      await vi.advanceTimersByTimeAsync(500);
      expect(asked).toBe(2);
    },
  );

  it("a server that does not answer is asked after waits that grow", async () => {
    answer = () => {
      throw new TypeError("fetch failed");
    };
    await follow();
    const counts: number[] = [];
    for (let second = 0; second < 30; second++) {
      await vi.advanceTimersByTimeAsync(1000);
      counts.push(asked);
    }
    expect([counts[0], counts[2], counts[6], counts[14], counts[29]]).toEqual([2, 3, 4, 5, 6]);
  });

  /** What the feed says of each second, one event after the other. */
  async function secondsOf(
    events: readonly { total: number; perMinute?: number; shards?: object[]; hubs?: object[] }[],
  ): Promise<{ inAll: number | null; byName: readonly number[] | null }[]> {
    const stream = new TransformStream<Uint8Array, Uint8Array>();
    const writer = stream.writable.getWriter();
    answer = (signal) => {
      signal.addEventListener("abort", () => void writer.abort(signal.reason));
      return new Response(stream.readable);
    };
    await follow();
    const { feedStore } = await import("../../src/dashboard/overview-feed.ts");
    const seconds = [];
    for (const [i, { total, perMinute = 0, shards = [], hubs = [] }] of events.entries()) {
      const rate = { total, perMinute };
      const requests = { ...rate, byName: { query: rate } };
      void writer.write(eventOf({ ...OVERVIEW, atMs: 1000 * i, requests, shards, hubs }));
      await vi.advanceTimersByTimeAsync(0);
      const { rates, samples } = feedStore.value;
      const byName = samples.at(-1)!.values?.slice(0, 1) ?? null;
      seconds.push({ inAll: rates && rates.requests, byName });
    }
    return seconds;
  }

  const shardOf = (isUnreachable: boolean, reportedAtMs: number | null = null): object =>
    isUnreachable
      ? { shard: "0", isUnreachable, code: "timeout" }
      : { shard: "0", isUnreachable, reportedAtMs };

  it.each([
    ["shard", (isUnreachable: boolean) => ({ shards: [shardOf(isUnreachable)] })],
    ["Hub", (isUnreachable: boolean) => ({ hubs: [{ location: "MAD", index: 0, isUnreachable }] })],
  ])(
    "totals of a %s that did not answer for a second are not taken for requests",
    async (_, objects) => {
      const seconds = await secondsOf([
        { total: 1000, ...objects(false) },
        { total: 1010, ...objects(false) },
        { total: 10, ...objects(true) },
        { total: 15, ...objects(true) },
        { total: 1030, ...objects(false) },
        { total: 1040, ...objects(false) },
      ]);
      expect(seconds.map(({ inAll }) => inAll)).toEqual([null, 10, null, 5, null, 10]);
      expect(seconds.map(({ byName }) => byName)).toEqual([null, [10], null, [5], null, [10]]);
    },
  );

  it("requests of shards that report once a minute are those of their last minute, not all in the second of the report", async () => {
    const shards = [shardOf(false, 1)];
    const seconds = await secondsOf([
      { total: 1000, perMinute: 120, shards },
      { total: 1000, perMinute: 120, shards },
      { total: 1180, perMinute: 180, shards },
    ]);
    expect(seconds.map(({ inAll }) => inAll)).toEqual([2, 2, 3]);
    expect(seconds.map(({ byName }) => byName)).toEqual([[2], [2], [3]]);
  });
});
