/** Semaphores of the client: waiting, holding, renewing, losing, and giving back. */
import fc from "fast-check";
import { describe, expect, inject, it } from "vitest";
import { ThrottrClient } from "../../src/client/client.ts";
import {
  Leases,
  type Closable,
  type HeldLease,
  type LeaseCalls,
} from "../../src/client/semaphore/leases.ts";
import { settingsOf, type ClientOptions } from "../../src/client/options.ts";
import { LeasedSemaphore } from "../../src/client/semaphore/semaphore.ts";
import type { ThrottrError } from "../../src/wire/edge/error.ts";
import { FakeClock, SuspendedClock, turn } from "../support/client/clock.ts";
import { LeaseServer, type Fate } from "../support/leases/server.ts";
import { runs } from "../support/runs.ts";

const seed = inject("seed");
const TTL_MS = 3000;
const AT_ONCE: Fate = { thereMs: 0, backMs: 0 };
const REFUSED: Fate = { ...AT_ONCE, refusal: "token_invalid" };
const NEVER: Fate = { thereMs: 1e9, backMs: 0 };

/** A clock whose timers may be late, on a machine that may be suspended. */
class LateClock extends SuspendedClock {
  lateMs = 0;
  override nowMs(): number {
    return super.nowMs() + this.lateMs;
  }
}

function start(options: ClientOptions = {}, random?: () => number) {
  const clock = new LateClock(random);
  const server = new LeaseServer(clock);
  const client = new ThrottrClient(server, { clock, ...options });
  const semaphore = client.semaphore("gpu", 1, { ttlMs: TTL_MS });
  return { clock, server, client, semaphore };
}

/** What becomes of a promise. */
function watched<Result>(promise: Promise<Result>) {
  const state: { value?: Result; code?: string; error?: unknown; isSettled: boolean } = {
    isSettled: false,
  };
  promise.then(
    (value) => Object.assign(state, { value, isSettled: true }),
    (error: ThrottrError) => Object.assign(state, { error, code: error.code, isSettled: true }),
  );
  return state;
}

/** Something that goes on until it is told to end. */
function work() {
  const { promise, resolve, reject } = Promise.withResolvers<string>();
  let lease: HeldLease | null = null;
  const run = (held: HeldLease): Promise<string> => {
    lease = held;
    return promise;
  };
  return { run, resolve, reject, lease: () => lease! };
}

