/** What WebSocket peers may have left unread. */
import { describe, expect, it } from "vitest";
import { HubUnread, Unread } from "../../src/objects/hub/unread.ts";

const MEBIBYTE = 1 << 20;
const SECOND_BYTES = 16_000 * 1024;

describe("replies to a peer that keeps asking", () => {
  it("replies are at most 32 MiB ahead of the estimated reading of a peer", () => {
    const unread = new Unread(new HubUnread());
    unread.send(32 * MEBIBYTE, 0);
    expect(unread.waitMs(0)).toBe(0);
    unread.send(SECOND_BYTES, 0);
    expect(unread.waitMs(0)).toBe(1000);
    expect(unread.waitMs(400)).toBe(600);
    expect(unread.waitMs(1000)).toBe(0);
  });

  it("replies are bounded over time, however often a peer asks", () => {
    const unread = new Unread(new HubUnread());
    let sent = 0;
    for (let ms = 0; ms < 60_000; ms += 10) {
      unread.hear();
      if (unread.waitMs(ms) > 0) continue;
      unread.send(MEBIBYTE, ms);
      sent += MEBIBYTE;
    }
    expect(sent).toBeLessThanOrEqual(33 * MEBIBYTE + 60 * SECOND_BYTES);
  });
});

describe("a silent peer of a Hub", () => {
  const peersOf = (hub: HubUnread, count: number): Unread[] =>
    Array.from({ length: count }, () => new Unread(hub));

  it("a silent peer is sent 32 MiB, and 1 MiB once silent peers were sent 64 MiB", () => {
    const hub = new HubUnread();
    const peers = peersOf(hub, 3);
    expect(hub.silentBytesMax).toBe(32 * MEBIBYTE);
    for (const peer of peers) peer.send(30 * MEBIBYTE, 0);
    expect(hub.silentBytesMax).toBe(MEBIBYTE);
    peers[0]!.hear();
    expect(hub.silentBytesMax).toBe(32 * MEBIBYTE);
  });

  it("the limit of a silent peer does not depend on how many peers were sent a little", () => {
    const hub = new HubUnread();
    for (const peer of peersOf(hub, 1000)) peer.send(MEBIBYTE, 0);
    expect(hub.silentBytesMax).toBe(32 * MEBIBYTE);
  });

  it("closed connections that their peers keep open count among the silent ones", () => {
    const hub = new HubUnread();
    const peers = peersOf(hub, 3);
    for (const peer of peers) {
      peer.send(20 * MEBIBYTE, 0);
      peer.close(5 * MEBIBYTE);
      // What a closed peer says does not show that it reads.
      peer.hear();
    }
    expect(hub.silentBytesMax).toBe(MEBIBYTE);
    for (const peer of peers) peer.release();
    expect(hub.bytes).toBe(0);
  });
});
