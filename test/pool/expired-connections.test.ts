/** What a connection, or a body, may still do once its token has expired. A peer that reads slowly must not make that last longer. */
import { reset, runDurableObjectAlarm } from "cloudflare:test";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { Shard } from "../../src/objects/shard/shard.ts";
import { BRIDGE_SUBPROTOCOL } from "../../src/wire/bridge.ts";
import { concat, hex, HOURS, subscribe, U32, WHOAMI } from "../support/frames/index.ts";
import { openSocket, post, type SocketDoor } from "../support/pool/doors.ts";
import { hubStub } from "../support/pool/hubs.ts";
import { calling } from "../support/pool/v1-calls.ts";
import { bearerOf, nowS } from "../support/pool/tokens.ts";

const NAMESPACE = "expired";
const PATH = "/throttr/7.3/uint32";
const LIFE_S = 1000;
const VALUE_BYTES = 300 << 10;
// All on one key, and so in one shard: another shard would apply the PURGE at once.
const GET_BIG = U32.get("big");
const PURGE_BIG = U32.purge("big");
const EXPIRED = { code: 1008, reason: expect.stringMatching(/^token_expired/) as string };

const bearer = async (lifeS = LIFE_S): Promise<{ authorization: string }> =>
  await bearerOf({ ns: NAMESPACE, exp: nowS() + lifeS, iat: nowS(), jti: "slow" });

/** Sends requests as another caller, whose token does not expire. @returns the replies in hex */
async function send(...frames: Uint8Array[]): Promise<string> {
  const headers = await bearerOf({ ns: NAMESPACE });
  const response = await post("7.3", "uint32", concat(frames), headers);
  return hex(new Uint8Array(await response.arrayBuffer()));
}

/** Expects that the PURGE behind the GETs was not applied: the record is still there. */
async function expectBig(): Promise<void> {
  expect((await send(GET_BIG)).slice(0, 2)).toBe("01");
}

/** Moves the clock to the end of the tokens of `bearer`; no timer and no alarm notices that by itself. */
const expire = (): void => {
  vi.useFakeTimers({ toFake: ["Date"], now: Date.now() + LIFE_S * 1000 });
};

const ringAlarm = async (): Promise<void> => {
  await runDurableObjectAlarm(hubStub(0, NAMESPACE));
};

/** Holds the next call to a shard. @returns lets the call go on */
function holdShard(): () => void {
  const held = Promise.withResolvers<void>();
  vi.spyOn(Shard.prototype, "apply").mockImplementationOnce(async function (this: Shard, ...call) {
    await held.promise;
    return await Shard.prototype.apply.apply(this, call);
  });
  return held.resolve;
}

/** Gives messages that are under way the time to arrive. */
const settle = async (): Promise<void> => {
  await scheduler.wait(100);
};

beforeEach(async () => {
  vi.spyOn(console, "warn").mockImplementation(() => {});
  await send(U32.set("big", new Uint8Array(VALUE_BYTES), HOURS, 10n));
});

afterEach(async () => {
  vi.useRealTimers();
  vi.restoreAllMocks();
  await reset();
});

/** A gateway that never says that its client has read anything: its second GET waits. */
async function openStalled(): Promise<SocketDoor> {
  const door = await openSocket(PATH, {
    "sec-websocket-protocol": BRIDGE_SUBPROTOCOL,
    ...(await bearer()),
  });
  door.socket.send(subscribe("news"));
  await door.inbox.take(5);
  door.socket.send(concat([GET_BIG, GET_BIG, PURGE_BIG]));
  await door.inbox.take(VALUE_BYTES);
  await settle();
  await door.inbox.take(0);
  return door;
}

describe("a connection whose token has expired", () => {
  it("the alarm ends a connection that waits for its peer, and nothing more of it is applied", async () => {
    const door = await openStalled();
    expire();
    await ringAlarm();
    expect(await door.closed).toMatchObject(EXPIRED);
    await expectBig();
  });

  it("a push ends a connection instead of reaching it, before the alarm rings", async () => {
    const door = await openStalled();
    expire();
    await send(U32.publish("news", "secret"));
    expect(await door.closed).toMatchObject(EXPIRED);
    expect(await door.inbox.take(0)).toHaveLength(0);
  });

  it("room for further replies ends a connection instead of reading more, before the alarm rings", async () => {
    const door = await openSocket(PATH, await bearer());
    const release = holdShard();
    door.socket.send(concat([...Array.from({ length: 20 }, () => GET_BIG), PURGE_BIG]));
    await settle();
    expire();
    release();
    expect(await door.closed).toMatchObject(EXPIRED);
    await expectBig();
  });

  /** A connection whose request was under way at a shard when its token expired; `release` lets the shard answer. */
  async function openWaiting(): Promise<{ door: SocketDoor; release: () => void }> {
    const door = await openSocket(PATH, await bearer());
    const release = holdShard();
    door.socket.send(U32.query("absent"));
    await settle();
    expire();
    await ringAlarm();
    return { door, release };
  }

  it("what is under way at a shard is answered, then the connection ends", async () => {
    const { door, release } = await openWaiting();
    door.socket.send(WHOAMI);
    release();
    expect(await door.closed).toMatchObject(EXPIRED);
    expect(hex(await door.inbox.take(100))).toBe("00");
  });

  it("a connection ends after 10 s where a shard does not answer", async () => {
    const { door, release } = await openWaiting();
    const waiting = scheduler.wait(8000).then(() => "open");
    expect(await Promise.race([door.closed, waiting])).toBe("open");
    expect(await door.closed).toMatchObject(EXPIRED);
    release();
  });
});

describe("a body whose token ends while its response is read", () => {
  /** 20 GETs with a write behind them, of which the client has read a little. */
  async function beginReading(): Promise<ReadableStreamDefaultReader<Uint8Array>> {
    const frames = concat([...Array.from({ length: 20 }, () => GET_BIG), PURGE_BIG]);
    const response = await post("7.3", "uint32", frames, await bearer());
    const reader = (response.body as ReadableStream<Uint8Array>).getReader();
    await reader.read();
    return reader;
  }

  async function readAll(reader: ReadableStreamDefaultReader<Uint8Array>): Promise<void> {
    while (!(await reader.read()).done);
  }

  it("a body whose token expires is cut off, and its writes are not applied", async () => {
    const reader = await beginReading();
    expire();
    await expect(readAll(reader)).rejects.toThrow("token_expired");
    await expectBig();
  });

  it("a body whose token is revoked is cut off, and its writes are not applied", async () => {
    const reader = await beginReading();
    const call = calling(await bearerOf({ ns: NAMESPACE, iat: nowS() }));
    await call("POST", "/v1/tokens/revocations", { json: { id: "slow" } });
    await expect(readAll(reader)).rejects.toThrow("token_revoked");
    await expectBig();
  });

  it("a body whose token expires does not go on because its client has gone", async () => {
    const reader = await beginReading();
    expire();
    await reader.cancel();
    await settle();
    await expectBig();
  });
});
