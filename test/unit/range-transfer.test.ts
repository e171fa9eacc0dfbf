/** The way of a copied range to the shard that adopts it. */
import { afterEach, describe, expect, it, vi } from "vitest";
import type { AdoptOutcome } from "../../src/base/calls/splits.ts";
import type { CopiedRow } from "../../src/engine/copy-queue.ts";
import type { RangeCopy } from "../../src/engine/range-copy.ts";
import { SPLIT_RESEND_MS, SPLIT_SWITCH_MS, SPLIT_WAIT_MS } from "../../src/engine/sizes.ts";
import { AttemptFailed, RangeTransfer } from "../../src/objects/shard/range-transfer.ts";

/** A copy of some rows, and the other shard, which answers as the test says. */
class Bench {
  readonly offered: { readonly number: number; readonly atMs: number }[] = [];
  readonly transfer: RangeTransfer;
  isFull = false;
  nowMs = 0;

  /** @param isTimed waits take time */
  constructor(rows: number, answer: (offered: number) => Promise<AdoptOutcome>, isTimed = false) {
    const row: CopiedRow = { row: new Uint8Array(1), usage: new Uint8Array() };
    const left = Array.from({ length: rows }, () => row);
    const isFull = (): boolean => this.isFull;
    const copy: Pick<RangeCopy, "isFull" | "isTaken" | "next"> = {
      get isFull() {
        return isFull();
      },
      get isTaken() {
        return left.length === 0;
      },
      next: () => left.shift() ?? null,
    };
    const timers = {
      nowMs: () => this.nowMs,
      wait: async (ms: number) => {
        if (isTimed) await new Promise((resolve) => setTimeout(resolve, ms));
        this.nowMs += ms;
      },
      waitUntil: () => {},
    };
    this.transfer = new RangeTransfer(timers, copy as RangeCopy, async (number) => {
      this.offered.push({ number, atMs: this.nowMs });
      return await answer(this.offered.length);
    });
  }
}

const lost = async (): Promise<never> =>
  await Promise.reject(new Error("Network connection lost."));
const applied = async (): Promise<AdoptOutcome> => await Promise.resolve("applied");

afterEach(() => {
  vi.useRealTimers();
});

