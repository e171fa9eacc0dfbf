import { expect, it } from "vitest";
import { GroupCommit } from "../../src/objects/shard/group-commit.ts";

/** A host that keeps changes and rows in lists, with a disk that is as slow as a test wants it. */
class Host {
  changes: string[] = [];
  readonly rows: string[][] = [];
  /** Resolves the commit that is on its way to the disk. */
  endSync: () => void = () => {};
  readonly #waits: { ms: number; resolve: () => void }[] = [];

  hasChanges = (): boolean => this.changes.length > 0;
  write = async (): Promise<void> => {
    this.rows.push(this.changes);
    this.changes = [];
  };
  sync = async (): Promise<void> => await new Promise((resolve) => (this.endSync = resolve));
  wait = async (ms: number): Promise<void> =>
    await new Promise((resolve) => this.#waits.push({ ms, resolve }));
  waitUntil = (): void => {};

  /** Ends all waits, and returns how long they were. */
  endWaits(): number[] {
    for (const { resolve } of this.#waits) resolve();
    return this.#waits.splice(0).map(({ ms }) => ms);
  }
}

/** Applies a change, and flushes it. */
function call(host: Host, commits: GroupCommit, change: string): Promise<void> {
  host.changes.push(change);
  return commits.flush();
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
