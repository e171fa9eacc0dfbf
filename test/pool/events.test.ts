/** Channels over HTTP: Server-Sent Events to listen, POST to publish. */
import { evictAllDurableObjects, runInDurableObject, runDurableObjectAlarm } from "cloudflare:test";
import { env, exports } from "cloudflare:workers";
import { describe, expect, it, vi } from "vitest";
import { Channel } from "../../src/objects/channel/channel.ts";
import { ByteWriter } from "../../src/wire/bytes.ts";
import { writeMessage } from "../../src/wire/messages.ts";
import {
  bytesOf,
  CONNECTIONS,
  hex,
  subscribe,
  U16,
  WHOAMI,
  WHOAMI_REPLY_BYTES,
} from "../support/frames/index.ts";
import { openSocket, post } from "../support/pool/doors.ts";
import { hubStub } from "../support/pool/hubs.ts";
import { bearerOf, nowS, tokenOf } from "../support/pool/tokens.ts";
import { withSettings } from "../support/pool/variables.ts";
import { groupOf } from "../support/pool/groups.ts";

const server = exports.default as unknown as Fetcher;
const WS = "/throttr/7.3/uint16";

/** The object that has a channel. */

let namespaces = 0;
const freshNamespace = (): string => `events-${namespaces++}`;

interface Event {
  id?: string;
  event?: string;
  data: string;
}

/** Reads a stream of events as a browser does. */
class Listener {
  readonly response: Response;
  readonly #reader: ReadableStreamDefaultReader<string>;
  #text = "";
  /** What a browser would send as Last-Event-ID. */
  lastEventId = "";

  constructor(response: Response) {
    this.response = response;
    this.#reader = response.body!.pipeThrough(new TextDecoderStream()).getReader();
  }

  /** The next event with data; null at the end of the stream. */
  async next(): Promise<Event | null> {
    for (;;) {
      const end = this.#text.indexOf("\n\n");
      if (end < 0) {
        const { value, done } = await this.#reader.read();
        if (done) return null;
        this.#text += value;
        continue;
      }
      const event = this.#parse(this.#text.slice(0, end));
      this.#text = this.#text.slice(end + 2);
      if (event !== null) return event;
    }
  }

  async close(): Promise<void> {
    await this.#reader.cancel();
  }

  #parse(block: string): Event | null {
    const data: string[] = [];
    const event: Event = { data: "" };
    for (const line of block.split("\n")) {
      const [, field = "", value = ""] = /^([^:]*):? ?(.*)$/s.exec(line) ?? [];
      if (field === "data") data.push(value);
      if (field === "event") event.event = value;
      if (field === "id") event.id = this.lastEventId = value;
    }
    return data.length === 0 ? null : { ...event, data: data.join("\n") };
  }
}

/** Names of the tables that an object has made. */
function tablesIn(_: unknown, { storage }: DurableObjectState): string[] {
  const rows = storage.sql.exec<{ name: string }>(
    "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE '\\_cf\\_%' ESCAPE '\\'",
  );
  return [...rows].map(({ name }) => name).concat([...storage.kv.list()].map(([key]) => key));
}

async function listen(path: string, headers: Record<string, string>): Promise<Listener> {
  const response = await server.fetch(`http://localhost${path}`, { headers });
  expect(response.status).toBe(200);
  expect(response.headers.get("content-type")).toBe("text/event-stream; charset=utf-8");
  return new Listener(response);
}

async function publish(
  path: string,
  headers: HeadersInit,
  body: BodyInit = "hello",
): Promise<{ delivered: number; sequence: number | null }> {
  const response = await server.fetch(`http://localhost${path}`, { method: "POST", body, headers });
  expect(response.status).toBe(200);
  return await response.json();
}

