/** What WebSocket peers may have left unread. */
import { describe, expect, it } from "vitest";
import { HubUnread, SocketFlow } from "../../src/objects/hub/socket-flow.ts";

const MEBIBYTE = 1 << 20;
const SECOND_BYTES = 16_000 * 1024;

/** A peer of a Hub whose clock moves only when a test says so. */
class Peer {
  ms = 0;
  /** How long was waited for. */
  readonly waits: number[] = [];
  readonly flow: SocketFlow;

  constructor(hub = new HubUnread()) {
    const host = {
      lastPingMs: () => 0,
      nowMs: () => this.ms,
      wait: async (ms: number) => void this.waits.push(ms),
    };
    this.flow = new SocketFlow(hub, host, { silentBytes: 0, unheardBytes: 0, seenPingMs: 0 });
  }

  /** How long further replies have to wait now, in ms. */
  async waitMs(): Promise<number> {
    const room = this.flow.room();
    await room;
    return room === null ? 0 : this.waits.at(-1)!;
  }
}

describe("replies to a peer that keeps asking", () => {
  it("replies are at most 32 MiB ahead of the estimated reading of a peer", async () => {
    const peer = new Peer();
    peer.flow.sendReplies(32 * MEBIBYTE);
    expect(await peer.waitMs()).toBe(0);
    peer.flow.sendReplies(SECOND_BYTES);
    expect(await peer.waitMs()).toBe(1000);
    peer.ms = 400;
    expect(await peer.waitMs()).toBe(600);
    peer.ms = 1000;
    expect(await peer.waitMs()).toBe(0);
  });

  it("replies are bounded over time, however often a peer asks", () => {
    const peer = new Peer();
    let sent = 0;
    for (; peer.ms < 60_000; peer.ms += 10) {
      peer.flow.hear();
      if (peer.flow.room() !== null) continue;
      peer.flow.sendReplies(MEBIBYTE);
      sent += MEBIBYTE;
    }
    expect(sent).toBeLessThanOrEqual(33 * MEBIBYTE + 60 * SECOND_BYTES);
  });
});

describe("a silent peer of a Hub", () => {
  const peersOf = (hub: HubUnread, count: number): SocketFlow[] =>
    Array.from({ length: count }, () => new Peer(hub).flow);

  it("a silent peer is sent 32 MiB, and 1 MiB once silent peers were sent 64 MiB", () => {
    const hub = new HubUnread();
    const peers = peersOf(hub, 3);
    expect(hub.silentBytesMax).toBe(32 * MEBIBYTE);
    for (const peer of peers) peer.sendReplies(30 * MEBIBYTE);
    expect(hub.silentBytesMax).toBe(MEBIBYTE);
    peers[0]!.hear();
    expect(hub.silentBytesMax).toBe(32 * MEBIBYTE);
  });

  it("the limit of a silent peer does not depend on how many peers were sent a little", () => {
    const hub = new HubUnread();
    for (const peer of peersOf(hub, 1000)) peer.sendReplies(MEBIBYTE);
    expect(hub.silentBytesMax).toBe(32 * MEBIBYTE);
  });

  it("closed connections that their peers keep open count among the silent ones", () => {
    const hub = new HubUnread();
    const peers = peersOf(hub, 3);
    for (const peer of peers) {
      peer.sendReplies(20 * MEBIBYTE);
      peer.sendPushes(5 * MEBIBYTE);
      peer.close();
      // What a closed peer says does not show that it reads.
      peer.hear();
    }
    expect(hub.silentBytesMax).toBe(MEBIBYTE);
    for (const peer of peers) peer.loseSocket();
    expect(hub.bytes).toBe(0);
  });

  it("a peer that is gone before its connection is closed leaves nothing unread", () => {
    const hub = new HubUnread();
    for (const peer of peersOf(hub, 20)) {
      peer.sendReplies(5 * MEBIBYTE);
      peer.sendPushes(8 * MEBIBYTE);
      peer.loseSocket();
      peer.close();
    }
    expect(hub.bytes).toBe(0);
  });
});
