/** Counters whose increments are gathered: sent once, together, in time, and never counted twice. */
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import fc from "fast-check";
import { describe, expect, inject, it, vi } from "vitest";
import { ThrottrClient } from "../../src/client/client.ts";
import {
  FlushedCounter,
  type CounterBackend,
  type FlushedCounterOptions,
} from "../../src/client/flushed-counter.ts";
import { Engine } from "../../src/engine/engine.ts";
import { ThrottrError } from "../../src/wire/edge/error.ts";
import type { BatchCall } from "../../src/wire/edge/service.ts";
import { EngineTransport, type Fate } from "../support/client/engine-transport.ts";
import { FakeClock, settle } from "../support/rate-limits/backend.ts";

const NOW_MS = 1_700_000_000_000;
const DAY_MS = 86_400_000;
const U64_MAX = 2n ** 64n - 1n;

/** A counter, a server in this process, and a clock that the test moves. */
function start(options: Partial<FlushedCounterOptions> = {}, fateOf?: (message: number) => Fate) {
  const clock = new FakeClock();
  const engine = new Engine({ hashKey: { low: 1, high: 2 }, bytesMax: 1 << 22, isCounting: true });
  const transport = new EngineTransport(engine, NOW_MS, fateOf);
  const throttr = new ThrottrClient(transport, { clock, attemptsMax: 1 });
  const errors: string[] = [];
  const views = throttr.counter("views", {
    ttlMs: DAY_MS,
    onError: ({ code }) => errors.push(code),
    ...options,
  });
  const probe = new ThrottrClient(new EngineTransport(engine, NOW_MS));
  const countOf = async (key: string): Promise<bigint | undefined> =>
    (await probe.query(`views:${key}`))?.quota;
  return { clock, transport, throttr, views, errors, countOf, probe };
}

/** A server whose answers wait until a test gives them: in full, or as a refusal of all increments. */
function holding() {
  const answers: ((code: string | null) => void)[] = [];
  const backend: CounterBackend = {
    batch: async (calls: readonly BatchCall[]) => {
      const code = await new Promise<string | null>((resolve) => answers.push(resolve));
      if (code === null) return calls.map(() => ({ ok: true, value: 1n }));
      return calls.map(() => ({ ok: false, error: { code, message: `${code}: refused` } }));
    },
  };
  const answer = async (message: number, code: string | null = null): Promise<void> => {
    await settle();
    answers[message]!(code);
    await settle();
  };
  return { backend, answer, count: () => answers.length };
}

