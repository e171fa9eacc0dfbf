/** Connections over WebSocket and TCP: streams, limits, hibernation, endings. */
import {
  abortAllDurableObjects,
  evictAllDurableObjects,
  reset,
  runInDurableObject,
} from "cloudflare:test";
import { env } from "cloudflare:workers";
import { afterEach, describe, expect, it, vi } from "vitest";
import { AlarmClock } from "../../src/base/alarm-clock.ts";
import { OPEN_ACCESS } from "../../src/base/access.ts";
import type { OpenRequest } from "../../src/base/calls/open-request.ts";
import { makeConnectionId, ownChannel } from "../../src/base/connection-id.ts";
import { parseSettings } from "../../src/base/settings.ts";
import { connectionCount } from "../../src/objects/hub/connection-count.ts";
import { Hub } from "../../src/objects/hub/hub.ts";
import { HUB_PENDING_BYTES_MAX, TALLIES_STORE_DELAY_MS } from "../../src/engine/sizes.ts";
import { BRIDGE_SUBPROTOCOL } from "../../src/wire/bridge.ts";
import { protocolByName } from "../../src/wire/throttr/protocol.ts";
import { NOWHERE, openConnection } from "../../src/worker/hubs.ts";
import { serveTcp } from "../../src/worker/tcp.ts";
import {
  concat,
  connectionRow,
  frameOf,
  hex,
  HOURS,
  subscribersOf,
  subscribe,
  U16,
  U32,
  unhex,
  WHOAMI,
} from "../support/frames/index.ts";
import { connectTcp, openPort, openSocket, post } from "../support/pool/doors.ts";
import { groupOf } from "../support/pool/groups.ts";
import { hubStub } from "../support/pool/hubs.ts";
import { expectLargeReplies, setLargeValues } from "../support/pool/large.ts";
import { breakJournal, holdSync, meterOf, shardStub } from "../support/pool/shards.ts";
import { bearerOf } from "../support/pool/tokens.ts";
import { withSettings } from "../support/pool/variables.ts";

const PATH = "/throttr/7.3/uint16";
/** Long before anything would find out by itself. */
const LEFT = { timeout: 2000 };
const INSERT = U16.insert("a", 5);
const INCREASE = U16.increase("a");
const QUERY = U16.query("a");
/** SET in uint32 of 65,536 bytes, less its value. */
const LARGE_HEADER = U32.set("k", new Uint8Array(65_536)).subarray(0, -65_536);

afterEach(async () => {
  await reset();
});

it("a Hub whose last connection ends while it sleeps leaves the Directory's list", async () => {
  const door = await openSocket(PATH);
  const directory = env.DIRECTORY.getByName("default");
  expect(await directory.hubs()).toHaveLength(1);
  // Until tallies are stored an object is not evicted.
  await scheduler.wait(1100);
  await evictAllDurableObjects();
  await door.close();
  await expect.poll(() => directory.hubs(), LEFT).toEqual([]);
});

it("an ID that no connection has, and the channel of that name, make no Hub", async () => {
  const id = makeConnectionId({ location: "QQQ", index: 200 }, new Uint8Array(16));
  const rows = vi.spyOn(Hub.prototype, "connectionRow");
  const subscribers = vi.spyOn(Hub.prototype, "subscribers");
  const door = await openSocket(PATH);
  expect(hex(await door.exchange(connectionRow(id), 1))).toBe("00");
  expect(hex(await door.exchange(subscribersOf(ownChannel(id)), 1))).toBe("00");
  expect(rows.mock.calls.length + subscribers.mock.calls.length).toBe(0);
  const own = (await door.exchange(WHOAMI, 17)).subarray(1);
  expect(hex(await door.exchange(connectionRow(own), 1))).toBe("01");
  vi.restoreAllMocks();
  door.socket.close(1000);
});

