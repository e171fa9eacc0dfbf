/** Reads and figures of semaphores where leases have ended. */
import { expect, it } from "vitest";
import { Engine } from "../../src/engine/engine.ts";
import * as operations from "../../src/wire/edge/operations.ts";
import { edgeBatch, uuidOfNumber } from "../support/frames/index.ts";

const NOW_MS = 1_700_000_000_000;
const OPTIONS = { hashKey: { low: 1, high: 2 }, bytesMax: 1 << 22, isCounting: true };
const lease = { leaseId: uuidOfNumber(1), resources: 1, maximum: 2, ttlMs: 30_000 };

const acquire = (engine: Engine, nowMs: number): void =>
  void engine.apply(edgeBatch([operations.acquire("s", lease).frame]), nowMs);

it("figures of a shard in which a lease has ended are exact, and need no row", () => {
  const engine = new Engine(OPTIONS);
  acquire(engine, NOW_MS);
  engine.takeCommit(1 << 20);
  expect(engine.semaphores.figures(NOW_MS)).toMatchObject({ objects: 1, holders: 1 });
  expect(engine.semaphores.figures(NOW_MS + 30_000)).toMatchObject({ objects: 1, holders: 0 });
  expect(engine.needsRow).toBe(false);
});

it("the end of a lease needs no row, and is in the next one", () => {
  const engine = new Engine(OPTIONS);
  acquire(engine, NOW_MS);
  expect(engine.needsRow).toBe(true);
  engine.semaphores.expire(NOW_MS + 30_000);
  expect(engine.needsRow).toBe(true);
  const written = engine.takeCommit(1 << 20).map((row) => row.slice());
  expect(engine.needsRow).toBe(false);
  acquire(engine, NOW_MS + 40_000);
  expect(engine.needsRow).toBe(true);
  written.push(...engine.takeCommit(1 << 20).map((row) => row.slice()));
  engine.semaphores.expire(NOW_MS + 70_000);
  expect(engine.needsRow).toBe(false);
  expect(engine.isDirty).toBe(true);
  const restarted = new Engine(OPTIONS);
  for (const row of written) restarted.restore(row);
  for (const each of [engine, restarted]) {
    expect(each.semaphores.figures(NOW_MS + 70_000)).toMatchObject({ objects: 1, holders: 0 });
  }
});