describe("a flushed counter", () => {
  it("a flushed counter sends one increment for each key when its time has come", async () => {
    const { clock, transport, views, countOf, probe } = start();
    for (let i = 0; i < 100; i++) views.increment("/");
    views.increment("/pricing", 5);
    views.increment("/pricing", 7n);
    await clock.advance(999);
    expect(transport.messages).toBe(0);
    await clock.advance(1);
    expect(transport.messages).toBe(1);
    expect([await countOf("/"), await countOf("/pricing")]).toEqual([100n, 12n]);
    expect((await probe.query("views:/"))!.ttlMs).toBe(DAY_MS);
    await clock.advance(10_000);
    expect([transport.messages, clock.timers]).toEqual([1, 0]);
  });

  it("a flushed counter has the clock of its client, also where its own is undefined", async () => {
    const { clock, views, countOf } = start({ clock: undefined });
    views.increment("a");
    await clock.advance(1_000);
    expect(await countOf("a")).toBe(1n);
  });

  it("a flushed counter that is asked for goes on, and keeps the TTL that it has", async () => {
    const { clock, views, countOf, probe } = start({ flushMs: 10 });
    await probe.insert("views:/", { quota: 40, ttlMs: 5_000 });
    views.increment("/", 2);
    await clock.advance(10);
    views.increment("/");
    await clock.advance(10);
    expect(await countOf("/")).toBe(43n);
    expect((await probe.query("views:/"))!.ttlMs).toBe(5_000);
  });

  it("a flushed counter sends at once when another key would be too many", async () => {
    const { clock, transport, views, countOf } = start({ keysMax: 3 });
    for (const key of ["a", "b", "c", "a", "b"]) views.increment(key);
    await settle();
    expect(transport.messages).toBe(0);
    views.increment("d");
    await settle();
    expect(transport.messages).toBe(1);
    expect(await Promise.all(["a", "b", "c", "d"].map(countOf))).toEqual([2n, 2n, 1n, undefined]);
    await clock.advance(1_000);
    expect(await countOf("d")).toBe(1n);
  });

  it("a flushed counter is exact to 64 bits, and refuses what does not fit without losing the rest", async () => {
    const { views, countOf } = start();
    views.increment("a", U64_MAX - 1n);
    views.increment("a");
    expect(() => views.increment("a")).toThrow("by_invalid");
    expect(() => views.increment("b", -1)).toThrow("by_invalid");
    expect(() => views.increment("b", 0.5)).toThrow("by_invalid");
    expect(() => views.increment("x".repeat(250))).toThrow("key_invalid");
    expect(() => views.increment("\ud800")).toThrow("key_invalid");
    expect(() => views.increment(new Uint8Array(2) as never)).toThrow("key_invalid");
    await views.flush();
    expect([await countOf("a"), await countOf("b")]).toEqual([U64_MAX, undefined]);
  });

  it("flush waits for the server, and for a flush that is under way", async () => {
    const answers: (() => void)[] = [];
    const throttr: CounterBackend = {
      batch: async (calls: readonly BatchCall[]) => {
        await new Promise<void>((resolve) => answers.push(resolve));
        return calls.map(() => ({ ok: true, value: 1n }));
      },
    };
    const clock = new FakeClock();
    const views = new FlushedCounter(throttr, "views", { ttlMs: DAY_MS, clock });
    views.increment("a");
    await clock.advance(1_000);
    let isDone = false;
    const flushed = views.flush().then(() => (isDone = true));
    await settle();
    expect([answers.length, isDone]).toEqual([1, false]);
    views.increment("a");
    answers[0]!();
    await settle();
    expect([answers.length, isDone]).toEqual([2, false]);
    answers[1]!();
    await flushed;
  });

  it.each(["flush", "close"] as const)(
    "%s also waits for a flush that begins while it waits for another",
    async (method) => {
      const { backend, answer, count } = holding();
      const clock = new FakeClock();
      const views = new FlushedCounter(backend, "views", { ttlMs: DAY_MS, clock });
      views.increment("a");
      await clock.advance(500);
      // The first is under way, and the timer for the second is set.
      void views.flush();
      await settle();
      views.increment("a");
      let isDone = false;
      const ended = views[method]().then(() => (isDone = true));
      await clock.advance(500);
      expect(count()).toBe(2);
      await answer(0);
      expect([count(), isDone]).toEqual([2, false]);
      await answer(1);
      await ended;
      expect(count()).toBe(2);
    },
  );

  it("close sends what a flush that began while it waited gives back", async () => {
    const { backend, answer, count } = holding();
    const clock = new FakeClock();
    const onError = () => {};
    const views = new FlushedCounter(backend, "views", { ttlMs: DAY_MS, clock, onError });
    views.increment("a");
    await clock.advance(500);
    void views.flush();
    await settle();
    views.increment("a");
    const closed = views.close();
    await clock.advance(500);
    await answer(0);
    await answer(1, "shard_full");
    expect(count()).toBe(3);
    await answer(2);
    await closed;
    expect(clock.timers).toBe(0);
  });

  it("close rejects where the server goes on giving back what it was sent, and tries again when called again", async () => {
    const { backend, answer, count } = holding();
    const views = new FlushedCounter(backend, "views", { ttlMs: DAY_MS, clock: new FakeClock() });
    views.increment("a");
    const closed = views.close();
    closed.catch(() => {});
    await answer(0, "shard_full");
    await expect(closed).rejects.toMatchObject({ code: "shard_full" });
    expect(count()).toBe(1);
    const again = views.close();
    await answer(1);
    await again;
    expect(count()).toBe(2);
  });

  it("close sends the rest, and a closed counter takes nothing", async () => {
    const { views, countOf } = start();
    {
      await using closing = views;
      closing.increment("a", 3);
    }
    expect(await countOf("a")).toBe(3n);
    expect(() => views.increment("a")).toThrow("closed: the counter was closed");
    await views.close();
    expect(await countOf("a")).toBe(3n);
  });

  it("a closed counter leaves no timer that keeps a process alive, also where close has rejected", async () => {
    const kept: Promise<unknown>[] = [];
    const { clock, views, errors, countOf } = start(
      { waitUntil: (work) => kept.push(work) },
      (message) => (message === 0 ? "unsent" : "through"),
    );
    views.increment("a");
    await expect(views.close()).rejects.toThrow("connection_failed");
    expect([clock.timers, await countOf("a"), errors]).toEqual([0, undefined, []]);
    await Promise.all(kept);
    await views.close();
    expect([clock.timers, await countOf("a"), errors]).toEqual([0, 1n, []]);
  });

  it("a flush is kept alive until the server has it", async () => {
    const kept: Promise<unknown>[] = [];
    const { clock, views, countOf } = start({ waitUntil: (work) => kept.push(work) });
    views.increment("a");
    views.increment("b");
    expect(kept).toHaveLength(1);
    void clock.advance(1_000);
    await Promise.all(kept);
    expect([await countOf("a"), await countOf("b")]).toEqual([1n, 1n]);
  });

  it("a waitUntil without its context warns once, and every increment is counted", async () => {
    const warned: string[] = [];
    const warn = vi.spyOn(console, "warn").mockImplementation((text) => void warned.push(text));
    const waitUntil = (): void => {
      throw new TypeError("Illegal invocation");
    };
    const { clock, views, countOf } = start({ keysMax: 1, waitUntil });
    try {
      for (const key of ["a", "b", "a"]) views.increment(key);
      await clock.advance(1_000);
      views.increment("b");
      await clock.advance(1_000);
    } finally {
      warn.mockRestore();
    }
    expect([await countOf("a"), await countOf("b")]).toEqual([2n, 2n]);
    expect(warned).toEqual([
      "throttr-edge: waitUntil failed: expected (work) => ctx.waitUntil(work)",
    ]);
  });

  it("an increment sets another timer where the one before was lost with its request", async () => {
    const { views, countOf, clock } = start();
    const lost = vi.spyOn(clock, "setTimer").mockReturnValue(0);
    views.increment("a");
    lost.mockRestore();
    await clock.advance(1_999);
    views.increment("a");
    expect(clock.timers).toBe(0);
    await clock.advance(1);
    views.increment("a");
    expect(clock.timers).toBe(1);
    await clock.advance(1_000);
    expect(await countOf("a")).toBe(3n);
  });
});