it.each([
  ["connection", "connectionRow", (id: Uint8Array) => connectionRow(id)],
  ["channel", "subscribers", (id: Uint8Array) => subscribersOf(ownChannel(id))],
] as const)(
  "a Hub that fails when it is asked about a %s ends the asking connection, and is not taken to have none",
  async (_, method, frameOf) => {
    vi.spyOn(console, "warn").mockImplementation(() => {});
    vi.spyOn(console, "error").mockImplementation(() => {});
    const door = await openSocket(PATH);
    const own = (await door.exchange(WHOAMI, 17)).subarray(1);
    vi.spyOn(Hub.prototype, method).mockImplementationOnce(() => {
      throw new Error("lost");
    });
    door.socket.send(frameOf(own));
    expect(await door.closed).toMatchObject({ code: 1011 });
    vi.restoreAllMocks();
  },
);

describe("a WebSocket", () => {
  it("a WebSocket answers the text ping, and is closed by any other text", async () => {
    const door = await openSocket(PATH);
    door.socket.send("ping");
    expect(new TextDecoder().decode(await door.inbox.take(4))).toBe("pong");
    door.socket.send("hello");
    expect(await door.closed).toMatchObject({
      code: 1003,
      reason: expect.stringMatching(/^text_message/) as string,
    });
  });

  it("a WebSocket answers everything before an unknown type, then closes with 1002", async () => {
    const door = await openSocket(PATH);
    door.socket.send(concat([INSERT, QUERY, unhex("77"), INSERT]));
    expect(hex(await door.inbox.take(7)).slice(0, 10)).toBe("0101050004");
    expect(await door.closed).toMatchObject({
      code: 1002,
      reason: "request_type_unknown: 0x77 in dialect 7.3",
    });
  });

  it("a WebSocket closes with 1009 when a frame announces too much", async () => {
    const door = await openSocket("/throttr/7.3/uint64");
    door.socket.send(unhex("0504010000000000000001ffffffffffffffff"));
    expect(await door.closed).toMatchObject({
      code: 1009,
      reason: expect.stringContaining("1048576") as string,
    });
  });

  it("a WebSocket closes with 1013 a peer that sends more than may wait for replies", async () => {
    await post("7.3", "uint16", INSERT);
    const releases = await Promise.all([0, 1, 2, 3].map((index) => holdSync(shardStub(index))));
    await post("7.3", "uint16", INCREASE);
    const door = await openSocket(PATH);
    door.socket.send(INCREASE);
    const chunk = concat(Array.from({ length: 100_000 }, () => QUERY));
    for (let i = 0; i < 16; i++) door.socket.send(chunk);
    expect(await door.closed).toMatchObject({
      code: 1013,
      reason: expect.stringMatching(/^unanswered_bytes/) as string,
    });
    for (const release of releases) await release();
  });

  it("a WebSocket closes with 1013 when one message causes too many bytes of replies", async () => {
    await post("7.3", "uint32", U32.set("big", new Uint8Array(1_000_000), HOURS, 10n));
    const door = await openSocket("/throttr/7.3/uint32");
    door.socket.send(concat(Array.from({ length: 100 }, () => U32.get("big"))));
    expect(await door.closed).toMatchObject({
      code: 1013,
      reason: expect.stringMatching(/^reply_bytes/) as string,
    });
    expect((await post("7.3", "uint16", QUERY)).status).toBe(200);
  });

  it("a WebSocket keeps the order of its requests on a key, also when chunks overtake replies", async () => {
    const door = await openSocket(PATH);
    door.socket.send(INSERT);
    for (let i = 0; i < 50; i++) door.socket.send(concat([INCREASE, QUERY]));
    const replies = await door.inbox.take(1 + 50 * 7);
    for (let i = 0; i < 50; i++) expect(replies[1 + 7 * i + 2]).toBe(6 + i);
    await door.close();
  });

  it("a WebSocket survives hibernation, an unfinished frame included", async () => {
    const door = await openSocket(PATH);
    expect(hex(await door.exchange(concat([INSERT, unhex("0205")]), 1))).toBe("01");
    await scheduler.wait(20);
    await evictAllDurableObjects();
    expect(hex(await door.exchange(unhex("6162636465"), 1))).toBe("00");
    await evictAllDurableObjects();
    expect(hex(await door.exchange(QUERY, 6)).slice(0, 6)).toBe("010500");
    await door.close();
  });

  it("a WebSocket is closed when a large frame stays unfinished", async () => {
    const door = await openSocket("/throttr/7.3/uint32");
    door.socket.send(concat([LARGE_HEADER, new Uint8Array(10_000)]));
    expect(await door.closed).toMatchObject({
      code: 1008,
      reason: expect.stringMatching(/^frame_timeout/) as string,
    });
  });

  it("a connection is closed when unanswered requests of a Hub take too much, also those of a run that its peer holds up", async () => {
    await post("7.3", "uint32", U32.set("big", new Uint8Array(300 << 10), HOURS, 10n));
    // A gateway that never says that its client has read anything: behind two answers its run waits for good.
    const run = concat(Array.from({ length: 500_000 }, () => U32.get("big")));
    const doors = [];
    for (let bytes = 0; bytes <= HUB_PENDING_BYTES_MAX; bytes += run.length) {
      const door = await openSocket("/throttr/7.3/uint32", {
        "sec-websocket-protocol": BRIDGE_SUBPROTOCOL,
      });
      door.socket.send(run);
      await door.inbox.take(1);
      doors.push(door);
    }
    const ending = await Promise.race([doors.at(-1)!.closed, scheduler.wait(LEFT.timeout)]);
    expect(ending).toMatchObject({
      code: 1013,
      reason: expect.stringMatching(/^pending_bytes/) as string,
    });
    expect(doors[0]!.socket.readyState).toBe(WebSocket.OPEN);
    for (const door of doors.slice(0, -1)) await door.close();
    await expect.poll(() => runInDurableObject(hubStub(), (hub) => hub.pendingBytes)).toBe(0);
  });

  it("a WebSocket is not closed while a large frame comes slowly", async () => {
    const door = await openSocket("/throttr/7.3/uint32");
    door.socket.send(LARGE_HEADER);
    for (let i = 0; i < 4; i++) {
      await scheduler.wait(400);
      door.socket.send(new Uint8Array(16_384));
    }
    expect(hex(await door.inbox.take(1))).toBe("01");
    await door.close();
  });

  it("a WebSocket that lost a large unfinished frame is closed, instead of misreading what follows", async () => {
    const door = await openSocket(PATH);
    expect(hex(await door.exchange(subscribe("lost"), 1))).toBe("01");
    expect(await groupOf("default", "lost").hubsOf("lost")).toHaveLength(1);
    await scheduler.wait(1100);
    await runInDurableObject(hubStub(), (_, state) => {
      const [socket] = state.getWebSockets();
      socket!.serializeAttachment({
        ...(socket!.deserializeAttachment() as object),
        unfinished: null,
      });
    });
    await evictAllDurableObjects();
    door.socket.send(new Uint8Array(100));
    expect(await door.closed).toMatchObject({
      code: 1011,
      reason: expect.stringMatching(/^frame_lost/) as string,
    });
    await expect.poll(() => groupOf("default", "lost").hubsOf("lost"), LEFT).toEqual([]);
    await expect.poll(() => env.DIRECTORY.getByName("default").hubs(), LEFT).toEqual([]);
  });

  it("a WebSocket closes with 1011 when a shard fails, and no write with an unknown outcome is answered 0x00", async () => {
    const door = await openSocket(PATH);
    expect(hex(await door.exchange(INSERT, 1))).toBe("01");
    for (let i = 0; i < 4; i++) await breakJournal(shardStub(i));
    door.socket.send(INCREASE);
    expect(await door.closed).toMatchObject({
      code: 1011,
      reason: expect.stringMatching(/^outcome_unknown/) as string,
    });
    expect((await door.inbox.take(0)).length).toBe(0);
    const other = await openSocket(PATH);
    expect(hex(await other.exchange(QUERY, 6)).slice(0, 6)).toBe("010500");
    await other.close();
  });

  it("a WebSocket is not disturbed by a shard that was reset between its requests", async () => {
    const door = await openSocket(PATH);
    expect(hex(await door.exchange(INSERT, 1))).toBe("01");
    const other = await openSocket(PATH);
    await other.close();
    expect(hex(await door.exchange(INCREASE, 1))).toBe("01");
    await door.close();
    await abortAllDurableObjects();
    const again = await openSocket(PATH);
    expect(hex(await again.exchange(QUERY, 6)).slice(0, 6)).toBe("010600");
    await again.close();
  });
});

