/** How long a large unfinished frame is waited for, and with how many timers. */
import { beforeEach, describe, expect, it } from "vitest";
import { UnfinishedFrame } from "../../src/objects/hub/unfinished-frame.ts";

const TIMEOUT_MS = 30_000;

/** A Hub whose time moves when a test says so. */
class Host {
  ms = 1_700_000_000_000;
  /** Timers that run: when each ends, and what then goes on. */
  readonly timers: { readonly atMs: number; readonly end: () => void }[] = [];
  readonly timeouts: number[] = [];
  nowMs = (): number => this.ms;
  wait = async (ms: number): Promise<void> =>
    await new Promise((end) => {
      this.timers.push({ atMs: this.ms + ms, end });
    });
  waitUntil = (): void => {};
  onTimeout = (timeoutMs: number): void => void this.timeouts.push(timeoutMs);

  async pass(ms: number): Promise<void> {
    const untilMs = this.ms + ms;
    for (;;) {
      const next = this.timers.findIndex(({ atMs }) => atMs <= untilMs);
      if (next === -1) break;
      const [{ atMs, end }] = this.timers.splice(next, 1) as [{ atMs: number; end: () => void }];
      this.ms = Math.max(this.ms, atMs);
      end();
      for (let i = 0; i < 5; i++) await Promise.resolve();
    }
    this.ms = untilMs;
  }
}

describe("a large unfinished frame", () => {
  let host: Host;
  let frame: UnfinishedFrame;

  beforeEach(() => {
    host = new Host();
    frame = new UnfinishedFrame(TIMEOUT_MS, host);
  });

  /** More of the frame has come, and nothing else is under way. */
  const goOn = (): void => {
    frame.noteProgress();
    frame.stayAwake();
  };

  it("a frame that does not go on times out after STALL_TIMEOUT_MS from its last bytes", async () => {
    goOn();
    await host.pass(20_000);
    goOn();
    await host.pass(29_999);
    expect(host.timeouts).toEqual([]);
    await host.pass(1);
    expect(host.timeouts).toEqual([TIMEOUT_MS]);
  });

  it("a frame that comes in ten thousand pieces has one timer", async () => {
    for (let i = 0; i < 10_000; i++) goOn();
    expect(host.timers.length).toBe(1);
    await host.pass(TIMEOUT_MS);
    expect(host.timeouts).toEqual([TIMEOUT_MS]);
  });

  it("a frame times out after as long, whatever the clock is set to meanwhile", async () => {
    goOn();
    host.ms += 60_000;
    goOn();
    await host.pass(29_999);
    expect(host.timeouts).toEqual([]);
    host.ms -= 7_200_000;
    goOn();
    for (const timer of host.timers) Object.assign(timer, { atMs: host.ms });
    await host.pass(30_000);
    expect(host.timeouts).toEqual([TIMEOUT_MS]);
  });

  it("a frame that always goes on may take four timeouts in all", async () => {
    for (let s = 0; s < 119; s++) {
      goOn();
      await host.pass(1000);
    }
    goOn();
    expect(host.timeouts).toEqual([]);
    await host.pass(1000);
    goOn();
    expect(host.timeouts).toEqual([4 * TIMEOUT_MS]);
  });

  it("a frame that ends does not count for the next one", async () => {
    for (let s = 0; s < 300; s++) {
      goOn();
      await host.pass(1000);
      frame.end();
    }
    await host.pass(2 * TIMEOUT_MS);
    expect(host.timeouts).toEqual([]);
    expect(host.timers).toEqual([]);
  });
});
