/** The bridge protocol from outside: an honest gateway is served like the Worker's own bridge, and one that lies gains nothing. */
import { evictAllDurableObjects, reset, runInDurableObject } from "cloudflare:test";
import { afterEach, describe, expect, it } from "vitest";
import {
  BRIDGE_SUBPROTOCOL,
  BRIDGE_WINDOW_BYTES,
  drainedMessage,
  parseBridgeMessage,
} from "../../src/wire/bridge.ts";
import { concat, hex, HOURS, U32, unhex } from "../support/frames/index.ts";
import { connectTcp, get, Inbox, openSocket, post } from "../support/pool/doors.ts";
import { hubStub } from "../support/pool/hubs.ts";
import { bearerOf } from "../support/pool/tokens.ts";

const PATH = "/throttr/7.3/uint32";
const WHOAMI = unhex("18");
const WHOAMI_REPLY_BYTES = 17;
const UNKNOWN = unhex("ff");
const VALUE_BYTES = 1_000_000;
const REPLY_BYTES = VALUE_BYTES + 10;
const SET_BIG = U32.set("big", new Uint8Array(VALUE_BYTES), HOURS, 10n);
const GET_BIG = U32.get("big");
/** Replies of one call to a shard, beyond the window that was left when it began. */
const SECTION_BYTES = 2 * REPLY_BYTES;

/** A gateway's end of a connection. */
interface GatewayDoor {
  readonly socket: WebSocket;
  /** Bytes of replies and pushes. */
  readonly inbox: Inbox;
  /** Request bytes that the Hub has answered for good. */
  readonly consumedBytes: () => number;
  readonly receivedBytes: () => number;
  readonly closed: Promise<{ code: number; reason: string }>;
  /** What the gateway says of replies: the truth at once, unless a test sets something else. */
  onReplies: (bytes: number) => void;
}

async function openGateway(headers: Record<string, string> = {}): Promise<GatewayDoor> {
  const response = await get(PATH, {
    upgrade: "websocket",
    "sec-websocket-protocol": BRIDGE_SUBPROTOCOL,
    ...headers,
  });
  const socket = response.webSocket;
  if (socket === null) throw new Error(`${response.status}: ${await response.text()}`);
  expect(response.headers.get("sec-websocket-protocol")).toBe(BRIDGE_SUBPROTOCOL);
  const inbox = new Inbox();
  const closed = Promise.withResolvers<{ code: number; reason: string }>();
  let consumed = 0;
  let received = 0;
  socket.binaryType = "arraybuffer";
  const door: GatewayDoor = {
    socket,
    inbox,
    consumedBytes: () => consumed,
    receivedBytes: () => received,
    closed: closed.promise,
    onReplies: (bytes) => socket.send(drainedMessage(bytes)),
  };
  socket.addEventListener("message", ({ data }) => {
    const { consumedBytes, replies } = parseBridgeMessage(new Uint8Array(data as ArrayBuffer));
    consumed += consumedBytes;
    received += replies.length;
    inbox.push(replies);
    if (replies.length > 0) door.onReplies(replies.length);
  });
  socket.addEventListener("close", ({ code, reason }) => {
    inbox.end();
    closed.resolve({ code, reason });
  });
  socket.accept();
  return door;
}

/** What the Hub believes to be unread behind bridges, and of silent peers. */
const hubBytes = (namespace = "default"): Promise<{ backlog: number; silent: number }> =>
  runInDurableObject(hubStub(0, namespace), (hub) => ({
    backlog: hub.backlog.bytes,
    silent: hub.unread.bytes,
  }));

afterEach(async () => {
  await reset();
});