describe("a flush that fails", () => {
  it("a flush that was certainly not applied goes with the next one", async () => {
    const { clock, views, errors, countOf } = start({}, (message) =>
      message === 0 ? "unsent" : "through",
    );
    views.increment("a", 2);
    await clock.advance(1_000);
    expect([await countOf("a"), errors]).toEqual([undefined, ["connection_failed"]]);
    views.increment("a");
    await clock.advance(1_000);
    expect([await countOf("a"), errors]).toEqual([3n, ["connection_failed"]]);
  });

  it("a flush whose outcome is unknown is not sent again, and nothing is counted twice", async () => {
    const { clock, views, errors, countOf } = start({}, (message) =>
      message === 0 ? "lost" : "through",
    );
    views.increment("a", 2);
    await clock.advance(1_000);
    await clock.advance(10_000);
    expect([await countOf("a"), errors]).toEqual([2n, ["outcome_unknown"]]);
    views.increment("a");
    await expect(views.flush()).resolves.toBeUndefined();
    expect(await countOf("a")).toBe(3n);
  });

  it("flush rejects with the error of a key, and the other keys are counted", async () => {
    const { views, errors, countOf, probe } = start();
    await probe.set("views:a", "no counter", { ttlMs: DAY_MS });
    views.increment("a");
    views.increment("b");
    await expect(views.flush()).rejects.toThrow("kind_mismatch");
    expect([await countOf("b"), errors]).toEqual([1n, []]);
  });

  it("a flush that a server in an update refused is not sent again, as an earlier release may have applied a part of it", async () => {
    const sent: BatchCall[] = [];
    const throttr: CounterBackend = {
      batch: async (calls: readonly BatchCall[]) => {
        sent.push(...calls);
        throw new ThrottrError("batch_version", "the deployment is being updated");
      },
    };
    const clock = new FakeClock();
    const errors: string[] = [];
    const onError = (error: unknown) => void errors.push((error as ThrottrError).code);
    const views = new FlushedCounter(throttr, "views", { ttlMs: DAY_MS, clock, onError });
    views.increment("a");
    await clock.advance(10_000);
    expect([sent.length, errors]).toEqual([1, ["batch_version"]]);
  });

  it("what is put back stays within the keys that a counter gathers", async () => {
    const sent: number[] = [];
    const throttr: CounterBackend = {
      batch: async (calls: readonly BatchCall[]) => {
        sent.push(calls.length);
        throw new ThrottrError("connection_failed", "cut");
      },
    };
    const clock = new FakeClock();
    const options = { ttlMs: DAY_MS, keysMax: 5, clock, onError: () => {} };
    const views = new FlushedCounter(throttr, "views", options);
    for (let i = 0; i < 100; i++) {
      views.increment(`${i}`);
      await settle();
    }
    await clock.advance(10_000);
    expect(Math.max(...sent)).toBe(5);
  });

  it("nothing of a flush stays in memory once it has failed", async () => {
    setFlagsFromString("--expose-gc");
    const collectGarbage = runInNewContext("gc") as () => void;
    const failures: WeakRef<ThrottrError>[] = [];
    const onError = (error: ThrottrError) => void failures.push(new WeakRef(error));
    const { clock, views } = start({ onError }, () => "lost");
    for (let i = 0; i < 3; i++) {
      views.increment("a");
      await clock.advance(1_000);
    }
    await settle();
    collectGarbage();
    expect(failures.map((failure) => failure.deref())).toEqual([undefined, undefined, undefined]);
    await views.close();
  });

  it("without onError, a failed flush is a warning", async () => {
    const { clock, throttr } = start({}, () => "unsent");
    const warned: string[] = [];
    const { warn } = console;
    console.warn = (text: string) => warned.push(text);
    try {
      throttr.counter("views", { ttlMs: DAY_MS }).increment("a");
      await clock.advance(1_000);
    } finally {
      console.warn = warn;
    }
    expect(warned).toEqual(["throttr-edge: a flush failed: connection_failed: cut"]);
  });

  it("whatever becomes of flushes, the server counts what it was sent, once", async () => {
    const fates = fc.constantFrom<Fate>(
      "through",
      "unsent",
      "lost",
      new ThrottrError("outcome_unknown", "not applied"),
    );
    const event = fc.oneof(
      fc.record({ key: fc.constantFrom("a", "b", "c"), by: fc.bigInt(0n, 9n) }),
      fc.record({ passMs: fc.integer({ min: 1, max: 900 }) }),
    );
    const property = fc.asyncProperty(
      fc.array(event, { maxLength: 40 }),
      fc.array(fates, { minLength: 1, maxLength: 10 }),
      async (events, all) => {
        const { clock, views, countOf } = start({ flushMs: 500 }, (message) => {
          const fate = all[message] ?? "through";
          if (fate instanceof ThrottrError) {
            // Lost before it was applied: what is gathered by now is still here.
            for (const [key, by] of gathered) lost.set(key, (lost.get(key) ?? 0n) + by);
          }
          if (fate !== "unsent") gathered.clear();
          return fate;
        });
        const added = new Map<string, bigint>();
        const lost = new Map<string, bigint>();
        const gathered = new Map<string, bigint>();
        for (const happening of events) {
          if ("passMs" in happening) await clock.advance(happening.passMs);
          else {
            const { key, by } = happening;
            views.increment(key, by);
            added.set(key, (added.get(key) ?? 0n) + by);
            gathered.set(key, (gathered.get(key) ?? 0n) + by);
          }
        }
        await clock.advance(20 * 500);
        for (const [key, sum] of added) {
          expect((await countOf(key)) ?? 0n).toBe(sum - (lost.get(key) ?? 0n));
        }
      },
    );
    await fc.assert(property, { seed: inject("seed"), numRuns: 200 });
  });
});

