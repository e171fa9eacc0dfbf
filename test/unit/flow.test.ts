import { describe, expect, it } from "vitest";
import { BRIDGE_WINDOW_BYTES, DRAINED_PORTION_BYTES } from "../../src/wire/bridge.ts";
import { BridgeFlow, HubBacklog } from "../../src/objects/hub/bridge-flow.ts";
import { Flow, type StoredFlow } from "../../src/objects/hub/flow.ts";
import { HubUnread, SocketFlow } from "../../src/objects/hub/socket-flow.ts";

const MEBIBYTE = 1 << 20;
const NEW: StoredFlow = { undrainedBytes: 0, unheardBytes: 0 };

/** A Hub whose clock stands still, and whose client has sent `ping` at `pingMs`. */
class Host {
  readonly backlog = new HubBacklog();
  readonly unread = new HubUnread();
  readonly pushBytesMax = MEBIBYTE;
  ms = 0;
  pingMs = 0;
  /** How long was waited for. */
  readonly waits: number[] = [];
  lastPingMs = (): number => this.pingMs;
  nowMs = (): number => this.ms;
  wait = async (ms: number): Promise<void> => {
    this.waits.push(ms);
  };
}

const webSocket = (host: Host, stored = NEW): Flow => new Flow(false, false, stored, host);
const bridge = (host: Host, stored = NEW): Flow => new Flow(true, true, stored, host);
const gateway = (host: Host, stored = NEW): Flow => new Flow(true, false, stored, host);

describe("BridgeFlow", () => {
  it("BridgeFlow has room for a further call while at most a window of replies is not drained", () => {
    const flow = new BridgeFlow(new HubBacklog(), 0);
    flow.send(BRIDGE_WINDOW_BYTES);
    expect(flow.room()).toBeNull();
    flow.send(1);
    expect(flow.room()).toBeInstanceOf(Promise);
  });

  it("BridgeFlow lets the next call go on as soon as the client has read back to a window", async () => {
    const flow = new BridgeFlow(new HubBacklog(), 0);
    flow.send(BRIDGE_WINDOW_BYTES + 100);
    const room = flow.room();
    flow.drain(99);
    expect(flow.room()).toBe(room);
    flow.drain(1);
    await room;
    expect(flow.room()).toBeNull();
  });

  it("BridgeFlow counts no more as drained than was sent, so the Hub's backlog never falls below zero", () => {
    const hub = new HubBacklog();
    const flow = new BridgeFlow(hub, 10);
    flow.drain(1000);
    expect([flow.undrainedBytes, hub.bytes]).toEqual([0, 0]);
  });

  it("BridgeFlow gives the Hub its backlog back, and ends waiting calls, when the connection is closed", async () => {
    const hub = new HubBacklog();
    const flow = new BridgeFlow(hub, 0);
    flow.send(2 * BRIDGE_WINDOW_BYTES);
    const room = flow.room();
    flow.close();
    expect(hub.bytes).toBe(0);
    await expect(room).rejects.toThrow("closed");
  });
});

describe("SocketFlow", () => {
  const flowOf = (host: Host): SocketFlow =>
    new SocketFlow(host.unread, host, { silentBytes: 0, unheardBytes: 0, seenPingMs: 0 });

  it("SocketFlow paces a peer that keeps asking to its estimated reading", async () => {
    const host = new Host();
    const flow = flowOf(host);
    flow.sendReplies(32 * MEBIBYTE);
    expect(flow.room()).toBeNull();
    flow.sendReplies(1000 << 14);
    await flow.room();
    expect(host.waits).toEqual([1000]);
  });

  it("SocketFlow ends a wait with an error when the connection has closed meanwhile", async () => {
    const flow = flowOf(new Host());
    flow.sendReplies(33 * MEBIBYTE);
    const room = flow.room();
    flow.close();
    await expect(room).rejects.toThrow("closed");
  });

  it("SocketFlow counts a ping as a sign of life once", () => {
    const host = new Host();
    const flow = flowOf(host);
    flow.sendPushes(100);
    host.pingMs = 5;
    expect([flow.hearPing(), flow.unheardBytes]).toEqual([true, 0]);
    flow.sendPushes(100);
    expect([flow.hearPing(), flow.unheardBytes]).toEqual([false, 100]);
  });
});