describe("an honest gateway", () => {
  it("an honest gateway gets replies with the number of request bytes that they answer", async () => {
    const door = await openGateway();
    door.socket.send(concat([WHOAMI, WHOAMI, WHOAMI.subarray(0, 0)]));
    expect(await door.inbox.take(2 * WHOAMI_REPLY_BYTES)).toHaveLength(2 * WHOAMI_REPLY_BYTES);
    expect(door.consumedBytes()).toBe(2);
    door.socket.close(1000);
  });

  it("a gateway's client is listed as a TCP connection, with the rights and namespace of its token", async () => {
    const headers = await bearerOf({ ns: "gateways", scopes: ["read", "admin"] });
    const door = await openGateway(headers);
    door.socket.send(concat([WHOAMI, SET_BIG]));
    const replies = await door.inbox.take(WHOAMI_REPLY_BYTES + 1);
    expect(replies.at(-1)).toBe(0);
    const body = await (await get("/v1/connections", headers)).json();
    expect(body).toMatchObject({
      connections: [{ id: hex(replies.subarray(1, WHOAMI_REPLY_BYTES)), transport: "tcp" }],
    });
    door.socket.close(1000);
  });

  it("an honest gateway gets any amount of replies at its own pace, and the end behind the last one", async () => {
    await post("7.3", "uint32", SET_BIG);
    const door = await openGateway();
    let untoldBytes = 0;
    door.onReplies = (bytes) => (untoldBytes += bytes);
    door.socket.send(concat(Array.from({ length: 20 }, () => GET_BIG)));
    door.socket.send("end");
    await door.inbox.take(REPLY_BYTES);
    await scheduler.wait(200);
    // Without credit nothing more comes, and what was sent is what the Hub knows to be unread.
    const heldBytes = door.receivedBytes();
    expect(heldBytes).toBeLessThan(BRIDGE_WINDOW_BYTES + SECTION_BYTES);
    expect(await hubBytes()).toMatchObject({ backlog: heldBytes });
    door.onReplies = (bytes) => door.socket.send(drainedMessage(bytes));
    door.socket.send(drainedMessage(untoldBytes));
    expect(await door.closed).toMatchObject({ code: 1000 });
    expect(door.receivedBytes()).toBe(20 * REPLY_BYTES);
    expect(await hubBytes()).toMatchObject({ backlog: 0 });
    door.socket.close(1000);
  });

  it("a request that waits until its client has read keeps the Hub awake", async () => {
    await post("7.3", "uint32", SET_BIG);
    const door = await openGateway();
    let untoldBytes = 0;
    door.onReplies = (bytes) => (untoldBytes += bytes);
    door.socket.send(GET_BIG);
    await door.inbox.take(REPLY_BYTES);
    // What is sent soon after has ended.
    await scheduler.wait(1200);
    const underWay = new Set<Promise<unknown>>();
    await runInDurableObject(hubStub(), (hub) => {
      const waitUntil = (work: Promise<unknown>): void => {
        underWay.add(work);
        void work.finally(() => underWay.delete(work));
      };
      Object.defineProperty(hub, "state", { value: { waitUntil } });
    });
    door.socket.send(WHOAMI);
    await expect.poll(() => underWay.size).toBe(1);
    expect(door.receivedBytes()).toBe(REPLY_BYTES);
    door.socket.send(drainedMessage(untoldBytes));
    await door.inbox.take(WHOAMI_REPLY_BYTES);
    await expect.poll(() => underWay.size).toBe(0);
    door.socket.close(1000);
  });

  it("a gateway's credit outlives hibernation", async () => {
    const door = await openGateway();
    for (let i = 0; i < 3; i++) {
      door.socket.send(WHOAMI);
      await door.inbox.take(WHOAMI_REPLY_BYTES);
      // What was drained is stored within a second.
      await scheduler.wait(1200);
      await evictAllDurableObjects();
      expect(await hubBytes()).toMatchObject({ backlog: 0 });
    }
    door.socket.close(1000);
  });
});

describe("a gateway of another release", () => {
  it("a gateway that speaks another version of the bridge protocol is refused with a code", async () => {
    const response = await get(PATH, {
      upgrade: "websocket",
      "sec-websocket-protocol": "throttr.bridge.2",
    });
    expect(response.status).toBe(400);
    expect(await response.json()).toMatchObject({
      code: "bridge_unsupported",
      detail: expect.stringContaining(BRIDGE_SUBPROTOCOL) as string,
    });
  });

  it("a gateway without a good token is refused as any WebSocket is", async () => {
    await expect(openGateway({ authorization: "Bearer a.b.c" })).rejects.toThrow(
      /401.*token_invalid/s,
    );
  });
});

