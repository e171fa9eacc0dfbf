/** What WebSocket peers may have left unread. */
import { describe, expect, it } from "vitest";
import { HubUnread, Unread } from "../../src/objects/hub/unread.ts";

const MEBIBYTE = 1 << 20;
const SECOND_BYTES = 16_000 * 1024;

describe("replies to a peer that goes on asking", () => {
  it("are 32 MiB ahead of what it is believed to read, and wait then", () => {
    const unread = new Unread(new HubUnread());
    unread.send(32 * MEBIBYTE, 0);
    expect(unread.waitMs(0)).toBe(0);
    unread.send(SECOND_BYTES, 0);
    expect(unread.waitMs(0)).toBe(1000);
    expect(unread.waitMs(400)).toBe(600);
    expect(unread.waitMs(1000)).toBe(0);
  });

  it("are bounded over time, however often it asks", () => {
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

describe("what a silent peer of a Hub may be sent", () => {
  const peersOf = (hub: HubUnread, count: number): Unread[] =>
    Array.from({ length: count }, () => new Unread(hub));

  it("is 32 MiB, and 1 MiB where silent peers were sent 64 MiB, until they are heard of", () => {
    const hub = new HubUnread();
    const peers = peersOf(hub, 3);
    expect(hub.silentBytesMax).toBe(32 * MEBIBYTE);
    for (const peer of peers) peer.send(30 * MEBIBYTE, 0);
    expect(hub.silentBytesMax).toBe(MEBIBYTE);
    peers[0]!.hear();
    expect(hub.silentBytesMax).toBe(32 * MEBIBYTE);
  });

  it("does not depend on how many peers were sent a little", () => {
    const hub = new HubUnread();
    for (const peer of peersOf(hub, 1000)) peer.send(MEBIBYTE, 0);
    expect(hub.silentBytesMax).toBe(32 * MEBIBYTE);
  });

  it("is less as long as connections that were closed are kept by their peers", () => {
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
