/** What a stranger can grow over the yrmcds protocol, and what must not wait for it. */
import { evictAllDurableObjects, reset, runInDurableObject } from "cloudflare:test";
import { afterEach, describe, expect, it } from "vitest";
import { Hub } from "../../src/objects/hub/hub.ts";
import {
  acquire,
  dump,
  get,
  headerOf,
  numberOfBody,
  release,
  stats,
} from "../support/frames/yrmcds.ts";
import { openYrmcds, type YrmcdsKind } from "../support/pool/yrmcds-wires.ts";
import { hubStub } from "../support/pool/hubs.ts";
import { withSettings } from "../support/pool/variables.ts";

const WEB: YrmcdsKind = { transport: "websocket", form: "document", location: "XXX" };
const FRAME_BYTES_MAX = 1 << 20;
/** One in each shard, very likely. */
const OTHERS = Array.from({ length: 12 }, (_, i) => `other-${i}`.padEnd(30_000, "x"));
const POLL = { interval: 5, timeout: 3000 };

afterEach(async () => {
  await reset();
});

describe.each([
  ["Dump", dump],
  ["Stats", stats],
])("a peer that sent many requests for %s", (_, request) => {
  it("a connection that ends with many requests gives its resources back at once, without answers", async () => {
    const client = await openYrmcds(WEB);
    const watcher = await openYrmcds(WEB);
    await client.askOne(acquire("jobs", 1, 1));
    client.write(...Array.from({ length: 100_000 }, () => request()));
    client.close();
    const seen = async (): Promise<number> => numberOfBody(await watcher.askOne(get("jobs")));
    await expect.poll(seen, POLL).toBe(0);
    watcher.close();
  });
});

it("connections lost within a frame are counted out once", async () => {
  const clients = [await openYrmcds(WEB), await openYrmcds(WEB)];
  for (const client of clients) await client.askOne(get("jobs"));
  // What is to be stored within a second is stored: then it is changed.
  await scheduler.wait(1300);
  await runInDurableObject(hubStub(), (_: Hub, state: DurableObjectState) => {
    for (const socket of state.getWebSockets()) {
      const attachment = socket.deserializeAttachment() as object;
      socket.serializeAttachment({ ...attachment, unfinished: null });
    }
  });
  await evictAllDurableObjects();
  const { connections, counterConnections } = await runInDurableObject(hubStub(), (hub: Hub) =>
    hub.figures(),
  );
  expect({ connections, counterConnections }).toEqual({ connections: 0, counterConnections: 0 });
});

it("a shard full of semaphores without holders has room again", async () => {
  await withSettings({ SHARD_BYTES_MAX: 1 << 20, SHARDS_MAX: 1 }, async () => {
    const client = await openYrmcds(WEB);
    const names = Array.from({ length: 200 }, (_, i) => String(i).padEnd(60_000, "x"));
    expect((await client.askOne(acquire("held", 2, 9))).status).toBe(0);
    let refused = 0;
    for (const name of names) {
      const [acquired] = await client.ask(acquire(name, 1, 1), release(name, 1));
      if (acquired!.status !== 0) refused++;
    }
    // Each shard refuses some, then gives back what nobody holds, and goes on.
    expect(refused).toBeGreaterThan(0);
    const room = async (): Promise<number> => {
      const replies = await client.ask(...OTHERS.map((name) => acquire(name, 1, 1)));
      await client.ask(...OTHERS.map((name) => release(name, 1)));
      return replies.filter(({ status }) => status !== 0).length;
    };
    await expect.poll(room, { interval: 50, timeout: 3000 }).toBe(0);
    expect(numberOfBody(await client.askOne(get("held")))).toBe(2);
    client.close();
  });
});

it("unfinished frames of all connections have a limit together", async () => {
  await withSettings({ STALL_TIMEOUT_MS: 5000, HUB_CONNECTIONS_MAX: 100 }, async () => {
    const frame = new Uint8Array(FRAME_BYTES_MAX - 100);
    frame.set(headerOf(FRAME_BYTES_MAX - 12));
    const clients: Awaited<ReturnType<typeof openYrmcds>>[] = [];
    for (let i = 0; i < 40; i++) {
      const client = await openYrmcds(WEB);
      client.write(frame);
      clients.push(client);
    }
    const ended = (): number => clients.filter(({ isEnded }) => isEnded).length;
    await expect.poll(ended, POLL).toBeGreaterThanOrEqual(8);
    expect(ended()).toBeLessThan(12);
    // Those who send little are served all the same.
    const other = await openYrmcds(WEB);
    expect((await other.askOne(acquire("jobs", 1, 1))).status).toBe(0);
    other.close();
    for (const client of clients) client.close();
  });
});

it("a frame that comes byte by byte has a limit in time", async () => {
  await withSettings({ STALL_TIMEOUT_MS: 200 }, async () => {
    const client = await openYrmcds(WEB);
    const begin = new Uint8Array(2000);
    begin.set(headerOf(100_000));
    client.write(begin);
    // Each byte is in time; the frame as a whole is not.
    for (let i = 0; i < 40 && !client.isEnded; i++) {
      await scheduler.wait(100);
      if (!client.isEnded) client.write(Uint8Array.of(0));
    }
    expect(client.isEnded).toBe(true);
    client.close();
  });
});
