/** Semaphores of the client over the real doors: HTTP, WebSocket and service binding. */
import { evictAllDurableObjects, reset } from "cloudflare:test";
import { afterEach, describe, expect, it } from "vitest";
import type { HeldLease, ThrottrError } from "../../src/client/index.ts";
import { flushNamespace } from "../../src/testing/flush.ts";
import { uuidOfNumber } from "../support/frames/index.ts";
import { closeClients, open, TRANSPORTS } from "../support/pool/transports.ts";

const MINUTE = { ttlMs: 60_000 };

afterEach(async () => {
  await closeClients();
  await reset();
});

describe.each(Object.entries(TRANSPORTS))("over %s", (_, transportOf) => {
  it("leases are acquired, renewed, released and inspected", async () => {
    const client = open(transportOf());
    const lease = (await client.acquire("gpu", { resources: 2, maximum: 3, ...MINUTE }))!;
    expect(lease).toMatchObject({ name: "gpu", resources: 2, ttlMs: 60_000 });
    const [again, other, state] = await Promise.all([
      client.acquire("gpu", { resources: 2, maximum: 3, ...MINUTE, leaseId: lease.leaseId }),
      client.acquire("gpu", { resources: 2, maximum: 3, ...MINUTE }),
      client.inspectSemaphore("gpu"),
    ]);
    expect([again?.leaseId, other, state]).toEqual([
      lease.leaseId,
      null,
      { consumption: 2, mostHeld: 2, maximum: 2 },
    ]);
    expect((await client.semaphores({ prefix: "g" })).semaphores).toHaveLength(1);
    expect(await client.holders("gpu")).toMatchObject({ holders: [{ id: lease.leaseId }] });
    expect(await client.renew("gpu", lease.leaseId, { ttlMs: 1000 })).toMatchObject({
      ttlMs: 1000,
    });
    expect(await client.release("gpu", lease.leaseId)).toBe(true);
    expect(await client.renew("gpu", uuidOfNumber(1), MINUTE)).toBe(null);
  });

  it("no more tasks run at a time than the semaphore allows, and all of them run", async () => {
    let running = 0;
    let most = 0;
    let runs = 0;
    const run = async (): Promise<void> => {
      most = Math.max(most, ++running);
      await scheduler.wait(10);
      running--;
      runs++;
    };
    const opened = [open(transportOf()), open(transportOf())];
    const semaphores = opened.map((client) => client.semaphore("gpu", 2));
    await Promise.all(
      Array.from({ length: 12 }, (_, i) => semaphores[i % 2]!.with(run, { waitMs: 50_000 })),
    );
    expect([most, runs]).toEqual([2, 12]);
    expect(await opened[0]!.inspectSemaphore("gpu")).toEqual({
      consumption: 0,
      mostHeld: 2,
      maximum: 2,
    });
  });

  it("a held lease outlives its TTL by renewal, and evictions", async () => {
    const client = open(transportOf());
    const other = open(transportOf());
    const semaphore = client.semaphore("gpu", 1, { ttlMs: 1500 });
    await semaphore.with(async (lease) => {
      const untilMs = Date.now() + 4000;
      await evictAllDurableObjects();
      while (Date.now() < untilMs) {
        expect(await other.semaphore("gpu", 1).acquire()).toBe(null);
        await scheduler.wait(100);
      }
      expect(lease.isHeld).toBe(true);
    });
    const after = (await other.semaphore("gpu", 1).acquire()) as HeldLease;
    expect(await after.release()).toBe(true);
  });

  it("the holder of a lost lease is told, and fails", async () => {
    const client = open(transportOf());
    const semaphore = client.semaphore("gpu", 1, { ttlMs: 1000 });
    let reason: unknown = null;
    const failed = await semaphore
      .with(async ({ leaseId, signal }) => {
        await client.release("gpu", leaseId);
        await new Promise<void>((resolve) => signal.addEventListener("abort", () => resolve()));
        reason = signal.reason;
      })
      .catch((error: ThrottrError) => error);
    expect(failed).toMatchObject({ code: "lease_lost" });
    expect(failed).toBe(reason);
    const held = (await semaphore.acquire())!;
    const vain = await client
      .semaphore("gpu", 1)
      .with(() => "no", { waitMs: 50 })
      .catch((error: ThrottrError) => error.code);
    expect(vain).toBe("semaphore_unavailable");
    await held.release();
  });
});

it("removing a namespace's records removes its leases, too", async () => {
  const client = open(TRANSPORTS.HTTP!());
  for (let i = 0; i < 30; i++) await client.acquire(`s${i % 3}`, { maximum: 99, ...MINUTE });
  await client.increment("views", MINUTE);
  await flushNamespace(client);
  expect((await client.list()).records).toEqual([]);
  const { semaphores } = await client.semaphores();
  expect(semaphores.map(({ consumption }) => consumption)).toEqual([0, 0, 0]);
});