describe("Flow", () => {
  it("Flow refuses more pushes to a silent WebSocket client than it may leave unread, unless it has sent a ping", () => {
    const host = new Host();
    const flow = webSocket(host);
    flow.sendPushes(MEBIBYTE);
    expect(flow.refusePushes(1)?.reason).toMatch(/^push_bytes: /);
    host.pingMs = 1;
    expect(flow.refusePushes(1)).toBeNull();
  });

  it("Flow takes no ping from before the pushes as a sign that they were read, also once its Hub has slept", () => {
    const host = new Host();
    host.pingMs = 5;
    const flow = webSocket(host);
    flow.sendPushes(MEBIBYTE);
    expect(flow.refusePushes(1)?.reason).toMatch(/^push_bytes: /);
    const later = webSocket(host, flow.stored());
    expect(later.refusePushes(1)?.reason).toMatch(/^push_bytes: /);
    host.pingMs = 6;
    expect(later.refusePushes(1)).toBeNull();
  });

  it("Flow takes a ping from before a push as a sign that the replies before it were read", () => {
    const host = new Host();
    const flow = webSocket(host);
    flow.sendReplies(31 * MEBIBYTE, 31 * MEBIBYTE);
    host.pingMs = 5;
    flow.sendPushes(1);
    flow.sendReplies(2 * MEBIBYTE, 2 * MEBIBYTE);
    expect(flow.refuseReplies()).toBeNull();
  });

  it("clients behind bridges that owe a report of less than a portion do not make the Hub's backlog tight", () => {
    const host = new Host();
    const flows = Array.from({ length: 2000 }, () => bridge(host));
    for (const flow of flows) flow.sendPushes(64 << 10);
    expect(host.backlog.isTight).toBe(false);
    for (const flow of flows) flow.sendPushes(64 << 10);
    expect(host.backlog.isTight).toBe(true);
    for (const flow of flows) flow.close();
    expect(host.backlog.unreadBytes).toBe(0);
  });

  it("Flow refuses further replies to a client that asks for 32 MiB at once and then stays silent", () => {
    const flow = webSocket(new Host());
    flow.sendReplies(32 * MEBIBYTE + 1, 32 * MEBIBYTE + 1);
    expect(flow.refuseReplies()?.reason).toMatch(/^reply_bytes: /);
    flow.hear();
    expect(flow.refuseReplies()).toBeNull();
  });

  it("Flow leaves a client behind a bridge one window of pushes while the Hub's backlog is tight", () => {
    const host = new Host();
    const flow = bridge(host);
    expect(flow.refusePushes(MEBIBYTE)).toBeNull();
    host.backlog.unreadBytes += 33 * MEBIBYTE;
    flow.sendPushes(DRAINED_PORTION_BYTES);
    const left = BRIDGE_WINDOW_BYTES - DRAINED_PORTION_BYTES;
    expect(flow.refusePushes(left)).toBeNull();
    expect(flow.refusePushes(left + 1)?.reason).toMatch(/^push_bytes: /);
  });

  it("Flow gives a peer that has read everything one push of any size, and counts those that are held back", () => {
    for (const make of [webSocket, bridge, gateway]) {
      const host = new Host();
      const flow = make(host);
      expect(flow.refusePushes(2 * MEBIBYTE)).toBeNull();
      expect(flow.refusePushes(2 * MEBIBYTE, 1)?.reason).toMatch(/^push_bytes: /);
      flow.sendPushes(2 * MEBIBYTE);
      expect(flow.refusePushes(1)?.reason).toMatch(/^push_bytes: /);
    }
  });

  it("Flow takes less than a portion that a bridge has not reported for read", () => {
    const flow = bridge(new Host());
    flow.sendReplies(DRAINED_PORTION_BYTES - 1, DRAINED_PORTION_BYTES + 3);
    expect(flow.refusePushes(2 * MEBIBYTE)).toBeNull();
    flow.sendReplies(1, 5);
    expect(flow.refusePushes(2 * MEBIBYTE)?.reason).toMatch(/^push_bytes: /);
  });

  it("Flow believes the Worker's bridge, and no gateway that has drained more than it was sent", () => {
    for (const [flow, isBelieved] of [
      [bridge(new Host()), true],
      [gateway(new Host()), false],
    ] as const) {
      flow.sendReplies(10, 14);
      expect(flow.drain(10)).toBe(true);
      expect(flow.drain(1)).toBe(isBelieved);
    }
  });

  it("Flow paces a gateway that drains everything at once like a WebSocket client", async () => {
    const host = new Host();
    const flow = gateway(host);
    flow.sendReplies(33 * MEBIBYTE, 33 * MEBIBYTE);
    flow.drain(33 * MEBIBYTE);
    await flow.room();
    expect(host.waits).toEqual([64]);
  });

  it("Flow continues after hibernation from its stored counts", () => {
    for (const make of [webSocket, bridge, gateway]) {
      const before = make(new Host());
      before.sendReplies(1000, 1000);
      before.sendPushes(10);
      const stored = before.stored();
      expect(make(new Host(), stored).stored()).toEqual(stored);
    }
  });
});