describe("a TCP connection", () => {
  it("a TCP connection answers everything that was sent before a half-close, then closes", async () => {
    const door = await openPort(9002);
    await door.write(concat([INSERT, ...Array.from({ length: 5000 }, () => INCREASE), QUERY]));
    await door.end();
    await door.closed;
    const replies = await door.inbox.take(5007);
    expect(replies.length).toBe(5007);
    expect(hex(replies.subarray(5001, 5004))).toBe("01" + "8d13");
  });

  it("a TCP connection answers everything before an unknown type, then closes", async () => {
    const door = await openPort(9002);
    await door.write(concat([INSERT, unhex("77")]));
    await door.closed;
    expect(hex(await door.inbox.take(1))).toBe("01");
  });

  it("a TCP connection on port 9000 speaks the default size", async () => {
    const door = await openPort(9000);
    expect(hex(await door.exchange(INSERT, 1))).toBe("01");
    await door.close();
  });

  it("a TCP connection carries frames up to the limit, through its window", async () => {
    const value = new Uint8Array(1_000_000).fill(7);
    const door = await openPort(9004);
    const set = U32.set("big", value, HOURS, 10n);
    for (let i = 0; i < 5; i++) expect(hex(await door.exchange(set, 1))).toBe("01");
    const get = U32.get("big");
    const replies = await door.exchange(concat([get, get, get]), 3 * 1_000_010);
    expect(replies.length).toBe(3 * 1_000_010);
    expect(replies.at(-1)).toBe(7);
    await door.close();
  });

  it("a TCP connection gets large replies of several shards in order", async () => {
    const values = await setLargeValues();
    const order = Array.from({ length: 24 }, (_, i) => values[1 + (i % 3)]!);
    const door = await openPort(9004);
    const gets = concat(order.map(({ key }) => U32.get(key)));
    const bytes = order.reduce((sum, { value }) => sum + 10 + value.length, 0);
    expectLargeReplies(await door.exchange(gets, bytes), order);
    await door.close();
  });

  it("a TCP connection is answered though many others ask for much at the same time", async () => {
    const [, large] = await setLargeValues();
    const { key, value } = large!;
    const get = U32.get(key);
    const extend = frameOf(U32, {
      type: "update",
      key,
      attribute: 1,
      change: 1,
      value: 1n,
    });
    const doors = await Promise.all(Array.from({ length: 40 }, () => openPort(9004)));
    // While one call waits for the disk, all the others gather for the next.
    const releases = await Promise.all([0, 1, 2, 3].map((index) => holdSync(shardStub(index))));
    await post("7.3", "uint32", extend);
    await doors[0]!.write(extend);
    await scheduler.wait(50);
    const exchanges = doors.slice(1).map((door) => door.exchange(get, 10 + value.length));
    await scheduler.wait(50);
    for (const release of releases) await release();
    for (const reply of await Promise.all(exchanges)) expectLargeReplies(reply, [large!]);
    for (const door of doors) await door.close();
  });

  it.each([
    ["where access is not open", { ACCESS: "token" }, "localhost:9002"],
    ["on a port where nothing is spoken", {}, "localhost:9099"],
  ])("a TCP connection is closed at once %s", async (_, variables, localAddress) => {
    const toClient = new TransformStream<Uint8Array, Uint8Array>();
    let isClosed = false;
    const socket = {
      opened: Promise.resolve({ localAddress, remoteAddress: "127.0.0.1:1" }),
      readable: new ReadableStream(),
      writable: toClient.writable,
      close: async () => void (isClosed = true),
    };
    await serveTcp(socket as unknown as Socket, { ...env, ...variables } as Env);
    expect(isClosed).toBe(true);
  });
});

