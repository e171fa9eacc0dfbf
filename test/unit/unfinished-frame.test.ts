/** How long a large unfinished frame is waited for, and with how many timers. */
import { beforeEach, describe, expect, it } from "vitest";
import { UnfinishedFrame, UnfinishedFrames } from "../../src/objects/hub/unfinished-frame.ts";

const TIMEOUT_MS = 30_000;
/** Between two looks. */
const LOOK_MS = TIMEOUT_MS / 16;

/** A Hub whose time moves when a test says so. */
class Host {
  ms = 0;
  /** Timers that run: when each ends, and what then goes on. */
  readonly timers: { readonly atMs: number; readonly end: () => void }[] = [];
  readonly frames = new UnfinishedFrames(TIMEOUT_MS, {
    wait: async (ms) =>
      await new Promise((end) => {
        this.timers.push({ atMs: this.ms + ms, end });
      }),
    waitUntil: () => {},
  });

  async pass(ms: number): Promise<void> {
    const untilMs = this.ms + ms;
    for (;;) {
      const next = this.timers.findIndex(({ atMs }) => atMs <= untilMs);
      if (next === -1) break;
      const [{ atMs, end }] = this.timers.splice(next, 1) as [{ atMs: number; end: () => void }];
      this.ms = atMs;
      end();
      for (let i = 0; i < 5; i++) await Promise.resolve();
    }
    this.ms = untilMs;
  }
}

describe("a large unfinished frame", () => {
  let host: Host;
  let timeouts: number[];
  let frame: UnfinishedFrame;

  const newFrame = (): UnfinishedFrame =>
    new UnfinishedFrame(host.frames, (timeoutMs) => timeouts.push(timeoutMs));

  beforeEach(() => {
    host = new Host();
    timeouts = [];
    frame = newFrame();
  });

  /** More of the frame has come, and nothing else is under way. */
  const goOn = (): void => {
    frame.noteProgress();
    frame.stayAwake();
  };

  it("a frame that does not go on times out after STALL_TIMEOUT_MS from its last bytes, and at most a sixteenth later", async () => {
    goOn();
    await host.pass(20_000);
    goOn();
    await host.pass(TIMEOUT_MS - 1);
    expect(timeouts).toEqual([]);
    await host.pass(LOOK_MS + 1);
    expect(timeouts).toEqual([TIMEOUT_MS]);
    await host.pass(10 * TIMEOUT_MS);
    expect(timeouts).toEqual([TIMEOUT_MS]);
    expect(host.timers).toEqual([]);
  });

  it("a frame that comes in ten thousand pieces has one timer", async () => {
    for (let i = 0; i < 10_000; i++) goOn();
    expect(host.timers.length).toBe(1);
    await host.pass(TIMEOUT_MS + LOOK_MS);
    expect(timeouts).toEqual([TIMEOUT_MS]);
  });

  it("the frames of twenty thousand connections have one timer, also where the connections have ended since", async () => {
    const frames = Array.from({ length: 20_000 }, newFrame);
    for (const each of frames) each.stayAwake();
    expect(host.timers.length).toBe(1);
    for (const each of frames.slice(1)) each.end();
    for (const each of frames.slice(1, 100)) each.stayAwake();
    expect(host.timers.length).toBe(1);
    await host.pass(TIMEOUT_MS + LOOK_MS);
    expect(timeouts.length).toBe(100);
  });

  it("a frame that begins while others wait has a whole timeout", async () => {
    newFrame().stayAwake();
    await host.pass(10 * LOOK_MS - 1);
    goOn();
    await host.pass(TIMEOUT_MS - 1);
    expect(timeouts).toEqual([TIMEOUT_MS]);
    await host.pass(LOOK_MS + 1);
    expect(timeouts).toEqual([TIMEOUT_MS, TIMEOUT_MS]);
  });

  it("a frame that always goes on may take four timeouts in all", async () => {
    for (let s = 0; s < 120; s++) {
      goOn();
      await host.pass(1000);
    }
    expect(timeouts).toEqual([]);
    goOn();
    await host.pass(LOOK_MS);
    expect(timeouts).toEqual([4 * TIMEOUT_MS]);
  });

  it("a frame that ends does not count for the next one", async () => {
    for (let s = 0; s < 300; s++) {
      goOn();
      await host.pass(1000);
      frame.end();
    }
    await host.pass(2 * TIMEOUT_MS);
    expect(timeouts).toEqual([]);
    expect(host.timers).toEqual([]);
  });
});