describe("Server-Sent Events", () => {
  it("Server-Sent Events carry published messages with their numbers", async () => {
    const headers = await bearerOf({ ns: freshNamespace() });
    const listener = await listen("/channels/news", headers);
    const beforeMs = Date.now();
    const { delivered, sequence } = await publish("/channels/news", headers, "one");
    expect(delivered).toBe(1);
    // Milliseconds since the epoch: above any number of earlier releases, which began at 1.
    expect(Math.abs(sequence! - beforeMs)).toBeLessThan(60_000);
    const second = { delivered: 1, sequence: sequence! + 1 };
    expect(await publish("/channels/news", headers, "two")).toEqual(second);
    expect(await listener.next()).toEqual({ id: String(sequence), data: "one" });
    expect(await listener.next()).toEqual({ id: String(sequence! + 1), data: "two" });
    await listener.close();
  });

  it("Server-Sent Events carry what connections publish, and connections get what HTTP publishes", async () => {
    const headers = await bearerOf({ ns: freshNamespace() });
    const listener = await listen("/channels/room", headers);
    const door = await openSocket(WS, headers);
    const frame = U16.publish("room", "hi");
    expect(hex(await door.exchange(frame, 1))).toBe("01");
    const first = await listener.next();
    expect(first).toMatchObject({ data: "hi" });
    expect(hex(await door.exchange(subscribe("room"), 1))).toBe("01");
    const sequence = Number(first!.id) + 1;
    expect(await publish("/channels/room", headers, "yo")).toEqual({ delivered: 2, sequence });
    expect(hex(await door.inbox.take(10))).toBe(hex(U16.push("room", "yo")));
    await listener.close();
    await door.close();
  });

  it("Server-Sent Events carry lines, and other bytes as base64", async () => {
    const headers = await bearerOf({ ns: freshNamespace() });
    const listener = await listen("/channels/c", headers);
    await publish("/channels/c", headers, "one\ntwo\n\nfour: five\n");
    await publish("/channels/c", headers, "");
    await publish("/channels/c", headers, "a\rb");
    await publish("/channels/c", headers, Uint8Array.of(0xff, 0, 10));
    await publish("/channels/c", headers, "\ufeffgrüße ✓");
    expect((await listener.next())!.data).toBe("one\ntwo\n\nfour: five\n");
    expect((await listener.next())!.data).toBe("");
    expect(await listener.next()).toMatchObject({ event: "base64", data: btoa("a\rb") });
    expect(await listener.next()).toMatchObject({ event: "base64", data: "/wAK" });
    expect((await listener.next())!.data).toBe("\ufeffgrüße ✓");
    await listener.close();
  });

  it("a listener that comes back gets the messages that it missed", async () => {
    const headers = await bearerOf({ ns: freshNamespace() });
    const first = await listen("/channels/gap", headers);
    const one = await publish("/channels/gap", headers, "1");
    expect((await first.next())!.id).toBe(String(one.sequence));
    await first.close();
    await expect.poll(async () => (await publish("/channels/gap", headers, "x")).delivered).toBe(0);
    const { sequence } = await publish("/channels/gap", headers, "missed");
    const second = await listen("/channels/gap", {
      ...headers,
      "last-event-id": String(one.sequence),
    });
    await publish("/channels/gap", headers, "next");
    expect(await second.next()).toEqual({ id: String(sequence! + 1), data: "next" });
    await second.close();
  });

  it("numbers of events continue when all objects have hibernated", async () => {
    const ns = freshNamespace();
    const headers = await bearerOf({ ns });
    const listener = await listen("/channels/sleep", headers);
    const ids: number[] = [];
    for (let i = 0; i < 3; i++) ids.push((await publish("/channels/sleep", headers)).sequence!);
    for (const id of ids) expect((await listener.next())!.id).toBe(String(id));
    await evictAllDurableObjects();
    const sequence = ids[2]! + 1;
    expect(await publish("/channels/sleep", headers)).toEqual({ delivered: 1, sequence });
    expect((await listener.next())!.id).toBe(String(sequence));
    await listener.close();
  });

  it.each([
    ["a Hub that stayed awake", async () => {}],
    ["a Hub that hibernated", async () => await evictAllDurableObjects()],
  ])(
    "a listener of %s gets nothing that a group had under way before later messages",
    async (_, rest) => {
      const ns = freshNamespace();
      const headers = await bearerOf({ ns });
      const listener = await listen("/channels/late", headers);
      const { sequence } = await publish("/channels/late", headers, "1");
      expect((await listener.next())!.id).toBe(String(sequence));
      await scheduler.wait(1100);
      await rest();
      const out = new ByteWriter();
      writeMessage(out, bytesOf("late"), 0, 4);
      const late = { sequence: sequence!, messages: out.take() };
      expect((await hubStub(0, ns).deliver("late", [late])).delivered).toEqual([[0]]);
      await publish("/channels/late", headers, "2");
      expect(await listener.next()).toEqual({ id: String(sequence! + 1), data: "2" });
      await listener.close();
    },
  );

  it("numbers of events are never used twice, though the object dies before it stored the last one", async () => {
    const ns = freshNamespace();
    const headers = await bearerOf({ ns });
    const listener = await listen("/channels/die", headers);
    const before = await publish("/channels/die", headers);
    const stub = groupOf(ns, "die");
    await expect(runInDurableObject(stub, (_, ctx) => ctx.abort("test"))).rejects.toThrow("test");
    const { delivered, sequence } = await publish("/channels/die", headers);
    expect(delivered).toBe(1);
    expect(sequence).toBeGreaterThan(before.sequence!);
    await listener.close();
  });

  it("numbers of an unused channel are forgotten after a day, and continue above the old ones", async () => {
    const ns = freshNamespace();
    const headers = await bearerOf({ ns });
    const listener = await listen("/channels/old", headers);
    const before = await publish("/channels/old", headers);
    await listener.close();
    const stub = groupOf(ns, "old");
    await expect.poll(() => stub.hubsOf("old")).toEqual([]);
    await evictAllDurableObjects();
    const twoDaysAgoMs = Date.now() - 2 * 86_400_000;
    // The channel has had more messages than milliseconds have gone by since.
    const high = before.sequence! + 1_000_000_000;
    await runInDurableObject(stub, (_, { storage }) => {
      storage.sql.exec("UPDATE numbers SET used_at_ms = ?, sequence = ?", twoDaysAgoMs, high);
    });
    await evictAllDurableObjects();
    expect(await runDurableObjectAlarm(stub)).toBe(true);
    await evictAllDurableObjects();
    expect(await publish("/channels/old", headers)).toEqual({ delivered: 0, sequence: null });
    const again = await listen("/channels/old", headers);
    expect(await publish("/channels/old", headers)).toEqual({ delivered: 1, sequence: high + 1 });
    await again.close();
  });

  it("numbers cost no rows in channels without listeners over HTTP", async () => {
    for (const REPLAY_MESSAGES_MAX of [0, 100]) {
      await withSettings({ REPLAY_MESSAGES_MAX }, async () => {
        const ns = freshNamespace();
        const headers = await bearerOf({ ns });
        expect(await publish("/channels/plain", headers)).toEqual({ delivered: 0, sequence: null });
        expect(await runInDurableObject(groupOf(ns, "plain"), tablesIn)).toEqual([]);
      });
    }
  });

  it("events for everybody come from *, and those of an id reach that connection alone", async () => {
    const headers = await bearerOf({ ns: freshNamespace() });
    const listener = await listen("/channels/*", headers);
    expect((await publish("/channels/*", headers, "all")).delivered).toBe(1);
    expect((await listener.next())!.data).toBe("all");
    const door = await openSocket(WS, headers);
    const id = hex((await door.exchange(WHOAMI, WHOAMI_REPLY_BYTES)).subarray(1));
    expect((await publish(`/channels/${id}`, headers, "dm")).delivered).toBe(1);
    expect((await door.inbox.take(38)).length).toBe(38);
    await door.close();
    await listener.close();
  });

  it("names of channels are bytes in paths", async () => {
    const headers = await bearerOf({ ns: freshNamespace() });
    const listener = await listen("/channels/a%2Fb%ff%00%0A", headers);
    expect((await publish("/channels/a/b%FF%00%0a", headers)).delivered).toBe(1);
    expect((await publish("/channels/a%252Fb", headers)).delivered).toBe(0);
    await listener.close();
    const name = "%61".repeat(255);
    expect((await publish(`/channels/${name}`, headers)).delivered).toBe(0);
    const long = await server.fetch(`http://localhost/channels/${name}b`, {
      method: "POST",
      headers,
    });
    expect(await long.json()).toMatchObject({ status: 400, code: "channel_invalid" });
    const broken = await server.fetch("http://localhost/channels/%zz", { headers });
    expect(await broken.json()).toMatchObject({ status: 400, code: "channel_invalid" });
  });

  it("a listener ends with its token", async () => {
    const token = await tokenOf({ ns: freshNamespace(), iat: nowS(), exp: nowS() + 2 });
    const response = await server.fetch(`http://localhost/channels/t?ticket=${token}`);
    const listener = new Listener(response);
    expect(await listener.next()).toBe(null);
  });

  it("listeners need the scope subscribe and a prefix", async () => {
    const ns = freshNamespace();
    const reader = await bearerOf({
      ns,
      scopes: ["read", "subscribe"],
      channelPrefixes: ["room:"],
    });
    const get = async (path: string, headers: HeadersInit): Promise<unknown> =>
      await (await server.fetch(`http://localhost${path}`, { headers })).json();
    expect(await get("/channels/other", reader)).toMatchObject({ code: "prefix_missing" });
    expect(await get("/channels/a", await bearerOf({ ns, scopes: ["publish"] }))).toMatchObject({
      status: 403,
      code: "scope_missing",
    });
    const posted = await server.fetch("http://localhost/channels/room:1", {
      method: "POST",
      headers: reader,
    });
    expect(await posted.json()).toMatchObject({ status: 403, code: "scope_missing" });
    await (await listen("/channels/room:1", reader)).close();
  });

  it("a listener is a connection of kind 3, subscribed to its channel only", async () => {
    const ns = freshNamespace();
    const headers = await bearerOf({ ns });
    const listener = await listen("/channels/only", headers);
    const response = await post("7.3", "uint16", CONNECTIONS, headers);
    const answer = new Uint8Array(await response.arrayBuffer());
    expect(answer.length).toBe(1 + 8 + 16 + 237);
    expect(answer[25 + 17]).toBe(3);
    const id = hex(answer.subarray(25, 41));
    const direct = await publish(`/channels/${id}`, headers);
    expect(direct.delivered).toBe(0);
    expect((await publish("/channels/*", headers)).delivered).toBe(0);
    await listener.close();
    await expect.poll(() => runInDurableObject(hubStub(0, ns), (hub) => hub.roster.size)).toBe(0);
  });

  it("connections get what is published to everybody after a listener whose group has failed", async () => {
    const ns = freshNamespace();
    const headers = await bearerOf({ ns });
    vi.spyOn(Channel.prototype, "listenTo").mockRejectedValueOnce(new Error("lost"));
    const failed = await server.fetch("http://localhost/channels/c", { headers });
    expect(failed.status).toBe(503);
    const directory = env.DIRECTORY.getByName(ns);
    await expect.poll(() => directory.hubs()).toEqual([]);
    expect((await publish("/channels/*", headers)).delivered).toBe(0);
    const door = await openSocket(WS, headers);
    expect((await directory.hubs()).length).toBe(1);
    expect((await publish("/channels/*", headers, "2")).delivered).toBe(1);
    expect(hex(await door.inbox.take(U16.push("*", "2").length))).toBe(hex(U16.push("*", "2")));
    await door.close();
  });

  it("a listener that could not begin leaves no socket in its Hub", async () => {
    const ns = freshNamespace();
    const headers = await bearerOf({ ns });
    vi.spyOn(Channel.prototype, "listenTo").mockRejectedValueOnce(new Error("lost"));
    const sockets = (): Promise<number> =>
      runInDurableObject(hubStub(0, ns), (_, state) => state.getWebSockets().length);
    const failed = await server.fetch("http://localhost/channels/c", { headers });
    expect(failed.status).toBe(503);
    await expect.poll(sockets, { timeout: 1000 }).toBe(0);
    vi.spyOn(Channel.prototype, "listenTo").mockReturnValueOnce(null);
    const refused = await server.fetch("http://localhost/channels/c", { headers });
    expect(refused.status).toBe(503);
    await expect.poll(sockets, { timeout: 1000 }).toBe(0);
  });

  it("a listener that does not read is ended, and the others are served", async () => {
    const ns = freshNamespace();
    const headers = await bearerOf({ ns });
    const reader = await listen("/channels/fire", headers);
    await listen("/channels/fire", headers);
    const payload = "x".repeat(500_000);
    let delivered = 2;
    for (let i = 0; i < 30 && delivered === 2; i++) {
      ({ delivered } = await publish("/channels/fire", headers, payload));
      expect((await reader.next())!.data.length).toBe(payload.length);
    }
    expect(delivered).toBe(1);
    await reader.close();
  });
});