describe("acquire", () => {
  it("acquire is one call unless it waits, and returns null when there is no room", async () => {
    const { clock, server, semaphore } = start();
    const first = await semaphore.acquire();
    expect(first).toMatchObject({ name: "gpu", resources: 1, isHeld: true });
    expect(first!.leaseId).toMatch(/^[\da-f-]{36}$/);
    expect(first!.signal.aborted).toBe(false);
    expect(await semaphore.acquire()).toBe(null);
    expect(server.commands).toEqual(["acquire", "acquire"]);
    expect(await first!.release()).toBe(true);
    expect(first!.isHeld).toBe(false);
    expect(server.consumption("gpu")).toBe(0);
    expect(clock.pendingMs).toEqual([]);
  });

  it("a semaphore keeps the bytes of its name, also if the caller uses the buffer again", async () => {
    const { clock, server, client } = start();
    const buffer = Buffer.from("jobs");
    const jobs = client.semaphore(buffer, 1, { ttlMs: TTL_MS });
    buffer.fill(0x78);
    const lease = (await jobs.acquire())!;
    await clock.pass(2 * TTL_MS);
    expect([lease.isHeld, server.consumption("jobs")]).toEqual([true, 1]);
    expect(await lease.release()).toBe(true);
  });

  it("a waiting acquire repeats the same lease at growing random intervals until there is room", async () => {
    const { clock, server, semaphore } = start();
    const first = (await semaphore.acquire())!;
    const second = watched(semaphore.acquire({ waitMs: 60_000 }));
    await clock.pass(20_000);
    const asked = server.executed.filter(({ command }) => command === "acquire").slice(1);
    expect(new Set(asked.map(({ lease }) => lease)).size).toBe(1);
    const waits = asked.slice(1).map(({ atMs }, i) => atMs - asked[i]!.atMs);
    expect(waits.slice(0, 6)).toEqual([100, 200, 400, 800, 1600, 2000]);
    expect(new Set(waits.slice(5))).toEqual(new Set([2000]));
    await first.release();
    await clock.pass(2000);
    expect(second.value).toMatchObject({ isHeld: true });
    expect(server.consumption("gpu")).toBe(1);
    await second.value!.release();
    expect(clock.pendingMs).toEqual([]);
  });

  it("a waiting acquire tries once more at its deadline, then gives up", async () => {
    const { clock, server, semaphore } = start();
    const first = (await semaphore.acquire())!;
    const second = watched(semaphore.acquire({ waitMs: 1000 }));
    await clock.pass(999);
    expect(second.isSettled).toBe(false);
    await clock.pass(1);
    expect(second).toEqual({ value: null, isSettled: true });
    expect(server.executed.at(-1)).toMatchObject({ command: "acquire", atMs: 2000 });
    await first.release();
    expect(clock.pendingMs).toEqual([]);
  });

  it("acquire holds as many resources as asked for", async () => {
    const { server, client } = start();
    const semaphore = client.semaphore("gpu", 5, { resources: 2 });
    const held = [
      await semaphore.acquire(),
      await semaphore.acquire({ resources: 3 }),
      await semaphore.acquire({ resources: 1 }),
    ];
    expect(held.map((lease) => lease?.resources)).toEqual([2, 3, undefined]);
    expect(server.consumption("gpu")).toBe(5);
    await client.close();
  });

  it("a signal ends a waiting acquire, which then holds nothing", async () => {
    const { clock, server, semaphore } = start();
    const first = (await semaphore.acquire())!;
    const aborter = new AbortController();
    const second = watched(semaphore.acquire({ waitMs: 5000, signal: aborter.signal }));
    await clock.pass(150);
    aborter.abort(new Error("enough"));
    await turn();
    expect(second).toMatchObject({ code: "aborted", error: { cause: new Error("enough") } });
    const late = watched(semaphore.acquire({ signal: aborter.signal }));
    await turn();
    expect(late.code).toBe("aborted");
    await first.release();
    await clock.pass(10_000);
    expect(server.consumption("gpu")).toBe(0);
    expect(clock.pendingMs).toEqual([]);
  });

  it("acquire ends with a signal that was aborted just before it began to wait", async () => {
    const aborter = new AbortController();
    const { clock, semaphore } = start({}, () => {
      aborter.abort();
      return 0.5;
    });
    const first = (await semaphore.acquire())!;
    const second = watched(semaphore.acquire({ waitMs: 5000, signal: aborter.signal }));
    await turn();
    expect(second.code).toBe("aborted");
    await first.release();
    expect(clock.pendingMs).toEqual([]);
  });

  it("acquire with a signal that is aborted already sends nothing", async () => {
    const { clock, server, semaphore } = start();
    const signal = AbortSignal.abort("enough");
    const aborted = { code: "aborted", cause: "enough" };
    await expect(semaphore.acquire({ signal })).rejects.toMatchObject(aborted);
    await expect(semaphore.with(() => {}, { signal })).rejects.toMatchObject(aborted);
    await clock.pass(TTL_MS);
    expect(server.commands).toEqual([]);
  });

  it.each<[string, Fate, (aborter: AbortController) => void]>([
    ["aborted", { thereMs: 50, backMs: 100 }, (aborter) => aborter.abort()],
    ["timeout", { thereMs: 50, backMs: 1e6 }, () => {}],
  ])("an acquire that ends with %s releases what it may have got", async (code, fate, end) => {
    const { clock, server, semaphore } = start();
    const aborter = new AbortController();
    server.fate = ([command]) => (command === "acquire" ? fate : AT_ONCE);
    const lease = watched(semaphore.acquire({ signal: aborter.signal }));
    await clock.pass(100);
    expect(server.consumption("gpu")).toBe(1);
    end(aborter);
    await clock.pass(TTL_MS);
    expect(lease.code).toBe(code);
    expect(server.commands).toEqual(["acquire", "release"]);
    expect(server.consumption("gpu")).toBe(0);
  });

  it("an acquire whose answers are lost repeats the call and holds the lease once", async () => {
    const { clock, server, semaphore } = start();
    let lost = 0;
    server.fate = () => (lost++ < 2 ? { ...AT_ONCE, loss: "answer" } : AT_ONCE);
    const lease = watched(semaphore.acquire());
    await clock.pass(1000);
    expect(lease.value).toMatchObject({ isHeld: true });
    expect(server.commands.slice(0, 3)).toEqual(["acquire", "acquire", "acquire"]);
    expect(server.consumption("gpu")).toBe(1);
    await lease.value!.release();
  });

  it("leaving a scope releases an acquired lease", async () => {
    const { server, semaphore } = start();
    {
      await using lease = await semaphore.acquire();
      expect(lease!.isHeld).toBe(true);
      expect(server.consumption("gpu")).toBe(1);
    }
    expect(server.consumption("gpu")).toBe(0);
    {
      await using lease = await semaphore.acquire();
      server.fate = () => REFUSED;
      expect(lease!.isHeld).toBe(true);
    }
    expect(server.consumption("gpu")).toBe(1);
  });

  it.each<[string, () => Promise<unknown> | object]>([
    ["name_invalid", () => start().client.semaphore("", 1)],
    ["maximum_invalid", () => start().client.semaphore("a", 0)],
    ["maximum_invalid", () => start().client.semaphore("a", 1).acquire({ resources: 2 })],
    ["option_invalid", () => start().client.semaphore("a", 1, { ttlMs: 999 })],
    ["option_invalid", () => start().client.semaphore("a", 1).acquire({ ttlMs: 86_400_001 })],
    ["option_invalid", () => start().client.semaphore("a", 1).acquire({ waitMs: -1 })],
    ["option_invalid", () => start().client.semaphore("a", 1).acquire({ resources: 0 })],
    [
      "option_invalid",
      () =>
        start()
          .client.semaphore("a", 1)
          .with(() => 1, { waitMs: 0.5 }),
    ],
  ])("an invalid acquire is refused: %s", async (code, make) => {
    let error: unknown;
    try {
      await make();
    } catch (thrown) {
      error = thrown;
    }
    expect(error).toMatchObject({ code });
  });
});