it("connections refused on a port without a dialect are logged once for the port", async () => {
  const warn = vi.spyOn(console, "warn").mockImplementation(() => {});
  for (let i = 0; i < 3; i++) {
    const socket = {
      opened: Promise.resolve({ localAddress: "localhost:80", remoteAddress: "127.0.0.1:1" }),
      close: async () => {},
    };
    await serveTcp(socket as unknown as Socket, env);
  }
  const lines = warn.mock.calls.map(([line]) => JSON.parse(line as string) as unknown);
  warn.mockRestore();
  expect(lines).toEqual([{ event: "tcp_refused", code: "port_unknown", port: 80 }]);
});

it("requests that connections bring during a call share the next call", async () => {
  await post("7.3", "uint16", INSERT);
  const doors = await Promise.all(Array.from({ length: 20 }, () => openSocket(PATH)));
  const meters = await Promise.all([0, 1, 2, 3].map((index) => meterOf(shardStub(index))));
  const releases = await Promise.all([0, 1, 2, 3].map((index) => holdSync(shardStub(index))));
  await post("7.3", "uint16", INCREASE);
  for (const { socket } of doors) socket.send(INCREASE);
  await scheduler.wait(50);
  for (const release of releases) await release();
  for (const { inbox } of doors) expect(hex(await inbox.take(1))).toBe("01");
  // One for the body, one for the first of the connections, one for all the others.
  expect(meters.reduce((sum, { rows }) => sum + rows, 0)).toBeLessThanOrEqual(3);
  expect(hex(await doors[0]!.exchange(QUERY, 6)).slice(0, 6)).toBe("011a00");
  for (const door of doors) await door.close();
});

