/** Counts that outlive the object: they go with commits, and come back with their rows. */
import fc from "fast-check";
import { describe, expect, inject, it } from "vitest";
import { Engine } from "../../src/engine/engine.ts";
import {
  imageBytes,
  imageKind,
  ImageKind,
  Mark,
  ROW_HEADER_BYTES,
} from "../../src/engine/image.ts";
import { LimitFigures } from "../../src/engine/limit-figures.ts";
import { LIMIT_NAMES_MAX } from "../../src/engine/sizes.ts";
import { StoredCounts } from "../../src/engine/stored-counts.ts";
import { countsAt, Tally, TALLY_READ_BYTES, TALLY_YRMCDS_RELEASE } from "../../src/engine/tally.ts";
import { Command } from "../../src/wire/edge/command.ts";
import {
  batchIn,
  bytesOf,
  configurationBytes,
  EDGE,
  FOREVER,
  increment,
  limit,
} from "../support/frames/index.ts";
import { runs } from "../support/runs.ts";

const seed = inject("seed");
const NOW_MS = 1_700_000_000_000;
const MINUTE_MS = 60_000;

const engineOf = (isCounting = true): Engine =>
  new Engine({ hashKey: { low: 1, high: 2 }, bytesMax: 64 << 20, isCounting });

/** Applies one INCREMENT, and returns the rows of its commit. */
function work(engine: Engine, nowMs: number): Uint8Array[] {
  engine.apply(batchIn([{ protocol: EDGE, frames: [increment("k", 1n, FOREVER)] }]), nowMs);
  return engine.takeCommit(1_900_000).map((row) => row.slice());
}

/** Bytes of the marks of counts in a row. */
function countsBytesOf(row: Uint8Array): number {
  const view = new DataView(row.buffer, row.byteOffset, row.byteLength);
  let bytes = 0;
  for (let at = ROW_HEADER_BYTES; at < row.length; at += imageBytes(view, at)) {
    const isMark = imageKind(row, at) === ImageKind.superseded;
    if (isMark && row[at + 1] === Mark.counts) bytes += imageBytes(view, at);
  }
  return bytes;
}

const incrementsOf = (engine: Engine, nowMs: number): [number, number] =>
  countsAt(engine.tallyFigures(nowMs), Command.increment);

