/** GET /v1/connections: which connections there are, and what each has asked. */
import { evictAllDurableObjects, reset } from "cloudflare:test";
import { exports } from "cloudflare:workers";
import { afterEach, describe, expect, it, vi } from "vitest";
import { ThrottrClient, webSocket } from "../../src/client/index.ts";
import { PageReader } from "../../src/wire/page.ts";
import { CONNECTION_ROW_BYTES } from "../../src/wire/throttr/connection-row.ts";
import { socketClassOver } from "../support/client/door-socket.ts";
import { hex, U16, WHOAMI } from "../support/frames/index.ts";
import { get, openPort, openSocket, post } from "../support/pool/doors.ts";
import { hubStub } from "../support/pool/hubs.ts";
import { holdSync, shardStub } from "../support/pool/shards.ts";
import { bearerOf } from "../support/pool/tokens.ts";
import {
  calling,
  expectProblem,
  fieldsOf,
  freshNamespace,
  type Calling,
} from "../support/pool/v1-calls.ts";
import { withSettings } from "../support/pool/variables.ts";

const server = exports.default as unknown as Fetcher;
const WebSocket = socketClassOver((url, init) => server.fetch(url, init));
const call = calling({});
const STRATEGY = { strategy: "token_bucket", burst: 100, rate: 1 } as const;

afterEach(async () => {
  await reset();
});

interface Listed {
  readonly id: string;
  readonly transport: string;
  readonly requests: number;
  readonly requestsByType: Record<string, number>;
}

async function listed(by: Calling = call, query = ""): Promise<readonly Listed[]> {
  return (await by("GET", `/v1/connections${query}`)).json.connections as Listed[];
}

describe("a connection", () => {
  it("a client's connection is listed with the number of its calls by name", async () => {
    const client = new ThrottrClient(webSocket("http://localhost", { WebSocket }));
    const beforeMs = Date.now();
    for (let i = 0; i < 30; i++) await client.increment("a", { ttlMs: 60_000 });
    for (let i = 0; i < 20; i++)
      await client.limit({ name: "api", key: "ada", strategy: STRATEGY });
    expect(await listed()).toEqual([
      {
        id: expect.stringMatching(/^[\da-f]{32}$/) as string,
        transport: "websocket",
        ip: "",
        port: 0,
        connectedAtMs: expect.any(Number) as number,
        readBytes: expect.any(Number) as number,
        writeBytes: expect.any(Number) as number,
        publishedBytes: 0,
        receivedBytes: 0,
        requests: 50,
        requestsByType: { increment: 30, limit: 20 },
      },
    ]);
    const [one] = (await call("GET", "/v1/connections")).json.connections as [
      Record<string, number>,
    ];
    expect(one.connectedAtMs).toBeGreaterThanOrEqual(beforeMs);
    expect(one.connectedAtMs).toBeLessThanOrEqual(Date.now());
    expect(one.readBytes).toBeGreaterThan(50 * 7);
    expect(one.writeBytes).toBeGreaterThan(50 * 5);
    await evictAllDurableObjects();
    expect(await listed()).toMatchObject([{ requests: 50 }]);
    await client.close();
  });

  it("a connection is listed by the id of WHOAMI until it ends, whatever carries it", async () => {
    const door = await openSocket("/throttr/7.3/uint16");
    const tcp = await openPort(9002);
    const id = hex((await door.exchange(WHOAMI, 17)).subarray(1));
    const tcpId = hex((await tcp.exchange(WHOAMI, 17)).subarray(1));
    expect(hex(await tcp.exchange(U16.insert("b", 5), 1))).toBe("01");
    const events = await get("/channels/news", { accept: "text/event-stream" });
    const byTransport = new Map((await listed()).map((one) => [one.transport, one]));
    expect(byTransport.get("websocket")).toMatchObject({ id, requestsByType: { whoami: 1 } });
    expect(byTransport.get("tcp")).toMatchObject({
      id: tcpId,
      requests: 2,
      requestsByType: { whoami: 1, insert: 1 },
    });
    expect(byTransport.get("events")).toMatchObject({ requests: 0, requestsByType: {} });
    await events.body!.cancel();
    await tcp.close();
    await expect.poll(async () => await listed()).toMatchObject([{ id }]);
    await door.close();
    await expect.poll(async () => await listed()).toEqual([]);
  });

  it("a connection of another namespace is not listed", async () => {
    const [mine, theirs] = [freshNamespace(), freshNamespace()];
    const door = await openSocket("/throttr/7.3/uint16", await bearerOf({ ns: mine }));
    expect(await listed(calling(await bearerOf({ ns: mine })))).toHaveLength(1);
    expect(await listed(calling(await bearerOf({ ns: theirs })))).toEqual([]);
    await door.close();
  });

  it("a connection is listed without its counts where METRICS is off", async () => {
    await withSettings({ METRICS: "off" }, async () => {
      const door = await openSocket("/throttr/7.3/uint16");
      await door.exchange(WHOAMI, 17);
      expect(await listed()).toMatchObject([{ readBytes: 0, requests: 0, requestsByType: {} }]);
      await door.close();
    });
  });
});

