/** When a connection ends whose token has expired. */
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { EXPIRED_CONNECTION_MS } from "../../src/engine/sizes.ts";
import { ConnectionExpiry } from "../../src/objects/hub/connection-expiry.ts";

const START_MS = 1_700_000_000_000;
const LIFE_MS = 1000;

/** A connection, on which something is under way unless it is idle. */
class Host {
  isIdle = false;
  isEnded = false;
  readonly works: Promise<void>[] = [];
  isClosed = (): boolean => this.isEnded;
  onExpired = (): void => void (this.isEnded ||= this.isIdle);
  close = (): void => void (this.isEnded = true);
  wait = async (ms: number): Promise<void> => await new Promise((end) => setTimeout(end, ms));
  waitUntil = (work: Promise<void>): void => void this.works.push(work);
}

describe("a connection whose token expires", () => {
  let host: Host;
  let expiry: ConnectionExpiry;

  beforeEach(() => {
    vi.useFakeTimers({ now: START_MS });
    host = new Host();
    expiry = new ConnectionExpiry(START_MS + LIFE_MS, host);
  });

  afterEach(() => {
    vi.useRealTimers();
  });

  it("its end begins once, at the moment that the token says", () => {
    vi.setSystemTime(START_MS + LIFE_MS - 1);
    expect(expiry.check()).toBe(false);
    expect(expiry.dueAtMs).toBe(START_MS + LIFE_MS);
    vi.setSystemTime(START_MS + LIFE_MS);
    expect(expiry.check()).toBe(true);
    expect(expiry.dueAtMs).toBe(Infinity);
    // A clock that goes back gives nothing back.
    vi.setSystemTime(START_MS);
    expect(expiry.check()).toBe(true);
    expect(host.works).toHaveLength(1);
  });

  it("what is under way has 10 s", async () => {
    expiry.begin();
    await vi.advanceTimersByTimeAsync(EXPIRED_CONNECTION_MS - 1);
    expect(host.isEnded).toBe(false);
    await vi.advanceTimersByTimeAsync(1);
    expect(host.isEnded).toBe(true);
  });

  it("a connection that waits for its peer ends at once, and one that has waited does not", async () => {
    const room = Promise.withResolvers<void>();
    const waiting = expiry.waitFor(room.promise);
    expiry.begin();
    expect(host.isEnded).toBe(true);
    room.resolve();
    await waiting;
    const other = new Host();
    const before = new ConnectionExpiry(START_MS + LIFE_MS, other);
    await before.waitFor(Promise.resolve());
    await expect(before.waitFor(Promise.reject(new Error("closed")))).rejects.toThrow("closed");
    before.begin();
    expect(other.isEnded).toBe(false);
  });

  it("an idle connection keeps its Hub awake for nothing", () => {
    host.isIdle = true;
    expiry.begin();
    expect(host.works).toEqual([]);
  });

  it("an access without an end never ends", () => {
    vi.setSystemTime(START_MS * 10);
    expect(new ConnectionExpiry(null, host).check()).toBe(false);
  });
});
