/** What a shard does for semaphores by its alarm. */
import { afterEach, expect, it, vi } from "vitest";
import { makeConnectionId } from "../../src/base/connection-id.ts";
import type { Environment } from "../../src/base/environment.ts";
import { Engine } from "../../src/engine/engine.ts";
import { Leases } from "../../src/engine/semaphores/leases.ts";
import { ENDED_LEASES_STEP } from "../../src/engine/sizes.ts";
import { turn } from "../../src/base/turn.ts";
import { connectionHolder } from "../../src/engine/semaphores/holder.ts";
import { SemaphoreWork } from "../../src/objects/shard/semaphore-work.ts";
import { ThrottrError } from "../../src/wire/edge/error.ts";
import { bytesOf } from "../support/frames/index.ts";

afterEach(() => {
  vi.restoreAllMocks();
});

it("a shard of a Worker without the class Hub keeps what connections hold, asks again, and does what else is due", async () => {
  const warned = vi.spyOn(console, "warn").mockReturnValue();
  const nowMs = Date.now();
  const hashKey = { low: 1, high: 2 };
  const { semaphores } = new Engine({ hashKey, bytesMax: 1 << 20, isCounting: false });
  const id = makeConnectionId({ location: "AMS", index: 0 }, new Uint8Array(16));
  const name = bytesOf("s");
  const request = { nameAt: 0, nameBytes: name.length, resources: 2, maximum: 3 };
  semaphores.acquire(name, request, connectionHolder(id), nowMs);
  const missing = (): never => {
    throw new ThrottrError("class_missing", "Hub");
  };
  const env = { HUB: { getByName: missing } } as unknown as Environment;
  const work = new SemaphoreWork(env, "n/0", semaphores);
  work.start(Infinity);
  await work.run();
  expect(warned).toHaveBeenCalledWith(expect.stringContaining("class_missing"));
  expect(semaphores.get(name, 0, name.length, nowMs)).toBe(2);
  expect(work.findDeadlineMs()).toBeLessThanOrEqual(Date.now() + 1000);
  expect(semaphores.figures(nowMs).collections).toBe(1);
});

it("a shard in which very many leases end at once serves others meanwhile", async () => {
  const nowMs = Date.now();
  const hashKey = { low: 1, high: 2 };
  const { semaphores } = new Engine({ hashKey, bytesMax: 24 << 20, isCounting: false });
  const leases = new Leases(semaphores);
  const name = bytesOf("s");
  for (let i = 0; i < 4 * ENDED_LEASES_STEP; i++) {
    const leaseId = new Uint8Array(16);
    new DataView(leaseId.buffer).setUint32(0, i);
    leases.acquire({ name, resources: 1, maximum: 1e6, ttlMs: 1, leaseId }, nowMs - 60_000);
  }
  const work = new SemaphoreWork({} as Environment, "n/0", semaphores);
  const seen = { turns: 0, isOver: false };
  const run = work.run().finally(() => (seen.isOver = true));
  for (; !seen.isOver; seen.turns++) await turn();
  await run;
  expect(seen.turns).toBeGreaterThanOrEqual(3);
  expect(semaphores.get(name, 0, name.length, nowMs)).toBeLessThanOrEqual(0);
});
