/** Semaphores where they end: numbers, names, leases to the millisecond, statistics, memory, pages. */
import fc from "fast-check";
import { describe, expect, inject, it } from "vitest";
import { Engine, type EngineOptions } from "../../src/engine/engine.ts";
import { connectionHolder, leaseHolder } from "../../src/engine/semaphores/holder.ts";
import { hashBytes } from "../../src/engine/hash.ts";
import { Leases } from "../../src/engine/semaphores/leases.ts";
import { ABSENT } from "../../src/engine/semaphores/semaphores.ts";
import { ByteWriter } from "../../src/wire/bytes.ts";
import { decodeDumpEntry, decodeReply, encodeRequest } from "../support/yrmcds/codec.ts";
import { writeDumpReplies } from "../../src/wire/yrmcds/dump.ts";
import { Status } from "../../src/wire/yrmcds/protocol.ts";
import { Keyspace } from "../../src/wire/keyspace.ts";
import { batchOf, bytesOf, concat, frameOf, hex } from "../support/frames/index.ts";
import { Disk } from "../support/engine/disk.ts";
import { textOf } from "../support/models/yrmcds.ts";
import { framesOf } from "../support/yrmcds/server.ts";
import { runs } from "../support/runs.ts";

const seed = inject("seed");
const INTERVAL_MS = 10_000;
/** A boundary. */
const START_MS = 1_700_000_000_000;
const U32_MAX = 0xffffffff;
const OPTIONS: EngineOptions = {
  hashKey: { low: seed, high: 3 },
  bytesMax: 64 << 20,
  isCounting: true,
  semaphoreIntervalMs: INTERVAL_MS,
};

function idOf(index: number): Uint8Array {
  const id = new Uint8Array(16);
  new DataView(id.buffer).setUint32(12, index);
  return id;
}

const A = connectionHolder(idOf(1));
const B = connectionHolder(idOf(2));

/** Semaphores with names as text, at a time that moves only when it is told to. */
class Bench {
  nowMs = START_MS;
  engine: Engine;
  readonly #disk = new Disk(1_900_000);
  #options: EngineOptions;