describe("a lying gateway", () => {
  it.each([
    ["a negative number", "drained -5000"],
    ["a number beyond all that it was sent", "drained 1000000000"],
    ["one byte more than it was sent", `drained ${WHOAMI_REPLY_BYTES + 1}`],
    ["a number that no float holds", `drained ${"9".repeat(400)}`],
    ["a fraction", "drained 0.5"],
    ["infinity", "drained Infinity"],
    ["an exponent", "drained 1e1"],
    ["hexadecimal digits", "drained 0x1"],
    ["nothing", "drained "],
    ["zero", "drained 0"],
    ["white space beside the number", "drained  1"],
    ["that its client has gone, which only the Worker may say", "gone"],
    ["a word outside the protocol", "hello"],
  ])(
    "a gateway that reports %s is closed, and the Hub's count of unread bytes stays right",
    async (_, text) => {
      const honest = await openGateway();
      honest.onReplies = () => {};
      honest.socket.send(WHOAMI);
      await honest.inbox.take(WHOAMI_REPLY_BYTES);
      const door = await openGateway();
      door.onReplies = () => {};
      door.socket.send(WHOAMI);
      await door.inbox.take(WHOAMI_REPLY_BYTES);
      expect(await hubBytes()).toMatchObject({ backlog: 2 * WHOAMI_REPLY_BYTES });
      door.socket.send(text);
      expect(await door.closed).toMatchObject({
        code: 1008,
        reason: expect.stringMatching(/^bridge_invalid/) as string,
      });
      expect(await hubBytes()).toMatchObject({ backlog: WHOAMI_REPLY_BYTES });
      door.socket.close(1000);
      honest.socket.close(1000);
      await expect.poll(async () => (await hubBytes()).backlog).toBe(0);
    },
  );

  it("reports that come after the end of a gateway's connection change nothing", async () => {
    const other = await openGateway();
    other.onReplies = () => {};
    other.socket.send(WHOAMI);
    await other.inbox.take(WHOAMI_REPLY_BYTES);
    const door = await openGateway();
    door.onReplies = () => {};
    door.socket.send(WHOAMI);
    await door.inbox.take(WHOAMI_REPLY_BYTES);
    door.socket.send(UNKNOWN);
    for (let i = 0; i < 10; i++) door.socket.send(drainedMessage(WHOAMI_REPLY_BYTES));
    expect(await door.closed).toMatchObject({ code: 1002 });
    await scheduler.wait(50);
    expect(await hubBytes()).toMatchObject({ backlog: WHOAMI_REPLY_BYTES });
    door.socket.close(1000);
    other.socket.close(1000);
  });

  it("a gateway that reports all replies as read at once is sent no more than a plain WebSocket", async () => {
    await post("7.3", "uint32", SET_BIG);
    const gets = 100;
    const [gateway, plain] = await Promise.all([openGateway(), openSocket(PATH)]);
    // Each says that it is there as often as it can: the gateway by drained, the WebSocket by another request.
    const startMs = performance.now();
    const timeOf = async (done: Promise<unknown>): Promise<number> => {
      await done;
      return performance.now() - startMs;
    };
    const plainDone = async (): Promise<void> => {
      for (let i = 0; i < gets; i++) {
        plain.socket.send(GET_BIG);
        expect(await plain.inbox.take(REPLY_BYTES)).toHaveLength(REPLY_BYTES);
      }
    };
    const gatewayDone = async (): Promise<void> => {
      for (let i = 0; i < gets; i++) {
        gateway.socket.send(GET_BIG);
        expect(await gateway.inbox.take(REPLY_BYTES)).toHaveLength(REPLY_BYTES);
      }
    };
    const [gatewayMs, plainMs] = await Promise.all([timeOf(gatewayDone()), timeOf(plainDone())]);
    // 32 MiB ahead, then 16 MiB a second.
    const paceMs = ((gets - 1) * REPLY_BYTES - SECTION_BYTES - (32 << 20)) / (16 << 10);
    expect(gatewayMs).toBeGreaterThan(paceMs);
    expect(plainMs).toBeGreaterThan(paceMs);
    gateway.socket.close(1000);
    await plain.close();
  });

  it("a closed gateway counts as unread with all that it was sent until it has closed, too", async () => {
    await post("7.3", "uint32", SET_BIG);
    const door = await openGateway();
    door.onReplies = () => {};
    door.socket.send(concat([GET_BIG, GET_BIG, GET_BIG]));
    await door.inbox.take(REPLY_BYTES);
    await scheduler.wait(100);
    const heldBytes = door.receivedBytes();
    door.socket.send("hello");
    await door.closed;
    const { backlog, silent } = await hubBytes();
    expect(backlog).toBe(0);
    expect(silent).toBeGreaterThanOrEqual(heldBytes - (1 << 20));
    door.socket.close(1000);
    await expect.poll(async () => (await hubBytes()).silent).toBe(0);
  });

  it("a lying gateway changes nothing for TCP clients of the same Hub", async () => {
    await post("7.3", "uint32", SET_BIG);
    const unread = connectTcp(9004);
    const writer = (unread.writable as WritableStream<Uint8Array>).getWriter();
    await writer.write(concat([GET_BIG, GET_BIG, GET_BIG]));
    await expect.poll(async () => (await hubBytes()).backlog).toBeGreaterThan(REPLY_BYTES - 1);
    const { backlog } = await hubBytes();
    const liars = await Promise.all(Array.from({ length: 5 }, () => openGateway()));
    for (const { socket } of liars) socket.send(`drained ${backlog}`);
    await Promise.all(liars.map(({ closed }) => closed));
    expect(await hubBytes()).toMatchObject({ backlog });
    for (const { socket } of liars) socket.close(1000);
    await unread.close();
  });
});
