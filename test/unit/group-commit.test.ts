import fc from "fast-check";
import { afterEach, expect, inject, it, vi } from "vitest";
import { GroupCommit } from "../../src/objects/shard/group-commit.ts";

afterEach(() => {
  vi.useRealTimers();
});

/** A host that keeps changes and rows in lists, with a disk that is as slow as a test wants it. */
class Host {
  changes: string[] = [];
  readonly rows: string[][] = [];
  /** Which of the rows had to be written at once. */
  readonly due: boolean[] = [];
  /** Resolves the commit that is on its way to the disk. */
  endSync: () => void = () => {};
  readonly #waits: { ms: number; resolve: () => void }[] = [];

  hasChanges = (): boolean => this.changes.length > 0;
  write = async (isDue: boolean): Promise<void> => {
    this.due.push(isDue);
    this.rows.push(this.changes);
    this.changes = [];
  };
  sync = async (): Promise<void> => await new Promise((resolve) => (this.endSync = resolve));
  wait = async (ms: number): Promise<void> =>
    await new Promise((resolve) => this.#waits.push({ ms, resolve }));
  /** What keeps the object awake. */
  readonly kept: Promise<void>[] = [];
  waitUntil = (work: Promise<void>): void => {
    this.kept.push(work);
  };

  /** Ends all waits, and returns how long they were. */
  endWaits(): number[] {
    for (const { resolve } of this.#waits) resolve();
    return this.#waits.splice(0).map(({ ms }) => ms);
  }
}

/** Applies a change, and flushes it. */
function call(host: Host, commits: GroupCommit, change: string, isRelaxed = false): Promise<void> {
  host.changes.push(change);
  return commits.flush(isRelaxed);
}

const turns = async (): Promise<void> => await new Promise((resolve) => setTimeout(resolve, 5));

it("a group commit writes at once while the disk is idle", async () => {
  const host = new Host();
  const commits = new GroupCommit(host, true);
  void call(host, commits, "a");
  expect(host.rows).toEqual([["a"]]);
});

it("a group commit writes one row for all calls that came while the last row was on its way", async () => {
  const host = new Host();
  const commits = new GroupCommit(host, true);
  await call(host, commits, "a");
  const calls = ["b", "c", "d"].map((change) => call(host, commits, change));
  await turns();
  expect(host.rows).toEqual([["a"]]);
  host.endSync();
  await Promise.all(calls);
  expect(host.rows).toEqual([["a"], ["b", "c", "d"]]);
});

it("a row that relaxed calls have waited for is due, also where it is the next flush of strict calls", async () => {
  const host = new Host();
  const commits = new GroupCommit(host, true);
  await call(host, commits, "a", true);
  expect(host.endWaits()).toEqual([50]);
  await turns();
  const calls = [call(host, commits, "b", true), call(host, commits, "c")];
  host.endWaits();
  await turns();
  host.endSync();
  await Promise.all(calls);
  expect(host.rows).toEqual([["a"], ["b", "c"]]);
  expect(host.due).toEqual([true, true]);
  host.endSync();
  await turns();
  void call(host, commits, "d");
  host.endSync();
  await turns();
  expect(host.due).toEqual([true, true, false]);
});

it("a group commit goes back to writing at once after a flush of a single call", async () => {
  const host = new Host();
  const commits = new GroupCommit(host, true);
  await call(host, commits, "a");
  const shared = Promise.all([call(host, commits, "b"), call(host, commits, "c")]);
  host.endSync();
  await shared;
  const alone = call(host, commits, "d");
  host.endSync();
  await alone;
  host.endSync();
  await turns();
  void call(host, commits, "e");
  expect(host.rows.at(-1)).toEqual(["e"]);
});

it("a group commit lets a call that saw no unwritten change go at once", async () => {
  const host = new Host();
  const commits = new GroupCommit(host, true);
  await call(host, commits, "a");
  await commits.flush();
  expect(host.rows).toEqual([["a"]]);
});

it("a relaxed group commit answers first, and writes all changes of 50 ms as one row", async () => {
  const host = new Host();
  const commits = new GroupCommit(host, false);
  await call(host, commits, "a");
  await call(host, commits, "b");
  expect(host.rows).toEqual([]);
  expect(host.endWaits()).toEqual([50]);
  await turns();
  expect(host.rows).toEqual([["a", "b"]]);
});

it("a strict call flushes what a relaxed call before it has changed, and the timer writes no empty row", async () => {
  const host = new Host();
  const commits = new GroupCommit(host, true);
  await call(host, commits, "relaxed", true);
  expect(host.rows).toEqual([]);
  await call(host, commits, "strict");
  expect(host.rows).toEqual([["relaxed", "strict"]]);
  expect(host.endWaits()).toEqual([50]);
  await turns();
  expect(host.rows).toHaveLength(1);
});

it("a strict call that only reads flushes what a relaxed call has changed, and a relaxed one does not wait", async () => {
  const host = new Host();
  const commits = new GroupCommit(host, true);
  await call(host, commits, "a", true);
  await commits.flush(true);
  expect(host.rows).toEqual([]);
  await commits.flush();
  expect(host.rows).toEqual([["a"]]);
});

it("a relaxed call after a strict one gets a row from the timer that was set before", async () => {
  const host = new Host();
  const commits = new GroupCommit(host, true);
  await call(host, commits, "a", true);
  await call(host, commits, "b");
  await call(host, commits, "c", true);
  expect(host.endWaits()).toEqual([50]);
  await turns();
  expect(host.rows).toEqual([["a", "b"], ["c"]]);
  await call(host, commits, "d", true);
  expect(host.endWaits()).toEqual([50]);
  await turns();
  expect(host.rows.at(-1)).toEqual(["d"]);
});

it("a timer that ends while strict calls wait for a commit leaves its changes to their row", async () => {
  const host = new Host();
  const commits = new GroupCommit(host, true);
  await call(host, commits, "a");
  await call(host, commits, "relaxed", true);
  const strict = call(host, commits, "strict");
  host.endWaits();
  await turns();
  expect(host.rows).toEqual([["a"]]);
  host.endSync();
  await strict;
  expect(host.rows).toEqual([["a"], ["relaxed", "strict"]]);
});

it("a hundred relaxed calls within 50 ms are one row, however many of them only read", async () => {
  const host = new Host();
  const commits = new GroupCommit(host, true);
  for (let i = 0; i < 100; i++) {
    await call(host, commits, `${i}`, true);
    await commits.flush(true);
  }
  expect(host.endWaits()).toEqual([50]);
  // The object stays awake until the row is written, and no longer.
  await Promise.all(host.kept);
  expect(host.kept).toHaveLength(1);
  expect(host.rows.map((row) => row.length)).toEqual([100]);
});

it("strict calls are never answered before their row, relaxed changes have one within 50 ms, and no row is empty", async () => {
  vi.useFakeTimers();
  const happening = fc.oneof(
    fc.record({ relaxed: fc.boolean(), writes: fc.boolean() }),
    fc.record({ passMs: fc.integer({ min: 1, max: 60 }) }),
    fc.constant("sync" as const),
  );
  const property = fc.asyncProperty(fc.array(happening, { maxLength: 60 }), async (happenings) => {
    const host = new Host();
    host.wait = async (ms) => await new Promise((resolve) => setTimeout(resolve, ms));
    const commits = new GroupCommit(host, true);
    /** When each change was made that no row has, by its name. */
    const madeAtMs = new Map<string, number>();
    let made = 0;
    let strictCalls = 0;
    const startedAtMs = Date.now();
    const { write } = host;
    host.write = async (isDue) => {
      for (const change of host.changes) madeAtMs.delete(change);
      await write(isDue);
    };
    const written = (): number => host.rows.flat().length;
    /** What each strict call has seen that no row had when it was answered. */
    const strict: Promise<number>[] = [];
    for (const event of happenings) {
      if (event === "sync") host.endSync();
      else if ("passMs" in event) await vi.advanceTimersByTimeAsync(event.passMs);
      else {
        if (event.writes) {
          const change = `${made++}`;
          host.changes.push(change);
          madeAtMs.set(change, Date.now());
        }
        const seen = made;
        const flushed = commits.flush(event.relaxed);
        if (event.relaxed) {
          const waited = await Promise.race([flushed.then(() => "answered"), turnOfPromises()]);
          expect(waited).toBe("answered");
        } else {
          strictCalls++;
          strict.push(flushed.then(() => seen - written()));
        }
      }
      await vi.advanceTimersByTimeAsync(0);
      // While a commit is on its way, strict calls share the next row, and what is relaxed shares it, too.
      const isOverdue = [...madeAtMs.values()].some((atMs) => Date.now() - atMs > 50);
      if (isOverdue) {
        host.endSync();
        await vi.advanceTimersByTimeAsync(1);
        expect([...madeAtMs.values()].some((atMs) => Date.now() - atMs > 51)).toBe(false);
      }
    }
    for (let i = 0; i < 3; i++) {
      host.endSync();
      await vi.advanceTimersByTimeAsync(60);
    }
    expect(Math.max(0, ...(await Promise.all(strict)))).toBe(0);
    expect(written()).toBe(made);
    expect(host.rows.filter((row) => row.length === 0)).toEqual([]);
    expect(host.rows.length).toBeLessThanOrEqual(
      strictCalls + Math.ceil((Date.now() - startedAtMs) / 50),
    );
  });
  await fc.assert(property, { seed: inject("seed"), numRuns: 500 });
});

/** Resolves after promises that are settled already, however many steps they take. */
async function turnOfPromises(): Promise<string> {
  for (let i = 0; i < 20; i++) await Promise.resolve();
  return "waiting";
}

it("a group commit fails every call whose row could not be written", async () => {
  const host = new Host();
  const commits = new GroupCommit(host, true);
  await call(host, commits, "a");
  host.write = async () => {
    throw new Error("disk full");
  };
  const calls = Promise.allSettled([call(host, commits, "b"), call(host, commits, "c")]);
  host.endSync();
  expect((await calls).map(({ status }) => status)).toEqual(["rejected", "rejected"]);
});