describe("with", () => {
  it("with() holds while the function runs, and returns its result", async () => {
    const { clock, server, semaphore } = start();
    const running = work();
    const result = watched(semaphore.with(running.run));
    await turn();
    expect(server.consumption("gpu")).toBe(1);
    running.resolve("done");
    await turn();
    expect(result.value).toBe("done");
    expect(server.commands).toEqual(["acquire", "release"]);
    expect(await semaphore.with(() => 7)).toBe(7);
    expect(server.consumption("gpu")).toBe(0);
    expect(clock.pendingMs).toEqual([]);
  });

  it.each(["acquire", "with"] as const)(
    "%s() rejects, and releases, a lease whose answer comes after its TTL by the wall clock",
    async (method) => {
      const { clock, server, semaphore } = start();
      server.fate = ([command]) => ({ thereMs: 0, backMs: command === "acquire" ? 500 : 0 });
      let runs = 0;
      const result = watched<unknown>(
        method === "with" ? semaphore.with(() => runs++) : semaphore.acquire(),
      );
      await clock.pass(499);
      clock.suspendedMs = TTL_MS;
      await clock.pass(1);
      expect(result.code).toBe("lease_lost");
      expect(runs).toBe(0);
      expect(server.commands).toEqual(["acquire", "release"]);
      expect(server.consumption("gpu")).toBe(0);
      expect(clock.pendingMs).toEqual([]);
    },
  );

  it("with() releases and rethrows when the function throws", async () => {
    const { server, semaphore } = start();
    const mine = new Error("mine");
    for (const run of [() => Promise.reject(mine), () => raise(mine)]) {
      await expect(semaphore.with(run)).rejects.toBe(mine);
      expect(server.consumption("gpu")).toBe(0);
    }
    expect(server.commands).toEqual(["acquire", "release", "acquire", "release"]);
  });

  it("with() waits for ten seconds, then throws that there is no room", async () => {
    const { clock, semaphore } = start();
    const first = (await semaphore.acquire())!;
    let runs = 0;
    const second = watched(semaphore.with(() => runs++));
    await clock.pass(9999);
    expect(second.isSettled).toBe(false);
    await clock.pass(1);
    expect(second.code).toBe("semaphore_unavailable");
    expect(runs).toBe(0);
    const third = watched(semaphore.with(() => runs++, { waitMs: 0 }));
    await turn();
    expect(third.code).toBe("semaphore_unavailable");
    await first.release();
  });

  it("with() resolves though the release fails, because the lease ends by itself", async () => {
    const { clock, server, semaphore } = start();
    server.fate = ([command]) => (command === "release" ? REFUSED : AT_ONCE);
    expect(await semaphore.with(() => "done")).toBe("done");
    expect(server.consumption("gpu")).toBe(1);
    expect(clock.pendingMs).toEqual([]);
    await clock.pass(TTL_MS);
    expect(server.consumption("gpu")).toBe(0);
  });
});