describe("a range on its way to another shard", () => {
  it("is not taken before the other shard has acknowledged its last row", async () => {
    const answer = Promise.withResolvers<AdoptOutcome>();
    const { transfer } = new Bench(1, async () => await answer.promise);
    const sent = transfer.send();
    expect(transfer.copy.isTaken).toBe(true);
    expect(transfer.isTaken).toBe(false);
    answer.resolve("applied");
    expect(await sent).toBe(true);
    expect(transfer.isTaken).toBe(true);
    expect(await transfer.send()).toBe(false);
  });

  it("is sent row by row, each under its number until it is acknowledged", async () => {
    const bench = new Bench(2, async (offered) => await (offered < 3 ? lost() : applied()));
    while (await bench.transfer.send());
    expect(bench.offered).toEqual([
      { number: 1, atMs: 0 },
      { number: 1, atMs: SPLIT_RESEND_MS },
      { number: 1, atMs: 2 * SPLIT_RESEND_MS },
      { number: 2, atMs: 2 * SPLIT_RESEND_MS },
    ]);
    expect(bench.transfer.isTaken).toBe(true);
  });

  it("fails where the other shard does not answer for a minute, or refuses a row", async () => {
    const silent = new Bench(1, lost);
    await expect(silent.transfer.send()).rejects.toThrow("Network connection lost.");
    expect(silent.offered.at(-1)!.atMs).toBe(SPLIT_WAIT_MS);
    expect(silent.transfer.isTaken).toBe(false);
    const lower = new Bench(1, async () => await Promise.resolve("lower"));
    await expect(lower.transfer.send()).rejects.toThrow(AttemptFailed);
    expect(lower.offered).toHaveLength(1);
  });

  it("fails where the other shard does not answer, and the clock has gone back by an hour", async () => {
    const bench = new Bench(1, async (offered) => {
      if (offered === 3) bench.nowMs -= 3_600_000;
      return await lost();
    });
    await expect(bench.transfer.send()).rejects.toThrow(AttemptFailed);
    expect(bench.offered.length).toBeLessThan(SPLIT_WAIT_MS / SPLIT_RESEND_MS);
  });

  it("fails where the call to the other shard, or what comes before the first row, hangs for a minute", async () => {
    vi.useFakeTimers();
    const hanging = async (): Promise<never> => await new Promise<never>(() => {});
    const bench = new Bench(1, hanging);
    const first = new Bench(1, applied);
    const failures = [bench.transfer.send(), first.transfer.prepare(hanging())].map(
      async (work) => await work.catch((error: unknown) => error),
    );
    const progress = [bench.transfer.progress!, first.transfer.progress!];
    await vi.advanceTimersByTimeAsync(SPLIT_WAIT_MS);
    // The rest of the minute in which a row is sent again.
    await vi.advanceTimersByTimeAsync(100 * SPLIT_WAIT_MS);
    for (const failure of await Promise.all(failures)) {
      expect(failure).toBeInstanceOf(AttemptFailed);
      expect(String(failure)).toContain(`no answer within ${SPLIT_WAIT_MS} ms`);
    }
    expect(await Promise.all(progress)).toEqual([undefined, undefined]);
    expect(bench.transfer.progress).toBeNull();
    expect(first.offered).toEqual([]);
  });

  it("commits wait for room while the other shard takes rows", async () => {
    const answers = [0, 1].map(() => Promise.withResolvers<AdoptOutcome>());
    const bench = new Bench(2, async (offered) => await answers[offered - 1]!.promise, true);
    bench.isFull = true;
    const sent = bench.transfer.send().then(async () => await bench.transfer.send());
    const { room } = bench.transfer;
    let hasRoom = false;
    void room!.then(() => (hasRoom = true));
    answers[0]!.resolve("applied");
    await new Promise((resolve) => setTimeout(resolve, 5));
    expect(hasRoom).toBe(false);
    bench.isFull = false;
    answers[1]!.resolve("applied");
    await Promise.all([sent, room]);
    expect(bench.transfer.room).toBeNull();
  });

  it("commits wait for a shard that hangs for a second, and not again before there was room", async () => {
    vi.useFakeTimers();
    const hanging = async (): Promise<never> => await new Promise<never>(() => {});
    const bench = new Bench(1, hanging, true);
    bench.isFull = true;
    void bench.transfer.send().catch(() => {});
    const { room } = bench.transfer;
    expect(room).toBe(bench.transfer.room);
    let hasEnded = false;
    void room!.then(() => (hasEnded = true));
    await vi.advanceTimersByTimeAsync(SPLIT_SWITCH_MS - 1);
    expect(hasEnded).toBe(false);
    await vi.advanceTimersByTimeAsync(1);
    expect(hasEnded).toBe(true);
    expect(bench.transfer.room).toBeNull();
    bench.isFull = false;
    expect(bench.transfer.room).toBeNull();
    bench.isFull = true;
    expect(bench.transfer.room).not.toBeNull();
  });

  it("is never taken once the attempt is given up", async () => {
    const bench = new Bench(1, applied);
    await bench.transfer.send();
    bench.transfer.stop();
    expect(bench.transfer.isTaken).toBe(false);
    await expect(bench.transfer.send()).rejects.toThrow("the attempt was given up");
  });

  it("commits wait for room also between two rows, when nothing is under way, and let others have a turn", async () => {
    const bench = new Bench(1, applied);
    bench.isFull = true;
    setTimeout(() => (bench.isFull = false), 0);
    let looks = 0;
    for (let room; (room = bench.transfer.room) !== null && looks < 1000; looks++) await room;
    expect(looks).toBeLessThan(1000);
  });

  it("commits don't wait for room once the attempt is given up", async () => {
    const bench = new Bench(1, applied, true);
    bench.isFull = true;
    const { room } = bench.transfer;
    bench.transfer.stop();
    await room;
    expect(bench.isFull).toBe(true);
  });
});