describe("options of a flushed counter", () => {
  const { throttr } = start();

  it.each<[string, unknown[], string]>([
    ["no options", ["views"], "ttl_invalid"],
    ["no TTL", ["views", {}], "ttl_invalid"],
    ["no name", [undefined, { ttlMs: 1 }], "name_invalid: name: expected text, got undefined"],
    ["a short flushMs", ["views", { ttlMs: 1, flushMs: 9 }], "option_invalid: flushMs"],
    ["a long flushMs", ["views", { ttlMs: 1, flushMs: 10_001 }], "option_invalid: flushMs"],
    ["too many keys", ["views", { ttlMs: 1, keysMax: 10_001 }], "option_invalid: keysMax"],
    ["a word as onError", ["views", { ttlMs: 1, onError: "open" }], "option_invalid: onError: exp"],
    ["true as waitUntil", ["views", { ttlMs: 1, waitUntil: true }], "option_invalid: waitUntil: e"],
    ["an unknown option", ["views", { ttlMs: 1, flush: 1 }], "option_invalid: flush: FlushedC"],
    ["a name too long for any key", ["n".repeat(255), { ttlMs: 1 }], "name_invalid: name: expec"],
    ["a clock without timers", ["a", { ttlMs: 1, clock: { nowMs: () => 0 } }], "option_invalid: c"],
  ])("a counter with %s is refused", (_, args, expected) => {
    const { counter } = throttr as unknown as { counter: (...given: unknown[]) => unknown };
    expect(() => counter.apply(throttr, args)).toThrow(expected);
  });

  it("a flushed counter of a binding that is missing is refused when it is made", () => {
    const { MISSING } = {} as Record<string, CounterBackend>;
    expect(() => new FlushedCounter(MISSING!, "views", { ttlMs: 1 })).toThrow(
      "argument_invalid: throttr: expected a client or a service binding, got undefined",
    );
  });
});