describe("leases", () => {
  it("a lease is renewed at a third of its TTL for as long as it is needed", async () => {
    const { clock, server, semaphore } = start();
    const running = work();
    const result = watched(semaphore.with(running.run));
    await turn();
    for (let i = 0; i < 100; i++) {
      await clock.pass(100);
      expect(server.consumption("gpu")).toBe(1);
    }
    const renewals = server.executed.filter(({ command }) => command === "renew");
    expect(renewals.map(({ atMs }) => atMs)).toEqual(
      Array.from({ length: 10 }, (_, i) => 2000 + 1000 * i),
    );
    expect(running.lease().isHeld).toBe(true);
    running.resolve("done");
    await turn();
    expect(result.value).toBe("done");
    expect(clock.pendingMs).toEqual([]);
  });

  it("a lease is lost when the server says that it has ended", async () => {
    const { clock, client, semaphore } = start();
    const running = work();
    const result = watched(semaphore.with(running.run));
    await turn();
    const lease = running.lease();
    await client.release("gpu", lease.leaseId);
    await clock.pass(999);
    expect(lease.signal.aborted).toBe(false);
    await clock.pass(1);
    expect(lease.signal.aborted).toBe(true);
    expect(lease.signal.reason).toMatchObject({ code: "lease_lost" });
    expect(lease.isHeld).toBe(false);
    expect(clock.pendingMs).toEqual([]);
    expect(result.isSettled).toBe(false);
    running.resolve("done");
    await turn();
    expect(result.code).toBe("lease_lost");
  });

  it.each<[string, Fate]>([
    ["no answer comes", NEVER],
    ["renewals are refused", REFUSED],
    ["renewals get lost", { ...AT_ONCE, loss: "message" }],
  ])("a lease is lost before the server can end it, when %s", async (_, fate) => {
    const { clock, server, semaphore } = start({}, () => 0.5);
    const running = work();
    const result = watched(semaphore.with(running.run));
    await clock.pass(1500);
    server.fate = ([command]) => (command === "renew" ? fate : AT_ONCE);
    const { signal } = running.lease();
    // It was renewed at 1,000.
    await clock.pass(1000 + TTL_MS - 1500 - 1);
    expect(signal.aborted).toBe(false);
    expect(server.consumption("gpu")).toBe(1);
    await clock.pass(1);
    expect(signal.reason).toMatchObject({ code: "lease_lost" });
    running.reject(signal.reason);
    await turn();
    expect(result.error).toBe(signal.reason);
    expect(clock.pendingMs.filter((ms) => ms < 1e6)).toEqual([]);
  });

  it("a lease survives a failed renewal when the next one succeeds", async () => {
    const { clock, server, semaphore } = start();
    const running = work();
    watched(semaphore.with(running.run));
    let renewals = 0;
    server.fate = ([command]) => (command === "renew" && renewals++ % 3 < 2 ? REFUSED : AT_ONCE);
    await clock.pass(20_000);
    expect(running.lease().isHeld).toBe(true);
    expect(renewals).toBeGreaterThan(20);
    expect(renewals).toBeLessThan(60);
    running.resolve("done");
    await turn();
  });

  it("the TTL of a lease counts from the request, not from the answer", async () => {
    const { clock, server, semaphore } = start();
    server.fate = () => ({ thereMs: 0, backMs: 900 });
    const running = work();
    watched(semaphore.with(running.run));
    await clock.pass(900);
    server.fate = () => NEVER;
    await clock.pass(TTL_MS - 900 - 1);
    expect(running.lease().signal.aborted).toBe(false);
    await clock.pass(1);
    expect(running.lease().signal.aborted).toBe(true);
    running.resolve("done");
  });

  it("a lease that ended while the thread was blocked is reported as lost at the end", async () => {
    const { clock, semaphore } = start();
    let held: HeldLease;
    const result = watched(
      semaphore.with((lease) => {
        held = lease;
        clock.lateMs = TTL_MS;
        return "done";
      }),
    );
    await turn();
    expect(result.code).toBe("lease_lost");
    expect(held!.isHeld).toBe(false);
    expect(held!.signal.aborted).toBe(true);
  });

  it("a lease that ended while the machine was suspended is lost at once", async () => {
    const { clock, semaphore } = start();
    const lease = (await semaphore.acquire())!;
    clock.suspendedMs = TTL_MS - 1;
    expect(lease.isHeld).toBe(true);
    await clock.pass(1);
    expect(lease.isHeld).toBe(false);
    expect(lease.signal.aborted).toBe(true);
  });

  it("a renewal that was sent before the machine was suspended does not make its lease last longer", async () => {
    const { clock, server, semaphore } = start();
    const lease = (await semaphore.acquire())!;
    server.fate = () => ({ thereMs: 0, backMs: 500 });
    await clock.pass(TTL_MS / 3);
    clock.suspendedMs = TTL_MS - 500;
    await clock.pass(499);
    expect(lease.isHeld).toBe(false);
    await clock.pass(60_000);
    expect(lease.isHeld).toBe(false);
    expect(server.commands).toEqual(["acquire", "renew"]);
  });

  it("the signal of a lease that ended while the machine was suspended is aborted with the answer to its renewal", async () => {
    const { clock, server, semaphore } = start();
    const { signal } = (await semaphore.acquire())!;
    server.fate = () => ({ thereMs: 0, backMs: 500 });
    await clock.pass(TTL_MS / 3);
    clock.suspendedMs = TTL_MS;
    await clock.pass(500);
    expect(signal.aborted).toBe(true);
  });

  it("the signal of a lease that ended while the machine was suspended is aborted within a third of the TTL, also with a renewal under way", async () => {
    const { clock, server, semaphore } = start();
    const { signal } = (await semaphore.acquire())!;
    server.fate = () => NEVER;
    await clock.pass(TTL_MS / 3);
    clock.suspendedMs = TTL_MS;
    await clock.pass(TTL_MS / 3 - 1);
    expect(signal.aborted).toBe(false);
    await clock.pass(1);
    expect(signal.reason).toMatchObject({ code: "lease_lost" });
  });

  it("a lease lasts no longer when the wall clock is set back, and is renewed as ever", async () => {
    const { clock, server, semaphore } = start();
    const lease = (await semaphore.acquire())!;
    clock.suspendedMs = -3_600_000;
    await clock.pass(2 * TTL_MS);
    expect(lease.isHeld).toBe(true);
    server.fate = () => NEVER;
    await clock.pass(TTL_MS);
    expect(lease.isHeld).toBe(false);
  });

  it("a released lease is not renewed, even with a renewal under way", async () => {
    const { clock, server, semaphore } = start();
    const lease = (await semaphore.acquire())!;
    server.fate = ([command]) => (command === "renew" ? { thereMs: 0, backMs: 500 } : AT_ONCE);
    await clock.pass(1200);
    expect(await lease.release()).toBe(true);
    expect(lease.release()).toBe(lease.release());
    await clock.pass(60_000);
    expect(server.commands).toEqual(["acquire", "renew", "release"]);
    expect(lease.signal.aborted).toBe(false);
    expect(clock.pendingMs).toEqual([]);
  });

  it("closing the client loses its leases and ends waiting", async () => {
    const { clock, client, semaphore } = start();
    const running = work();
    const result = watched(semaphore.with(running.run));
    await turn();
    const waiting = watched(semaphore.with(() => "no"));
    await clock.pass(150);
    await client.close();
    await turn();
    expect(waiting.code).toBe("closed");
    expect(running.lease().signal.reason).toMatchObject({ code: "lease_lost" });
    running.resolve("done");
    await turn();
    expect(result.code).toBe("lease_lost");
    const late = watched(semaphore.acquire());
    await turn();
    expect(late.code).toBe("closed");
    expect(clock.pendingMs).toEqual([]);
  });

  it("a lease whose answer came just before the client was closed is lost, and not renewed", async () => {
    const { clock, server, client } = start();
    const settings = settingsOf({ clock });
    const leases = new Leases();
    const calls: LeaseCalls = {
      acquire: async (name, options) => {
        const lease = await client.acquire(name, options);
        leases.close();
        return lease;
      },
      renew: (...given) => client.renew(...given),
      release: (...given) => client.release(...given),
    };
    const semaphore = new LeasedSemaphore("gpu", 1, { ttlMs: TTL_MS }, calls, settings, leases);
    const result = watched(semaphore.acquire());
    await clock.pass(10 * TTL_MS);
    expect(result.code).toBe("lease_lost");
    expect(server.commands).toEqual(["acquire", "release"]);
    expect(clock.pendingMs).toEqual([]);
  });
});