describe("limits", () => {
  it("silent WebSocket peers are cut earlier when all together may have much unread", async () => {
    await post("7.3", "uint32", U32.set("big", new Uint8Array(1_000_000), HOURS, 10n));
    const get = U32.get("big");
    const gets = concat(Array.from({ length: 30 }, () => get));
    const doors = await Promise.all(
      Array.from({ length: 8 }, () => openSocket("/throttr/7.3/uint32")),
    );
    for (const { socket } of doors) socket.send(gets);
    const endings = await Promise.all(
      doors.map(({ closed }) => Promise.race([closed, scheduler.wait(5000)])),
    );
    const cut = endings.filter((ending) => ending?.reason.startsWith("reply_bytes") === true);
    expect(cut.length).toBeGreaterThan(0);
    // Who asks for little notices nothing.
    const other = await openSocket(PATH);
    expect(hex(await other.exchange(QUERY, 1))).toBe("00");
    for (const door of [other, ...doors]) await door.close();
  });

  it("a TCP connection waits with a small buffer, and reads a stream into large ones", async () => {
    const sizes: number[] = [];
    let left = 6;
    const readable = new ReadableStream({
      type: "bytes",
      pull(controller) {
        const { byobRequest } = controller;
        const view = byobRequest!.view!;
        sizes.push(view.byteLength);
        if (left-- === 0) {
          controller.close();
          byobRequest!.respond(0);
          return;
        }
        new Uint8Array(view.buffer, view.byteOffset, view.byteLength).fill(0x18);
        byobRequest!.respond(left < 2 ? 1 : view.byteLength);
      },
    });
    const writable = new WritableStream();
    const opened = Promise.resolve({ localAddress: "127.0.0.1:9002", remoteAddress: "" });
    const socket = { readable, writable, opened, close: async () => {} };
    await serveTcp(socket as unknown as Socket, env);
    expect(sizes).toEqual([1024, 8192, 65_536, 65_536, 65_536, 1024, 1024]);
  });

  it("a TCP peer that never reads is held back, then given up, and others are served", async () => {
    await post("7.3", "uint32", U32.set("big", new Uint8Array(500_000), HOURS, 10n));
    const peer = connectTcp(9004);
    const gets = concat(Array.from({ length: 20_000 }, () => U32.get("big")));
    const writer = (peer.writable as WritableStream<Uint8Array>).getWriter();
    const gone = (async () => {
      for (;;) await writer.write(gets);
    })().catch(() => "gone");
    const other = await openPort(9002);
    for (let i = 0; i < 20; i++) expect(hex(await other.exchange(QUERY, 1))).toBe("00");
    await other.close();
    expect(await Promise.race([gone, scheduler.wait(20_000)])).toBe("gone");
  });

  const opening: OpenRequest = {
    protocolCode: protocolByName("7.3", "uint16")!.code,
    transport: "websocket",
    access: OPEN_ACCESS,
    subprotocol: null,
    ip: "",
    port: 0,
    channel: null,
    after: null,
  };

  it.each([
    ["ten seconds after a recount", 10_000],
    ["after a recount by a clock that has gone back since", -3_600_000],
  ])("connections of a reset Hub do not count in CONNECTIONS_MAX, %s", async (_, afterMs) => {
    const entrance = {
      env,
      settings: { ...parseSettings(env), CONNECTIONS_MAX: 2 },
      location: NOWHERE,
      ctx: null,
    };
    const open = async (): Promise<number> => {
      const { status, webSocket } = await openConnection(entrance, opening);
      webSocket?.accept();
      return status;
    };
    expect([await open(), await open(), await open()]).toEqual([101, 101, 503]);
    await abortAllDurableObjects();
    vi.setSystemTime(Date.now() + afterMs);
    try {
      expect(await open()).toBe(101);
    } finally {
      vi.useRealTimers();
    }
  });

  /** The server recounts the connections of Hubs that other tests have reset, and then not for ten seconds. */
  const recount = async (): Promise<void> => {
    const settings = { ...parseSettings(env), CONNECTIONS_MAX: -1 };
    await openConnection({ env, settings, location: NOWHERE, ctx: null }, opening);
  };

  it("a connection whose client leaves while it is being opened counts only until its Hub answers", async () => {
    await recount();
    const { promise, resolve } = Promise.withResolvers<void>();
    const full = async (): Promise<Response> => {
      await promise;
      return new Response(null, { status: 429 });
    };
    const kept: Promise<unknown>[] = [];
    const entrance = {
      env: { ...env, HUB: { getByName: () => ({ fetch: full }) } } as unknown as Env,
      settings: { ...parseSettings(env), CONNECTIONS_MAX: connectionCount() + 1 },
      location: NOWHERE,
      ctx: { waitUntil: (work: Promise<unknown>) => void kept.push(work) },
    };
    void openConnection(entrance, opening);
    expect(kept).toHaveLength(1);
    expect((await openConnection({ ...entrance, env }, opening)).status).toBe(503);
    resolve();
    await kept[0];
    expect((await openConnection(entrance, opening)).status).toBe(429);
  });

  it("a connection whose Hub does not answer is refused after 25 s, and counts no longer", async () => {
    await recount();
    const never = { fetch: async () => await new Promise<never>(() => {}) };
    const entrance = {
      env: { ...env, HUB: { getByName: () => never } } as unknown as Env,
      settings: { ...parseSettings(env), CONNECTIONS_MAX: connectionCount() + 1 },
      location: NOWHERE,
      ctx: null,
    };
    const waits: number[] = [];
    const timers = vi.spyOn(globalThis, "setTimeout").mockImplementation(((
      end: () => void,
      ms: number,
    ) => {
      waits.push(ms);
      queueMicrotask(end);
    }) as typeof setTimeout);
    try {
      const refused = { code: "hub_failed" };
      await expect(openConnection(entrance, opening)).rejects.toMatchObject(refused);
      await expect(openConnection(entrance, opening)).rejects.toMatchObject(refused);
    } finally {
      timers.mockRestore();
    }
    expect(waits).toEqual([25_000, 25_000]);
  });

  it("a connection that opens after its client was refused does not stay in its Hub", async () => {
    const gate = Promise.withResolvers<void>();
    const hub = hubStub(0, "late");
    const answers: Response[] = [];
    const late = async (...asked: Parameters<Fetcher["fetch"]>): Promise<Response> => {
      await gate.promise;
      answers.push(await hub.fetch(...asked));
      return answers.at(-1)!;
    };
    const kept: Promise<unknown>[] = [];
    const entrance = {
      env: { ...env, HUB: { getByName: () => ({ fetch: late }) } } as unknown as Env,
      settings: parseSettings(env),
      location: NOWHERE,
      ctx: { waitUntil: (work: Promise<unknown>) => void kept.push(work) },
    };
    const timers = vi.spyOn(globalThis, "setTimeout").mockImplementation(((end: () => void) => {
      queueMicrotask(end);
    }) as typeof setTimeout);
    const asked = { ...opening, access: { ...OPEN_ACCESS, namespace: "late" } };
    const refused = openConnection(entrance, asked).finally(() => timers.mockRestore());
    await expect(refused).rejects.toMatchObject({ code: "hub_failed" });
    gate.resolve();
    await expect.poll(() => answers[0]?.status).toBe(101);
    await Promise.all(kept);
    const sockets = async (): Promise<number> =>
      await runInDurableObject(hub, (_, ctx) => ctx.getWebSockets().length);
    await expect.poll(sockets, LEFT).toBe(0);
  });

  it("connections are served while hundreds of thousands of subscriptions of another one are answered", async () => {
    const many = 600_000;
    const frame = subscribe("many");
    const frames = new Uint8Array(many * frame.length);
    for (let i = 0; i < many; i++) frames.set(frame, i * frame.length);
    // A namespace of its own: in that of other tests, the first Hub with room may be another one.
    const headers = await bearerOf({ ns: "many" });
    const door = await openSocket(PATH, headers);
    const other = await openSocket(PATH, headers);
    /** Bytes that had been answered when each message came. */
    const answeredBefore: number[] = [];
    await runInDurableObject(hubStub(0, "many"), (hub) => {
      const receive = hub.webSocketMessage.bind(hub);
      hub.webSocketMessage = (...message) => {
        const rows = hub.roster.connections().map((connection) => connection.row());
        answeredBefore.push(rows.reduce((sum, { writeBytes }) => sum + writeBytes, 0));
        receive(...message);
      };
    });
    door.socket.send(frames);
    await vi.waitFor(() => expect(answeredBefore).toEqual([0]), { interval: 1, timeout: 10_000 });
    await other.exchange(WHOAMI, 17);
    expect((await door.inbox.take(many)).every((status) => status === 1)).toBe(true);
    expect(answeredBefore).toEqual([0, expect.toSatisfy((bytes: number) => bytes < many)]);
    await door.close();
    await other.close();
  });

  it("a connection takes one place of its Hub also while it is still being opened", async () => {
    const gate = Promise.withResolvers<void>();
    const asked = vi.spyOn(AlarmClock.prototype, "setFor");
    asked.mockImplementationOnce(async () => await gate.promise);
    const settings = { ...parseSettings(env), HUBS_MAX: 1 };
    const entrance = { env, settings, location: NOWHERE, ctx: null };
    const open = async (): Promise<number> => {
      const { status, webSocket } = await openConnection(entrance, opening);
      webSocket?.accept();
      return status;
    };
    await withSettings({ HUB_CONNECTIONS_MAX: 2 }, async () => {
      const first = open();
      await expect.poll(() => asked.mock.calls.length).toBe(1);
      const others = [await open(), await open()];
      gate.resolve();
      expect([await first, ...others]).toEqual([101, 101, 503]);
    });
  });

  it("a connection that could not be opened leaves neither a socket nor a connection in its Hub", async () => {
    vi.spyOn(AlarmClock.prototype, "setFor").mockRejectedValueOnce(new Error("full"));
    await expect(openSocket(PATH)).rejects.toThrow(/hub_failed/);
    const left = async (): Promise<number> =>
      await runInDurableObject(
        hubStub(),
        (hub, state) => hub.roster.size + state.getWebSockets().length,
      );
    // Much later the runtime would drop the other end of the socket by itself.
    await expect.poll(left, { timeout: 1000 }).toBe(0);
  });

  it("connections that come and go wait for one timer of their Hub together until they are stored", async () => {
    const waits = vi.spyOn(scheduler, "wait");
    for (let i = 0; i < 20; i++) {
      const door = await openSocket(PATH);
      await door.exchange(QUERY, 1);
      await door.close();
    }
    const stores = waits.mock.calls.filter(([ms]) => ms === TALLIES_STORE_DELAY_MS);
    waits.mockRestore();
    expect(stores.length).toBeLessThan(10);
  });

  it("surplus connections are refused, and places become free again", async () => {
    const doors = [];
    for (let i = 0; i < 60; i++) doors.push(await openSocket(PATH));
    await expect(openSocket(PATH)).rejects.toThrow(/connections_max/);
    const tcp = await openPort(9002);
    await tcp.closed;
    await doors.pop()!.close();
    await expect
      .poll(() =>
        openSocket(PATH).then(
          (door) => door.close(),
          (error: unknown) => String(error),
        ),
      )
      .toBeUndefined();
    for (const door of doors) await door.close();
  });
});