describe("with messages kept", () => {
  it("a listener that comes back gets kept messages again", async () => {
    await withSettings({ REPLAY_MESSAGES_MAX: 3 }, async () => {
      const headers = await bearerOf({ ns: freshNamespace() });
      await (await listen("/channels/kept", headers)).close();
      const ids: number[] = [];
      for (let i = 1; i <= 5; i++) {
        ids.push((await publish("/channels/kept", headers, `m${i}`)).sequence!);
      }
      const idOf = (i: number): number => ids[0]! + i - 1;
      expect(ids).toEqual([1, 2, 3, 4, 5].map(idOf));
      await scheduler.wait(600);
      await evictAllDurableObjects();
      /** What a listener gets until the message that is published when it has come. */
      const seenFrom = async (lastEventId: string): Promise<string[]> => {
        const listener = await listen("/channels/kept", {
          ...headers,
          "last-event-id": lastEventId,
        });
        const { sequence } = await publish("/channels/kept", headers, "end");
        const seen: string[] = [];
        while (seen.at(-1) !== `${sequence}:end`) {
          const event = await listener.next();
          seen.push(`${event!.id}:${event!.data}`);
        }
        await listener.close();
        return seen;
      };
      const seenAfter = async (i: number): Promise<string[]> => await seenFrom(String(idOf(i)));
      expect(await seenAfter(4)).toEqual([`${idOf(5)}:m5`, `${idOf(6)}:end`]);
      expect(await seenAfter(1)).toEqual([
        `${idOf(4)}:m4`,
        `${idOf(5)}:m5`,
        `${idOf(6)}:end`,
        `${idOf(7)}:end`,
      ]);
      expect(await seenAfter(7)).toEqual([`${idOf(8)}:end`]);
      expect(await seenAfter(99)).toEqual([`${idOf(9)}:end`]);
      expect(await seenFrom("none")).toEqual([`${idOf(10)}:end`]);
    });
  });
});