it("released leases leave nothing behind", async () => {
  const { clock, client } = start();
  const open = new Set<Closable>();
  const leases = new Leases();
  leases.add = (one) => void open.add(one);
  leases.delete = (one) => void open.delete(one);
  const settings = settingsOf({ clock });
  const semaphore = new LeasedSemaphore("gpu", 1, {}, client, settings, leases);
  const first = (await semaphore.acquire())!;
  const second = watched(semaphore.acquire({ waitMs: 5000 }));
  await clock.pass(50);
  expect(open.size).toBe(2);
  await first.release();
  await clock.pass(5000);
  expect(second.value!.isHeld).toBe(true);
  expect(open.size).toBe(1);
  await client.release("gpu", second.value!.leaseId);
  await clock.pass(30_000);
  expect(second.value!.signal.aborted).toBe(true);
  expect(open.size).toBe(0);
});

function raise(error: Error): never {
  throw error;
}

describe("many clients", () => {
  const fates = fc.record({
    thereMs: fc.oneof(fc.nat(30), fc.nat(4000)),
    backMs: fc.oneof(fc.nat(30), fc.nat(4000)),
    loss: fc.constantFrom(undefined, undefined, undefined, "message" as const, "answer" as const),
  });

  it("many clients never hold more than the maximum, whatever is lost, and are told before a lease ends", async () => {
    const property = fc.asyncProperty(
      fc.infiniteStream(fates),
      fc.infiniteStream(fc.double({ min: 0, max: 0.999, noNaN: true })),
      fc.integer({ min: 1, max: 3 }),
      fc.array(fc.array(fc.nat(6000), { maxLength: 4 }), { minLength: 2, maxLength: 6 }),
      async (fates, randoms, maximum, jobs) => {
        const clock = new FakeClock(() => randoms.next().value ?? 0.5);
        const server = new LeaseServer(clock);
        server.fate = () => {
          const { loss, ...times } = fates.next().value!;
          return loss === undefined ? times : { ...times, loss };
        };
        const running = new Set<HeldLease>();
        let most = 0;
        const clients = jobs.map(() => new ThrottrClient(server, { clock }));
        const workers = jobs.map(async (durations, i) => {
          const semaphore = clients[i]!.semaphore("gpu", maximum, { ttlMs: 2000 });
          for (const durationMs of durations) {
            try {
              await semaphore.with(async (lease) => {
                running.add(lease);
                lease.signal.addEventListener("abort", () => running.delete(lease));
                most = Math.max(most, running.size);
                await new Promise<void>((resolve) => clock.setTimer(resolve, durationMs));
                running.delete(lease);
              });
            } catch (error) {
              expect((error as ThrottrError).code).toMatch(
                /^(semaphore_unavailable|lease_lost|timeout|outcome_unknown)$/,
              );
            }
          }
        });
        const over = watched(Promise.all(workers));
        for (let i = 0; i < 4000 && !over.isSettled; i++) await clock.pass(100);
        expect(over).toMatchObject({ isSettled: true });
        expect(over.error).toBe(undefined);
        expect(most).toBeLessThanOrEqual(maximum);
        await clock.pass(20_000);
        expect(server.consumption("gpu")).toBe(0);
        expect(clock.pendingMs).toEqual([]);
      },
    );
    await fc.assert(property, { seed, numRuns: runs(100) });
  });
});