describe("connections", () => {
  it("connections of several Hubs are listed in pages, in the order in which they came, each once", async () => {
    await withSettings({ HUB_CONNECTIONS_MAX: 2 }, async () => {
      const doors = [];
      for (let i = 0; i < 5; i++) {
        doors.push(await openSocket("/throttr/7.3/uint16"));
        await scheduler.wait(2);
      }
      const ids = [];
      for (const door of doors) ids.push(hex((await door.exchange(WHOAMI, 17)).subarray(1)));
      const seen: string[][] = [];
      let cursor: unknown = null;
      do {
        const behind = cursor === null ? "" : `&cursor=${cursor as string}`;
        const { json } = await call("GET", `/v1/connections?limit=2${behind}`);
        seen.push((json.connections as Listed[]).map(({ id }) => id));
        cursor = json.cursor;
      } while (cursor !== null && seen.length < 5);
      expect(seen).toEqual([ids.slice(0, 2), ids.slice(2, 4), ids.slice(4)]);
      for (const limit of [5, 1000]) {
        const { json } = await call("GET", `/v1/connections?limit=${limit}`);
        expect(json).toMatchObject({ connections: ids.map((id) => ({ id })), cursor: null });
      }
      for (const door of doors) await door.close();
    });
  });

  it("connections that the server has closed, and their clients have not, keep a Hub full, also after it has slept", async () => {
    await withSettings({ HUB_CONNECTIONS_MAX: 2 }, async () => {
      const ns = freshNamespace();
      const headers = await bearerOf({ ns });
      const connectionsOf = async (index: number): Promise<number> =>
        (await hubStub(index, ns).figures()).connections;
      const kept = [];
      for (let i = 0; i < 2; i++) {
        const door = await openSocket("/throttr/7.3/uint16", headers, false);
        door.socket.send(Uint8Array.of(0xff));
        expect(await door.closed).toMatchObject({ code: 1002 });
        kept.push(door);
      }
      await evictAllDurableObjects();
      const next = await openSocket("/throttr/7.3/uint16", headers);
      expect([await connectionsOf(0), await connectionsOf(1)]).toEqual([0, 1]);
      for (const door of kept) await door.close();
      await next.close();
    });
  });

  it("a connection whose client has left keeps a Hub full until what it had sent is executed", async () => {
    await withSettings({ HUB_CONNECTIONS_MAX: 1 }, async () => {
      await post("7.3", "uint16", U16.insert("a", 5));
      const releases = await Promise.all([0, 1, 2, 3].map((index) => holdSync(shardStub(index))));
      await post("7.3", "uint16", U16.increase("a"));
      const left = await openSocket("/throttr/7.3/uint16");
      left.socket.send(U16.increase("a"));
      await scheduler.wait(50);
      await left.close();
      // Which Hubs these are depends on the connections that the isolate opened before.
      const connectionsOfHubs = async (): Promise<number[]> => {
        const hubs = [0, 1, 2, 3].map(async (hub) => (await hubStub(hub).figures()).connections);
        return (await Promise.all(hubs)).filter((connections) => connections > 0);
      };
      const next = await openSocket("/throttr/7.3/uint16");
      const whileItIsExecuted = await connectionsOfHubs();
      for (const release of releases) await release();
      await vi.waitFor(async () => expect(await connectionsOfHubs()).toEqual([1]));
      expect(whileItIsExecuted).toEqual([1, 1]);
      await next.close();
    });
  });

  it("a page has 100 connections unless more are asked for, and may have more than a Hub gives at once", async () => {
    await withSettings({ HUB_CONNECTIONS_MAX: 1000 }, async () => {
      // 520 rows of 574 bytes are more than the 256 KiB of one answer of a Hub.
      const doors = await Promise.all(
        Array.from({ length: 520 }, () => openSocket("/throttr/7.3/uint16")),
      );
      const { json } = await call("GET", "/v1/connections");
      expect(json.connections).toHaveLength(100);
      expect(json.cursor).not.toBeNull();
      const all = await listed(call, "?limit=1000");
      expect(all).toHaveLength(520);
      expect(new Set(all.map(({ id }) => id)).size).toBe(520);
      for (const door of doors) await door.close();
    });
  });

  it.each([
    ["limit", "0"],
    ["limit", "1001"],
    ["limit", "ten"],
    ["cursor", "AAAA"],
    ["cursor", "%25"],
    ["prefix", "a"],
  ])("connections are not listed with %s=%s, and the field is named", async (field, value) => {
    const got = await call("GET", `/v1/connections?${field}=${value}`);
    expectProblem(got, "query_invalid");
    expect(Object.keys(fieldsOf(got))).toEqual([field]);
  });

  it("connections are given to a door of release 0.4 in the row of 237 bytes that it knows", async () => {
    const ns = freshNamespace();
    const door = await openSocket("/throttr/7.3/uint16", await bearerOf({ ns }));
    const page = new PageReader(await hubStub(0, ns).connectionsPage(null, 4096));
    expect([page.rowBytes, page.total]).toEqual([CONNECTION_ROW_BYTES, 1]);
    await door.close();
  });
});