describe("stored counts", () => {
  it("totals come back with the rows of commits, and none of them belongs to the last minute", () => {
    const engine = engineOf();
    engine.storedCounts.begin(NOW_MS);
    const rows: Uint8Array[] = [];
    for (let i = 0; i < 40; i++) rows.push(...work(engine, NOW_MS + i * 1000));
    const endMs = NOW_MS + 40_000;
    const restarted = engineOf();
    restarted.advance(endMs);
    for (const row of rows) restarted.restore(row);
    restarted.storedCounts.begin(endMs);
    expect(incrementsOf(engine, endMs)[0]).toBe(40);
    expect(incrementsOf(restarted, endMs)).toEqual([40, 0]);
    expect(restarted.tallyFigures(endMs)[TALLY_READ_BYTES]).toBe(
      engine.tallyFigures(endMs)[TALLY_READ_BYTES],
    );
    expect(restarted.storedCounts.sinceMs).toBe(NOW_MS);
    // It goes on from there.
    work(restarted, endMs);
    expect(incrementsOf(restarted, endMs)).toEqual([41, 1]);
  });

  it("decisions of limits come back by limiter, and those of a name that is left out in the next commit, too", () => {
    const engine = engineOf();
    const strategy = configurationBytes({ strategy: "token_bucket", burst: 2, rate: 0.001 });
    const rows: Uint8Array[] = [];
    const decide = (name: string, nowMs: number): void => {
      const frames = [limit(`${name}:ada`, strategy, 1)];
      engine.apply(batchIn([{ protocol: EDGE, frames }]), nowMs);
      if (engine.isDirty) rows.push(...engine.takeCommit(1_900_000).map((row) => row.slice()));
    };
    for (let i = 0; i < 3; i++) decide("api", NOW_MS + i);
    decide("login", NOW_MS + 5000);
    const restarted = engineOf();
    restarted.advance(NOW_MS + 5000);
    for (const row of rows) restarted.restore(row);
    restarted.storedCounts.restore(engine.storedCounts.takeAll(NOW_MS));
    restarted.storedCounts.begin(NOW_MS + 5000);
    const { names, counts } = restarted.limitFigures.snapshot();
    expect(names).toEqual(["api", "login"]);
    // All, others, then the names: allowed, refused, errors and local of each.
    expect([...counts]).toEqual([3, 1, 0, 0, 0, 0, 0, 0, 2, 1, 0, 0, 1, 0, 0, 0]);
    expect(restarted.storedCounts.take(NOW_MS + 6000)).toBeNull();
    // The rows alone have what was counted by their last counts.
    const byRows = engineOf();
    byRows.advance(NOW_MS + 5000);
    for (const row of rows) byRows.restore(row);
    byRows.storedCounts.begin(NOW_MS + 5000);
    expect([...byRows.limitFigures.snapshot().counts]).toEqual([...counts]);
  });

  it("decisions from allowances come back, and rows without any have the bytes that they had before these existed", () => {
    const source = new LimitFigures({ low: 1, high: 2 });
    const decide = (key: string, times: number, local: number): void => {
      source.countDecisions(true, times, 1, bytesOf(key), 0, key.length);
      source.countLocal(local, bytesOf(key), 0, key.length);
    };
    decide("api:ada", 10, 7);
    decide("login:ada", 5, 0);
    const taken = new StoredCounts(new Tally(), source, true).takeAll(NOW_MS);
    const restored = new LimitFigures({ low: 1, high: 2 });
    const stored = new StoredCounts(new Tally(), restored, true);
    stored.restore(taken);
    // As a row that comes twice: totals only grow.
    stored.restore(taken);
    stored.begin(NOW_MS);
    const { names, counts } = restored.snapshot();
    expect(names).toEqual(["api", "login"]);
    expect([...counts]).toEqual([15, 0, 0, 7, 0, 0, 0, 0, 10, 0, 0, 7, 5, 0, 0, 0]);
    // The header; rows of all and of two names, each with three totals; and two that have a local one.
    const rowBytes = (name: string): number => 2 + name.length + 24;
    expect(taken).toHaveLength(17 + rowBytes("") + rowBytes("api") + rowBytes("login") + 2 * 9);
  });

  it("decisions that no request of the shard has brought go with the next commit: those of several limits together", () => {
    const source = new LimitFigures({ low: 1, high: 2 });
    const stored = new StoredCounts(new Tally(), source, true);
    const decide = (): void => source.countDecisions(true, 1, 1, bytesOf("api:ada"), 0, 7);
    decide();
    const taken = [stored.take(NOW_MS)];
    expect(stored.hasChanges).toBe(false);
    decide();
    taken.push(stored.take(NOW_MS + MINUTE_MS));
    const restored = new LimitFigures({ low: 1, high: 2 });
    const restarted = new StoredCounts(new Tally(), restored, true);
    for (const counts of taken) restarted.restore(counts ?? new Uint8Array(0));
    restarted.begin(NOW_MS + MINUTE_MS);
    expect([...restored.snapshot().counts]).toEqual([...source.snapshot().counts]);
    expect(restarted.hasChanges).toBe(false);
  });

  it("limiters that had no row any more take none from those in use when all come back, and count for no others", () => {
    const rows: Uint8Array[] = [];
    const instance = (): { figures: LimitFigures; stored: StoredCounts } => {
      const figures = new LimitFigures({ low: 1, high: 2 });
      const stored = new StoredCounts(new Tally(), figures, true);
      for (const counts of rows) stored.restore(counts);
      return { figures, stored };
    };
    const first = instance();
    first.stored.begin(NOW_MS);
    const decide = (name: string): void =>
      first.figures.countDecisions(true, 1, 1, bytesOf(`${name}:ada`), 0, name.length + 4);
    // More than an hour later, limiters that are not in use any more give their rows to others.
    for (const [i, prefix] of ["old", "new"].entries()) {
      const nowMs = NOW_MS + i * 61 * MINUTE_MS;
      first.figures.turn(nowMs);
      for (let row = 0; row < LIMIT_NAMES_MAX; row++) decide(`${prefix}${row}`);
      rows.push(first.stored.takeAll(nowMs));
    }
    for (let restarts = 1; restarts <= 3; restarts++) {
      const { figures, stored } = instance();
      stored.begin(NOW_MS + 61 * MINUTE_MS);
      const { names, counts } = figures.snapshot();
      expect(new Set(names)).toEqual(new Set(first.figures.snapshot().names));
      expect([...counts.subarray(0, 8)]).toEqual([2 * LIMIT_NAMES_MAX, 0, 0, 0, 0, 0, 0, 0]);
      rows.push(stored.takeAll(NOW_MS));
    }
  });

  it("the first commit of an instance takes counts, and then about 100 bytes of them go with the commits of a second", () => {
    const engine = engineOf();
    let bytes = 0;
    let commits = 0;
    expect(countsBytesOf(work(engine, NOW_MS)[0]!)).toBeGreaterThan(0);
    for (let ms = 10; ms <= MINUTE_MS; ms += 10) {
      const taken = countsBytesOf(work(engine, NOW_MS + ms)[0]!);
      bytes += taken;
      if (taken > 0) commits++;
    }
    expect(commits).toBeGreaterThan(40);
    expect(commits).toBeLessThanOrEqual(60);
    expect(bytes).toBeLessThanOrEqual(100 * 60);
  });

  it("counts go with the next commit after the clock was set back", () => {
    const engine = engineOf();
    work(engine, NOW_MS);
    expect(countsBytesOf(work(engine, NOW_MS - 3_600_000)[0]!)).toBe(0);
    engine.setClockBack();
    expect(countsBytesOf(work(engine, NOW_MS - 3_600_000)[0]!)).toBeGreaterThan(0);
  });

  it("a row of counts alone exists only while something was counted that no row has", () => {
    const engine = engineOf();
    expect(engine.takeCountsRow()).toBeNull();
    work(engine, NOW_MS);
    expect(engine.takeCountsRow()).toBeNull();
    work(engine, NOW_MS + 10);
    const row = engine.takeCountsRow();
    expect(row).not.toBeNull();
    expect(engine.takeCountsRow()).toBeNull();
    const restarted = engineOf();
    restarted.advance(NOW_MS + 10);
    restarted.restore(row!);
    expect(incrementsOf(restarted, NOW_MS + 10)[0]).toBe(2);
  });

  it("a restart behind a row of counts goes on from the shard's time while the machine's clock is behind it", () => {
    const engine = engineOf();
    const rows = work(engine, NOW_MS);
    const behindMs = NOW_MS - MINUTE_MS;
    rows.push(...work(engine, behindMs), ...work(engine, behindMs + 10));
    rows.push(engine.takeCountsRow()!);
    const restarted = engineOf();
    for (const row of rows) restarted.restore(row);
    engine.advance(behindMs + 20_000);
    restarted.advance(behindMs + 20_000);
    // A tenth of the time that has passed is made up for.
    expect(engine.clockLagMs).toBe(MINUTE_MS - 2000);
    expect(restarted.clockLagMs).toBe(engine.clockLagMs);
  });

  it("what a cut keeps is all that was counted", () => {
    const engine = engineOf();
    work(engine, NOW_MS);
    work(engine, NOW_MS + 10);
    const tally = new Tally();
    new StoredCounts(tally, null, true).restore(engine.storedCounts.takeAll(NOW_MS));
    expect(tally.totals[Command.increment]).toBe(2);
    expect(engine.takeCountsRow()).toBeNull();
  });

  it("after a row that could not be written the next one takes all counts", () => {
    const source = new Tally();
    const stored = new StoredCounts(source, null, true);
    source.totals[Command.limit] = 5;
    stored.take(NOW_MS);
    stored.noteLost();
    source.totals[Command.peek] = 1;
    const tally = new Tally();
    new StoredCounts(tally, null, true).restore(stored.take(NOW_MS)!);
    expect(tally.totals).toEqual(source.totals);
    expect(stored.take(NOW_MS)).toBeNull();
  });

  it("without METRICS nothing is counted, and what was stored before stays as it was", () => {
    const [row] = work(engineOf(), NOW_MS);
    const off = engineOf(false);
    off.advance(NOW_MS);
    off.restore(row!);
    expect(countsBytesOf(work(off, NOW_MS)[0]!)).toBe(0);
    expect(off.takeCountsRow()).toBeNull();
    expect(incrementsOf(off, NOW_MS)).toEqual([0, 0]);
    const tally = new Tally();
    new StoredCounts(tally, null, true).restore(off.storedCounts.takeAll(NOW_MS));
    expect(tally.totals[Command.increment]).toBe(1);
  });

  it("counts of a later release are passed over, and those that this one does not have", () => {
    const tally = new Tally();
    const source = new Tally();
    source.totals[Command.limit] = 5;
    const counts = new StoredCounts(source, null, true).take(NOW_MS)!;
    const later = counts.slice();
    later[0] = 9;
    new StoredCounts(tally, null, true).restore(later);
    expect(tally.totals.every((total) => total === 0)).toBe(true);
    const unknown = counts.slice();
    unknown[17] = 0xfe;
    new StoredCounts(tally, null, true).restore(unknown);
    new StoredCounts(tally, null, true).restore(new Uint8Array(0));
    new StoredCounts(tally, null, true).restore(counts.subarray(0, counts.length - 1));
    expect(tally.totals.every((total) => total === 0)).toBe(true);
  });

  it("a count keeps its place where types of requests are added: those beside types begin at 128", () => {
    const source = new Tally();
    source.totals[TALLY_READ_BYTES] = 1;
    source.totals[TALLY_YRMCDS_RELEASE] = 1;
    const counts = new StoredCounts(source, null, true).take(NOW_MS)!;
    expect([counts[17], counts[26]]).toEqual([0x80, 0x88]);
  });

  it("counts may be applied in any order and repeatedly: the largest totals stay", () => {
    const steps = fc.array(fc.tuple(fc.nat(0x3f), fc.nat(1000)), { minLength: 1, maxLength: 30 });
    const property = fc.property(steps, fc.infiniteStream(fc.nat()), (added, order) => {
      const source = new Tally();
      const stored = new StoredCounts(source, null, true);
      const taken: Uint8Array[] = [];
      for (const [index, count] of added) {
        source.totals[index]! += count;
        const counts = stored.take(NOW_MS);
        if (counts !== null) taken.push(counts);
      }
      const shuffled = taken
        .concat(taken)
        .map((counts) => ({ counts, at: order.next().value as number }))
        .toSorted((a, b) => a.at - b.at);
      const tally = new Tally();
      const restored = new StoredCounts(tally, null, true);
      for (const { counts } of shuffled) restored.restore(counts);
      expect(tally.totals).toEqual(source.totals);
    });
    fc.assert(property, { seed, numRuns: runs(200) });
  });
});