  constructor(options: Partial<EngineOptions> = {}) {
    this.#options = { ...OPTIONS, ...options };
    this.engine = new Engine(this.#options);
  }

  acquire(name: string, resources: number, maximum: number, holder: Uint8Array = A): Status {
    const bytes = bytesOf(`..${name}`);
    const { semaphores } = this.engine;
    const request = { nameAt: 2, nameBytes: name.length, resources, maximum };
    return semaphores.acquire(bytes, request, holder, this.nowMs);
  }

  release(name: string, resources: number, holder: Uint8Array = A): Status {
    const bytes = bytesOf(`..${name}`);
    const request = { nameAt: 2, nameBytes: name.length, resources };
    return this.engine.semaphores.release(bytes, request, holder, this.nowMs);
  }

  get(name: string): number {
    return this.engine.semaphores.get(bytesOf(name), 0, name.length, this.nowMs);
  }

  leave(holder: Uint8Array): number {
    return this.engine.semaphores.releaseAll(holder, this.nowMs);
  }

  lease(name: string, id: number, ttlMs: number, resources = 1, maximum = 100): Status {
    const request = { name: bytesOf(name), resources, maximum, ttlMs, leaseId: idOf(id) };
    return this.leases.acquire(request, this.nowMs).status;
  }

  /** The new end of the lease; null for a lease that is not there. */
  renew(name: string, id: number, ttlMs: number): number | null {
    return this.leases.renew(bytesOf(name), idOf(id), ttlMs, this.nowMs)?.endsAtMs ?? null;
  }

  releaseLease(name: string, id: number): boolean {
    return this.leases.release(bytesOf(name), idOf(id), this.nowMs);
  }

  get leases(): Leases {
    return new Leases(this.engine.semaphores);
  }

  collect(): number {
    let collected = 0;
    for (let cursor: number | null = 0; cursor !== null;) {
      const step: { collected: number; cursor: number | null } = this.engine.semaphores.collectStep(
        cursor,
        this.nowMs,
      );
      collected += step.collected;
      cursor = step.cursor;
    }
    return collected;
  }

  /** By name: consumption and maximum, as Dump tells them; a page may end behind every segment. */
  dump(between: () => void = () => {}): Map<string, [number, number]> {
    const entries = new Map<string, [number, number]>();
    for (let cursor: number | null = 0; cursor !== null; between()) {
      const page = this.engine.semaphorePages.dump(cursor, 1, this.nowMs);
      const out = new ByteWriter();
      writeDumpReplies(out, 0, "today", page.entries);
      for (const frame of framesOf(out.take())) {
        const { name, consumption, maximum } = decodeDumpEntry(frame.subarray(12), "today")!;
        if (entries.has(textOf(name))) throw new Error(`${textOf(name)} is told of twice`);
        entries.set(textOf(name), [consumption, maximum]);
      }
      cursor = page.cursor;
    }
    return entries;
  }

  get figures(): ReturnType<Engine["semaphores"]["figures"]> {
    return this.engine.semaphores.figures(this.nowMs);
  }

  commit(): void {
    this.#disk.commit(this.engine);
  }

  /** Starts anew from what has been committed, after a while. */
  restart(sleptMs = 0): void {
    this.nowMs += sleptMs;
    this.#options = { ...this.#options, hashKey: { low: seed, high: this.nowMs >>> 0 } };
    this.engine = this.#disk.load(this.#options, this.nowMs);
  }
}

describe("numbers", () => {
  it("resources are added exactly beyond 32 bits", () => {
    const bench = new Bench();
    expect(bench.acquire("a", U32_MAX, U32_MAX)).toBe(Status.success);
    expect(bench.acquire("a", 1, 1, B)).toBe(Status.resourceNotAvailable);
    expect(bench.acquire("a", 1, U32_MAX, B)).toBe(Status.resourceNotAvailable);
    expect(bench.acquire("a", U32_MAX, U32_MAX)).toBe(Status.resourceNotAvailable);
    expect(bench.get("a")).toBe(U32_MAX);
    expect(bench.release("a", U32_MAX, B)).toBe(Status.notAcquired);
    expect(bench.release("a", U32_MAX - 1)).toBe(Status.success);
    expect(bench.acquire("a", U32_MAX - 1, U32_MAX, B)).toBe(Status.success);
    expect(bench.dump()).toEqual(new Map([["a", [U32_MAX, U32_MAX]]]));
    bench.commit();
    bench.restart();
    expect(bench.leave(B)).toBe(1);
    expect(bench.get("a")).toBe(1);
  });

  it("a refused Acquire changes nothing, and writes nothing", () => {
    const bench = new Bench();
    bench.acquire("a", 3, 3);
    bench.commit();
    bench.nowMs += INTERVAL_MS;
    expect(bench.acquire("a", 1, 3, B)).toBe(Status.resourceNotAvailable);
    expect(bench.acquire("b", 3, 2, B)).toBe(Status.resourceNotAvailable);
    expect(bench.release("a", 1, B)).toBe(Status.notAcquired);
    expect(bench.release("a", 4)).toBe(Status.notAcquired);
    expect(bench.release("b", 0)).toBe(Status.notFound);
    expect(bench.get("b")).toBe(ABSENT);
    expect(bench.engine.isDirty).toBe(false);
    expect(bench.figures).toMatchObject({ objects: 1, totalObjects: 1, holdings: 1, holders: 1 });
  });
});

describe("names", () => {
  it("a semaphore with a name of 65,535 bytes has many holders, each counted alone", () => {
    const bench = new Bench();
    const name = (last: string): string => "n".repeat(65_534) + last;
    const holders = Array.from({ length: 50 }, (_, i) => connectionHolder(idOf(i)));
    for (const holder of holders) {
      for (const last of ["x", "y"]) {
        expect(bench.acquire(name(last), 2, 100, holder)).toBe(Status.success);
      }
    }
    expect(bench.lease(name("x"), 1, 1000, 1, 101)).toBe(Status.success);
    expect(bench.acquire(name("x"), 1, 101, holders[0])).toBe(Status.resourceNotAvailable);
    // Two records know the names, whoever holds them.
    expect(bench.engine.figures.bytes).toBeLessThan(3 * 65_535);
    bench.commit();
    bench.restart();
    expect(bench.release(name("y"), 2, holders[7])).toBe(Status.success);
    expect(bench.release(name("y"), 1, holders[7])).toBe(Status.notAcquired);
    expect(bench.leave(holders[8]!)).toBe(2);
    expect([bench.get(name("x")), bench.get(name("y"))]).toEqual([99, 96]);
    bench.nowMs += 1000;
    expect(bench.get(name("x"))).toBe(98);
    for (const holder of holders) bench.leave(holder);
    expect([...bench.dump().values()].map(([consumption]) => consumption)).toEqual([0, 0]);
  });

  it("collected semaphores leave nothing to later ones", () => {
    for (const isRestarted of [true, false]) {
      const bench = new Bench();
      const used: number[] = [];
      for (let round = 0; round < 6; round++) {
        for (let i = 0; i < 90; i++) {
          bench.acquire(`${round}:${i}`, 1, 1, connectionHolder(idOf(100 + i)));
        }
        expect(bench.acquire("stays", 1, 100, B)).toBe(Status.success);
        // Behind all that go.
        bench.acquire(`stays:${round}`, 1, 1, B);
        used.push(bench.figures.usedBytes);
        for (let i = 0; i < 90; i++) bench.leave(connectionHolder(idOf(100 + i)));
        bench.nowMs += INTERVAL_MS;
        expect(bench.collect()).toBe(90);
        bench.commit();
        if (isRestarted) bench.restart();
        expect(bench.dump().size).toBe(round + 2);
        expect(bench.dump().get("stays")).toEqual([round + 1, round + 1]);
      }
      // Places in the index are given out again, or it would grow with every round.
      expect(Math.max(...used)).toBeLessThan(used[0]! + 2000);
      expect(bench.leave(B)).toBe(7);
      expect(bench.get("stays")).toBe(0);
    }
  });
});

describe("equal hashes", () => {
  const hashKey = { low: 11, high: 12 };
  const names = Array.from({ length: 200_000 }, (_, i) => bytesOf(i.toString(36)));
  const byHash = (keyspace: number): Map<number, Uint8Array[]> => {
    const found = new Map<number, Uint8Array[]>();
    for (const name of names) {
      const hash = hashBytes(hashKey, keyspace, name, 0, name.length);
      found.set(hash, [...(found.get(hash) ?? []), name]);
    }
    return found;
  };
  const semaphores = byHash(Keyspace.semaphores);

  it("names with the same hash are different semaphores", () => {
    const bench = new Bench({ hashKey });
    const [one, other] = [...semaphores.values()].find(({ length }) => length > 1)!.map(textOf);
    bench.acquire(one!, 1, 10);
    bench.acquire(other!, 2, 10);
    bench.acquire(one!, 3, 10, B);
    expect([bench.get(one!), bench.get(other!)]).toEqual([4, 2]);
    expect(bench.leave(A)).toBe(2);
    expect([bench.get(one!), bench.get(other!)]).toEqual([3, 0]);
  });

  it("semaphores and records with the same hash are different things", () => {
    const bench = new Bench({ hashKey });
    const buffers = byHash(Keyspace.throttr);
    const [hash, [key]] = [...buffers].find(([hash]) => semaphores.has(hash))!;
    const protocol = { dialect: "7.3", valueSize: 4 };
    const set = {
      type: "set",
      key: textOf(key!),
      ttlType: 6,
      ttl: 1n,
      // A semaphore with the number that the first one gets.
      value: new Uint8Array(20).fill(1, 16, 17),
    } as const;
    bench.engine.apply(batchOf([{ protocol, frames: [frameOf(protocol, set)] }]), START_MS);
    const name = textOf(semaphores.get(hash)![0]!);
    expect(bench.acquire(name, 2, 10)).toBe(Status.success);
    expect(bench.release(name, 1)).toBe(Status.success);
    expect(bench.get(name)).toBe(1);
    const get = Uint8Array.of(0x06, key!.length, ...key!);
    const answer = bench.engine.apply(batchOf([{ protocol, frames: [get] }]), START_MS);
    expect(hex(answer)).toMatch(new RegExp(`${hex(set.value)}$`));
  });
});

describe("leases", () => {
  it("leases end to the millisecond, once, also while the shard sleeps", () => {
    for (const isAsleep of [false, true]) {
      const bench = new Bench();
      bench.lease("a", 1, 500, 2);
      bench.acquire("a", 1, 100);
      expect(bench.engine.semaphores.deadlineMs).toBe(START_MS + 500);
      bench.commit();
      if (isAsleep) bench.restart(499);
      else bench.nowMs += 499;
      expect(bench.get("a")).toBe(3);
      if (isAsleep) bench.restart(1);
      else bench.nowMs += 1;
      expect(bench.get("a")).toBe(1);
      // What was not written is done again, to the same end.
      if (isAsleep) bench.restart(1);
      expect(bench.get("a")).toBe(1);
      bench.commit();
      if (isAsleep) bench.restart(1);
      expect(bench.get("a")).toBe(1);
      expect(bench.engine.semaphores.deadlineMs).toBe(START_MS + INTERVAL_MS);
      expect(bench.releaseLease("a", 1)).toBe(false);
      expect(bench.figures).toMatchObject({ holdings: 1, holders: 1 });
    }
  });

  it("a lease that ends makes room for an Acquire in the same millisecond", () => {
    const bench = new Bench();
    bench.lease("a", 1, 10, 1, 1);
    expect(bench.acquire("a", 1, 1)).toBe(Status.resourceNotAvailable);
    expect(bench.lease("a", 2, 10, 1, 1)).toBe(Status.resourceNotAvailable);
    bench.nowMs += 9;
    expect(bench.acquire("a", 1, 1)).toBe(Status.resourceNotAvailable);
    bench.nowMs += 1;
    expect(bench.acquire("a", 1, 1)).toBe(Status.success);
  });

  it("leases are renewed and acquired again by their semaphore and their own id", () => {
    const bench = new Bench();
    const { semaphores } = bench.engine;
    bench.lease("a", 1, 10, 2, 2);
    bench.nowMs += 5;
    expect(bench.renew("a", 1, 10)).toBe(START_MS + 15);
    bench.nowMs += 5;
    expect(bench.lease("a", 1, 10, 2, 2)).toBe(Status.success);
    expect(bench.get("a")).toBe(2);
    expect(semaphores.deadlineMs).toBe(START_MS + 20);
    expect(bench.lease("a", 1, 10, 1)).toBe(Status.invalidArguments);
    expect(bench.renew("b", 1, 10)).toBeNull();
    expect(bench.releaseLease("b", 1)).toBe(false);
    expect(bench.get("b")).toBe(ABSENT);
    expect(bench.renew("a", 1, 1)).toBe(START_MS + 11);
    bench.nowMs += 1;
    expect(bench.renew("a", 1, 10)).toBeNull();
    expect(bench.lease("b", 1, 10, 2)).toBe(Status.success);
    expect(bench.releaseLease("b", 1)).toBe(true);
    expect(bench.releaseLease("b", 1)).toBe(false);
  });

  it("one lease id holds resources of several semaphores, each until its own end", () => {
    const bench = new Bench();
    const names = ["a", "b", "c", "d"];
    names.forEach((name, i) => {
      expect(bench.lease(name, 1, 10 * (i + 1), i + 1)).toBe(Status.success);
    });
    expect(names.map((name) => bench.get(name))).toEqual([1, 2, 3, 4]);
    // Acquired again, a lease is renewed and holds what it held; with other resources it is refused.
    expect(bench.lease("b", 1, 25, 2)).toBe(Status.success);
    expect(bench.lease("b", 1, 25, 1)).toBe(Status.invalidArguments);
    expect(bench.renew("c", 1, 35)).toBe(START_MS + 35);
    expect(bench.releaseLease("d", 1)).toBe(true);
    const uses = [9, 10, 24, 25, 34, 35].map((ms) => {
      bench.nowMs = START_MS + ms;
      return names.map((name) => bench.get(name));
    });
    expect(uses).toEqual([
      [1, 2, 3, 0],
      [0, 2, 3, 0],
      [0, 2, 3, 0],
      [0, 0, 3, 0],
      [0, 0, 3, 0],
      [0, 0, 0, 0],
    ]);
    expect(bench.figures).toMatchObject({ holdings: 0, holders: 0 });
  });

  it("a lease is not released by a connection of the same id", () => {
    const bench = new Bench();
    bench.lease("a", 1, 1000);
    bench.acquire("a", 2, 100, A);
    expect(bench.release("a", 3, A)).toBe(Status.notAcquired);
    expect(bench.leave(A)).toBe(1);
    expect(bench.get("a")).toBe(1);
    expect(bench.leave(leaseHolder(idOf(1)))).toBe(1);
    expect(bench.get("a")).toBe(0);
  });

  it("leases end in the order of their ends, however they came and were moved", () => {
    const ttl = fc.integer({ min: 1, max: 50 });
    const change = fc.record({ id: fc.nat(19), ttlMs: fc.option(ttl, { nil: null }) });
    const property = fc.property(
      fc.array(ttl, { minLength: 20, maxLength: 20 }),
      fc.array(change, { maxLength: 30 }),
      (ttls, changes) => {
        const bench = new Bench();
        const ends = new Map<number, number>();
        ttls.forEach((ttlMs, id) => {
          bench.lease("a", id, ttlMs);
          ends.set(id, ttlMs);
        });
        for (const { id, ttlMs } of changes) {
          if (ttlMs === null) {
            expect(bench.releaseLease("a", id)).toBe(ends.delete(id));
          } else if (ends.has(id)) {
            bench.renew("a", id, ttlMs);
            ends.set(id, ttlMs);
          }
        }
        for (let ms = 0; ms <= 50; ms++) {
          bench.nowMs = START_MS + ms;
          expect(bench.get("a")).toBe([...ends.values()].filter((end) => end > ms).length);
        }
      },
    );
    fc.assert(property, { seed, numRuns: runs(100) });
  });

  it.each([0, -1, 0.5, NaN, Infinity, 2 ** 53])("a lease of %f ms is refused", (ttlMs) => {
    const bench = new Bench();
    bench.lease("a", 1, 1);
    expect(() => bench.lease("b", 2, ttlMs)).toThrow(/^ttl_invalid: /);
    expect(() => bench.renew("a", 1, ttlMs)).toThrow(/^ttl_invalid: /);
    expect(bench.get("b")).toBe(ABSENT);
  });

  it.each([
    ["no resources", "a", 0, 1],
    ["more resources than the maximum", "a", 2, 1],
    ["a maximum beyond 32 bits", "a", 1, 2 ** 32],
    ["parts of a resource", "a", 1.5, 3],
    ["resources that are no number", "a", NaN, 3],
    ["no name", "", 1, 1],
    ["a name that is too long", "a".repeat(65_536), 1, 1],
  ])("a lease of %s is refused", (_, name, resources, maximum) => {
    const bench = new Bench();
    expect(bench.lease(name, 1, 10, resources, maximum)).toBe(Status.invalidArguments);
    expect(bench.engine.isDirty).toBe(false);
  });

  it("a lease needs an id of 16 bytes", () => {
    const { leases } = new Bench();
    for (const bytes of [0, 15, 17]) {
      const leaseId = new Uint8Array(bytes);
      const lease = { name: bytesOf("a"), resources: 1, maximum: 1, ttlMs: 1, leaseId };
      expect(() => leases.release(lease.name, leaseId, START_MS)).toThrow(
        /^holder: expected an id of 16 bytes, /,
      );
      expect(() => leases.acquire(lease, START_MS)).toThrow(
        /^holder: expected an id of 16 bytes, /,
      );
    }
  });
});

describe("statistics", () => {
  it("statistics keep the maximum of the interval of the last change", () => {
    const bench = new Bench();
    bench.acquire("a", 5, 10);
    bench.release("a", 3);
    bench.acquire("a", 1, 10);
    expect(bench.dump().get("a")).toEqual([3, 5]);
    bench.nowMs = START_MS + INTERVAL_MS - 1;
    expect(bench.dump().get("a")).toEqual([3, 5]);
    bench.nowMs++;
    expect(bench.dump().get("a")).toEqual([3, 3]);
    // A refusal and a look are no change.
    bench.acquire("a", 9, 10, B);
    bench.release("a", 9);
    bench.get("a");
    expect(bench.dump().get("a")).toEqual([3, 3]);
    bench.acquire("a", 1, 10);
    expect(bench.dump().get("a")).toEqual([4, 4]);
    bench.release("a", 2);
    expect(bench.dump().get("a")).toEqual([2, 4]);
    bench.nowMs += INTERVAL_MS;
    bench.release("a", 1);
    expect(bench.dump().get("a")).toEqual([1, 2]);
  });

  it("statistics count a Release of nothing as a change", () => {
    const bench = new Bench();
    bench.acquire("a", 5, 10);
    bench.release("a", 4);
    bench.nowMs += INTERVAL_MS;
    expect(bench.release("a", 0)).toBe(Status.success);
    bench.release("a", 1);
    expect(bench.dump().get("a")).toEqual([0, 1]);
    bench.nowMs += INTERVAL_MS - 1;
    expect(bench.collect()).toBe(0);
    bench.nowMs++;
    expect(bench.collect()).toBe(1);
  });

  it("statistics count the end of a connection as a change", () => {
    const bench = new Bench();
    bench.acquire("a", 5, 10);
    bench.acquire("a", 2, 10, B);
    bench.nowMs += INTERVAL_MS;
    bench.leave(A);
    expect(bench.dump().get("a")).toEqual([2, 7]);
  });

  it("statistics place the end of a lease at its time, however late they are read", () => {
    for (const isAsleep of [false, true]) {
      const bench = new Bench();
      bench.acquire("a", 5, 10);
      bench.lease("a", 1, INTERVAL_MS + 7, 3);
      bench.lease("a", 2, INTERVAL_MS - 7, 1);
      bench.commit();
      const look = (afterMs: number): [number, number] => {
        if (isAsleep) bench.restart();
        bench.nowMs = START_MS + afterMs;
        return bench.dump().get("a")!;
      };
      expect(look(2 * INTERVAL_MS - 1)).toEqual([5, 8]);
      expect(look(2 * INTERVAL_MS)).toEqual([5, 5]);
    }
  });

  it("a semaphore that was not held in an interval can be collected", () => {
    const bench = new Bench();
    bench.nowMs += INTERVAL_MS / 2;
    bench.acquire("idle", 1, 1);
    bench.acquire("held", 1, 1, B);
    bench.leave(A);
    const { semaphores } = bench.engine;
    expect(semaphores.collectionDeadlineMs(bench.nowMs)).toBe(START_MS + INTERVAL_MS);
    expect(bench.collect()).toBe(0);
    expect(bench.get("idle")).toBe(0);
    bench.nowMs = START_MS + INTERVAL_MS;
    expect(bench.get("idle")).toBe(0);
    expect(semaphores.collectionDeadlineMs(bench.nowMs)).toBe(START_MS + 2 * INTERVAL_MS);
    expect(bench.collect()).toBe(1);
    semaphores.noteCollection(30);
    expect(bench.get("idle")).toBe(ABSENT);
    expect(bench.release("idle", 0)).toBe(Status.notFound);
    expect(bench.get("held")).toBe(1);
    semaphores.noteCollection(12);
    expect(bench.figures).toMatchObject({
      objects: 1,
      totalObjects: 2,
      collections: 2,
      lastCollectionMicroseconds: 12,
      totalCollectionMicroseconds: 42,
    });
    bench.commit();
    bench.restart();
    expect(bench.get("idle")).toBe(ABSENT);
    expect(bench.figures).toMatchObject({ objects: 1, totalObjects: 1 });
  });
});

describe("memory", () => {
  const BYTES_MAX = 24_000;
  const request = fc.record({
    kind: fc.constantFrom("acquire", "acquire", "acquire", "lease", "release", "leave"),
    name: fc.tuple(fc.nat(300), fc.constantFrom(1, 1, 30, 900)),
    who: fc.nat(200),
  });

  it("an Acquire beyond the memory changes nothing, and all other requests go on", () => {
    const property = fc.property(
      fc.array(request, { minLength: 300, maxLength: 400, size: "max" }),
      fc.integer(),
      (requests, hashSeed) => {
        const bench = new Bench({ bytesMax: BYTES_MAX, hashKey: { low: hashSeed, high: 4 } });
        let held: { text: string; holder: Uint8Array } | null = null;
        let refused = 0;
        const state = (): unknown => [
          new Map([...bench.dump()].toSorted(([a], [b]) => (a < b ? -1 : 1))),
          { ...bench.figures, usedBytes: 0 },
          bench.engine.semaphores.deadlineMs,
        ];
        for (const { kind, name, who } of requests) {
          const text = String(name[0]).repeat(name[1]);
          const holder = connectionHolder(idOf(who));
          bench.commit();
          const before = state();
          if (kind === "leave" || kind === "release") {
            if (kind === "leave") bench.leave(holder);
            else bench.release(text, 1, holder);
            held = null;
          } else {
            const isLease = kind === "lease";
            const status = isLease
              ? bench.lease(text, who, 1e6)
              : bench.acquire(text, 1, 1e6, holder);
            if (status === Status.success && !isLease) held = { text, holder };
            if (status === Status.outOfMemory) {
              refused++;
              expect(state()).toEqual(before);
              expect(bench.engine.isDirty).toBe(false);
              // More of what is held takes no memory.
              if (held !== null) {
                expect(bench.acquire(held.text, 1, 1e6, held.holder)).toBe(Status.success);
                expect(bench.release(held.text, 1, held.holder)).toBe(Status.success);
              }
            }
          }
          expect(bench.engine.figures.bytes).toBeLessThanOrEqual(BYTES_MAX);
        }
        expect(refused).toBeGreaterThan(0);
        expect(bench.engine.figures.refusedForSpace).toBe(refused);
        // When all have left and been forgotten there is room.
        bench.nowMs += 1e6;
        for (let who = 0; who <= 200; who++) bench.leave(connectionHolder(idOf(who)));
        for (const [consumption] of bench.dump().values()) expect(consumption).toBe(0);
        expect(bench.figures.holdings).toBe(0);
        bench.nowMs += INTERVAL_MS;
        bench.collect();
        expect(bench.acquire("x".repeat(5000), 1, 1)).toBe(Status.success);
      },
    );
    fc.assert(property, { seed, numRuns: 15 });
  });

  it("a new semaphore gets all the memory that it needs, or none", () => {
    let granted = 0;
    let largestRefused = 0;
    for (let bytesMax = 0; bytesMax < 6000; bytesMax += 4) {
      const bench = new Bench({ bytesMax });
      const status = bench.acquire("a".repeat(bytesMax % 600), 1, 1);
      if (status === Status.success) {
        granted++;
        continue;
      }
      largestRefused = bytesMax;
      expect(status).toBe(Status.outOfMemory);
      expect(bench.engine.figures).toMatchObject({ records: 0, refusedForSpace: 1 });
      expect(bench.figures).toMatchObject({ objects: 0, totalObjects: 0, holdings: 0, holders: 0 });
      expect(bench.engine.isDirty).toBe(false);
    }
    expect(granted).toBeGreaterThan(100);
    expect(largestRefused).toBeGreaterThan(1000);
  });

  it("exhausted memory is reported as out of memory", () => {
    const { engine } = new Bench({ bytesMax: 2000 });
    const frame = encodeRequest(
      { type: "acquire", name: new Uint8Array(3000), resources: 1, maximum: 1 },
      1,
    );
    const out = new ByteWriter();
    engine.semaphoreRequests.execute(frame, 0, frame.length, A, out, Infinity, START_MS);
    expect(decodeReply(out.take(), 0)).toMatchObject({ opcode: 2, status: Status.outOfMemory });
  });

  it("the reported memory is what is allocated, without what is kept free", () => {
    const bench = new Bench({ bytesMax: 40_000 });
    let filled = 0;
    while (bench.acquire(`a${filled}`, 1, 1) === Status.success) filled++;
    const { bytes } = bench.engine.figures;
    expect(bytes).toBeLessThanOrEqual(40_000);
    expect(filled).toBeGreaterThan(50);
    expect(bench.figures.usedBytes).toBeGreaterThan(bytes / 2);
    expect(bench.figures.usedBytes).toBeLessThanOrEqual(bytes);
  });

  it("expired records of another protocol make room for semaphores", () => {
    const protocol = { dialect: "7.3", valueSize: 4 };
    const frames = Array.from({ length: 1000 }, (_, i) =>
      frameOf(protocol, { type: "insert", key: `key:${i}`, quota: 1n, ttlType: 3, ttl: 5000n }),
    );
    // Whatever it is that there is no room for: the index, the semaphore, the holding.
    for (let bytesMax = 5000; bytesMax < 7000; bytesMax += 20) {
      const bench = new Bench({ bytesMax });
      bench.engine.apply(batchOf([{ protocol, frames }]), START_MS);
      bench.nowMs += 5000;
      expect(bench.acquire("a", 1, 1)).toBe(Status.success);
    }
    const bench = new Bench({ bytesMax: 60_000 });
    bench.engine.apply(batchOf([{ protocol, frames }]), START_MS);
    expect(bench.acquire("x".repeat(3000), 1, 1)).toBe(Status.outOfMemory);
    let held = 0;
    while (bench.acquire(`a${held}`, 1, 1) === Status.success) held++;
    bench.nowMs += 5000;
    for (let i = 0; i < 50; i++) {
      expect(bench.acquire(`b${i}`, 1, 1, connectionHolder(idOf(i)))).toBe(Status.success);
    }
    expect(bench.acquire("x".repeat(3000), 1, 1)).toBe(Status.success);
    expect(bench.figures.objects).toBe(held + 51);
  });

  it("an index that has become far too large gives memory back", () => {
    const bench = new Bench();
    for (let i = 0; i < 5000; i++) bench.acquire(`a${i}`, 1, 1, connectionHolder(idOf(i)));
    const bytes = bench.engine.figures.bytes;
    for (let i = 1; i < 5000; i++) bench.leave(connectionHolder(idOf(i)));
    bench.nowMs += INTERVAL_MS;
    bench.collect();
    expect(bench.engine.figures.bytes).toBeLessThan(bytes / 20);
    expect(bench.engine.figures.bytes).toBeGreaterThanOrEqual(bench.figures.usedBytes);
    expect(bench.get("a0")).toBe(1);
    expect(bench.leave(connectionHolder(idOf(0)))).toBe(1);
    expect(bench.figures).toMatchObject({ objects: 1, totalObjects: 5000, holdings: 0 });
  });
});

describe("pages", () => {
  it("pages of Dump have every semaphore that stays once, whatever comes and goes meanwhile", () => {
    const bench = new Bench();
    const stay = Array.from({ length: 9000 }, (_, i) => `stay:${i}`);
    for (const name of stay) bench.acquire(name, 2, 2, B);
    for (let i = 0; i < 9000; i++) bench.acquire(`go:${i}`, 1, 1, A);
    bench.leave(A);
    bench.nowMs += INTERVAL_MS;
    let pages = 0;
    const entries = bench.dump(() => {
      pages++;
      for (let i = 0; i < 3000; i++) bench.acquire(`come:${pages}:${i}`, 1, 1, A);
      if (pages === 2) expect(bench.collect()).toBe(9000);
    });
    expect(pages).toBeGreaterThan(3);
    for (const name of stay) expect(entries.get(name)).toEqual([2, 2]);
  });

  it("pages of connections have each that stays once, and no leases", () => {
    const bench = new Bench();
    const { semaphores } = bench.engine;
    for (let i = 0; i < 300; i++) {
      bench.acquire(`a${i % 7}`, 1, 1000, connectionHolder(idOf(i)));
      bench.lease("a", i, 1000, 1, 1000);
    }
    const seen: string[] = [];
    for (let cursor: number | null = 0, page = 0; cursor !== null; page++) {
      const { ids, cursor: next }: { ids: Uint8Array; cursor: number | null } =
        semaphores.connections(cursor, 10, bench.nowMs);
      expect(ids.length).toBeLessThanOrEqual(160);
      for (let at = 0; at < ids.length; at += 16) seen.push(hex(ids.subarray(at, at + 16)));
      cursor = next;
      // Odd ones go, others come.
      bench.leave(connectionHolder(idOf(2 * page + 1)));
      bench.acquire("a", 1, 1000, connectionHolder(idOf(1000 + page)));
    }
    expect(new Set(seen).size).toBe(seen.length);
    for (let i = 0; i < 300; i += 2) expect(seen).toContain(hex(idOf(i)));
  });
});

describe("execution of frames", () => {
  const acquire = encodeRequest(
    { type: "acquire", name: bytesOf("a"), resources: 1, maximum: 9 },
    5,
  );

  it("execution stops when replies reach their limit, and continues behind it", () => {
    const { engine } = new Bench();
    const requests = engine.semaphoreRequests;
    const frames = concat([acquire, acquire, acquire, acquire]);
    const out = new ByteWriter();
    const execute = (at: number, replyBytesMax: number): number =>
      requests.execute(frames, at, frames.length, A, out, replyBytesMax, START_MS);
    expect(execute(0, 0)).toBe(0);
    expect(execute(0, 17)).toBe(2);
    expect(execute(2 * acquire.length, Infinity)).toBe(2);
    expect(framesOf(out.take())).toHaveLength(4);
    expect(engine.semaphores.get(bytesOf("a"), 0, 1, START_MS)).toBe(4);
  });

  it.each([
    ["a frame cut short", acquire.subarray(0, acquire.length - 1)],
    ["a header cut short", acquire.subarray(0, 11)],
    ["Stats", encodeRequest({ type: "stats" }, 0)],
    ["Dump", encodeRequest({ type: "dump" }, 0)],
  ])("execution refuses %s", (_, frame) => {
    const { engine } = new Bench();
    expect(() =>
      engine.semaphoreRequests.execute(
        frame,
        0,
        frame.length,
        A,
        new ByteWriter(),
        Infinity,
        START_MS,
      ),
    ).toThrow(/^frames: /);
  });

  it("execution writes one image of a record, however often it changes", () => {
    // What is counted would be in the row as well.
    const { engine } = new Bench({ isCounting: false });
    const release = encodeRequest({ type: "release", name: bytesOf("a"), resources: 1 }, 5);
    const frames = concat([
      acquire,
      ...Array.from({ length: 500 }, () => [acquire, release]).flat(),
    ]);
    const out = new ByteWriter();
    engine.semaphoreRequests.execute(frames, 0, frames.length, A, out, Infinity, START_MS);
    const rows = engine.takeCommit(1_900_000);
    expect(rows).toHaveLength(1);
    // Headers of the row and of two images; a name and a semaphore; holder and number, amount and row.
    expect(rows[0]!.length).toBe(12 + 2 * 20 + 1 + 20 + 21 + 8);
  });

  it("execution does not go back in time when a clock does", () => {
    const bench = new Bench();
    bench.lease("a", 1, 10);
    bench.nowMs += 10;
    expect(bench.get("a")).toBe(0);
    bench.nowMs = START_MS;
    expect(bench.get("a")).toBe(0);
    const lease = { name: bytesOf("a"), resources: 1, maximum: 1, ttlMs: 10, leaseId: idOf(2) };
    expect(bench.leases.acquire(lease, bench.nowMs)).toEqual({
      status: Status.success,
      endsAtMs: START_MS + 20,
    });
  });
});
