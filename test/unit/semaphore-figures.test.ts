/** Figures of semaphores, which are made beside calls that only read. */
import { expect, it } from "vitest";
import { Engine } from "../../src/engine/engine.ts";
import * as operations from "../../src/wire/edge/operations.ts";
import { edgeBatch, uuidOfNumber } from "../support/frames/index.ts";

const NOW_MS = 1_700_000_000_000;

it("figures of a shard in which a lease has ended change nothing: a full disk serves its reads", () => {
  const hashKey = { low: 1, high: 2 };
  const engine = new Engine({ hashKey, bytesMax: 1 << 22, isCounting: true });
  const lease = { leaseId: uuidOfNumber(1), resources: 1, maximum: 2, ttlMs: 30_000 };
  engine.apply(edgeBatch([operations.acquire("s", lease).frame]), NOW_MS);
  engine.takeCommit(1 << 20);
  expect(engine.semaphores.figures(NOW_MS)).toMatchObject({ objects: 1, holders: 1 });
  expect(engine.semaphores.figures(NOW_MS + 30_000).objects).toBe(1);
  expect(engine.isDirty).toBe(false);
  engine.semaphores.expire(NOW_MS + 30_000);
  expect(engine.isDirty).toBe(true);
  expect(engine.semaphores.figures(NOW_MS + 30_000)).toMatchObject({ objects: 1, holders: 0 });
});
