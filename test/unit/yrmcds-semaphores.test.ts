/** Semaphores against the model: any connections, closes, leases, times, collections and restarts. */
import fc from "fast-check";
import { describe, expect, inject, it } from "vitest";
import type { Engine } from "../../src/engine/engine.ts";
import { connectionHolder } from "../../src/engine/semaphores/holder.ts";
import { Leases } from "../../src/engine/semaphores/leases.ts";
import { ByteWriter } from "../../src/wire/bytes.ts";
import { decodeDumpEntry } from "../support/yrmcds/codec.ts";
import { writeDumpReplies } from "../../src/wire/yrmcds/dump.ts";
import { concat, hex } from "../support/frames/index.ts";
import { amountArbitrary, frameArbitrary, nameArbitrary } from "../support/yrmcds/arbitraries.ts";
import { Disk } from "../support/engine/disk.ts";
import type { ModelEntry } from "../support/models/semaphores.ts";
import { SemaphoreModel, textOf } from "../support/models/yrmcds.ts";
import { framesOf } from "../support/yrmcds/server.ts";
import { runs } from "../support/runs.ts";

const seed = inject("seed");
const INTERVAL_MS = 10_000;
const PARTIES = 4;

type Step =
  | { do: "requests"; who: number; frames: Uint8Array[] }
  | { do: "close"; who: number }
  | { do: "release lease"; who: number; name: Uint8Array }
  | {
      do: "lease";
      who: number;
      name: Uint8Array;
      resources: number;
      maximum: number;
      ttlMs: number;
    }
  | { do: "renew"; who: number; name: Uint8Array; ttlMs: number }
  | { do: "wait"; ms: number }
  | { do: "collect" | "commit" | "crash" | "restart" | "snapshot step" | "look" };

const who = fc.nat(PARTIES - 1);
const ms = fc.oneof(
  fc.constantFrom(1, 2, 999, INTERVAL_MS - 1, INTERVAL_MS, INTERVAL_MS + 1),
  fc.integer({ min: 1, max: 30 }),
  fc.integer({ min: 1, max: 3 * INTERVAL_MS }),
);
const step: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 8,
    arbitrary: fc.record({
      do: fc.constant("requests" as const),
      who,
      frames: fc.array(frameArbitrary, { minLength: 1, maxLength: 8 }),
    }),
  },
  { weight: 1, arbitrary: fc.record({ do: fc.constant("close" as const), who }) },
  {
    weight: 1,
    arbitrary: fc.record({ do: fc.constant("release lease" as const), who, name: nameArbitrary }),
  },
  {
    weight: 3,
    arbitrary: fc.record({
      do: fc.constant("lease" as const),
      who,
      name: nameArbitrary,
      resources: amountArbitrary,
      maximum: amountArbitrary,
      ttlMs: ms,
    }),
  },
  {
    weight: 1,
    arbitrary: fc.record({
      do: fc.constant("renew" as const),
      who,
      name: nameArbitrary,
      ttlMs: ms,
    }),
  },
  { weight: 4, arbitrary: fc.record({ do: fc.constant("wait" as const), ms }) },
  {
    weight: 4,
    arbitrary: fc.record({
      do: fc.constantFrom(
        "collect" as const,
        "commit" as const,
        "crash" as const,
        "restart" as const,
        "snapshot step" as const,
        "look" as const,
      ),
    }),
  },
);

const idOf = (index: number): Uint8Array => new Uint8Array(16).fill(index + 1);
const holderOf = (index: number): Uint8Array => connectionHolder(idOf(index));

function answersOf(
  engine: Engine,
  index: number,
  frames: Uint8Array[],
  nowMs: number,
): Uint8Array[] {
  const out = new ByteWriter();
  const bytes = concat(frames);
  const answered = engine.semaphoreRequests.execute(
    bytes,
    0,
    bytes.length,
    holderOf(index),
    out,
    Infinity,
    nowMs,
  );
  expect(answered).toBe(frames.length);
  return framesOf(out.take());
}

/** What Dump tells of all semaphores, a small page at a time. */
function dumpOf(engine: Engine, nowMs: number): Map<string, ModelEntry> {
  const entries = new Map<string, ModelEntry>();
  for (let cursor: number | null = 0; cursor !== null;) {
    const page = engine.semaphorePages.dump(cursor, 1, nowMs);
    const out = new ByteWriter();
    writeDumpReplies(out, 7, "document", page.entries);
    for (const frame of framesOf(out.take())) {
      const { consumption, maximum, name } = decodeDumpEntry(frame.subarray(12), "document")!;
      expect(entries.has(textOf(name))).toBe(false);
      entries.set(textOf(name), { consumption, maximum });
    }
    cursor = page.cursor;
  }
  return entries;
}

function collectAll(engine: Engine, nowMs: number): number {
  let collected = 0;
  for (let cursor: number | null = 0; cursor !== null;) {
    const result: { collected: number; cursor: number | null } = engine.semaphores.collectStep(
      cursor,
      nowMs,
    );
    collected += result.collected;
    cursor = result.cursor;
  }
  return collected;
}

function connectionsOf(engine: Engine, nowMs: number): string[] {
  const ids: string[] = [];
  for (let cursor: number | null = 0; cursor !== null;) {
    const page: { ids: Uint8Array; cursor: number | null } = engine.semaphores.connections(
      cursor,
      1,
      nowMs,
    );
    if (page.ids.length > 0) ids.push(hex(page.ids));
    cursor = page.cursor;
  }
  return ids.toSorted();
}

function expectAlike(engine: Engine, model: SemaphoreModel, nowMs: number): void {
  const { semaphores } = engine;
  const entries = model.dump(nowMs);
  expect(dumpOf(engine, nowMs)).toEqual(entries);
  expect(connectionsOf(engine, nowMs)).toEqual(
    model.connections.map((index) => hex(idOf(Number(index)))).toSorted(),
  );
  expect(semaphores.figures(nowMs)).toMatchObject({
    objects: entries.size,
    holdings: model.holdings,
  });
  const nextBoundaryMs = (Math.floor(nowMs / INTERVAL_MS) + 1) * INTERVAL_MS;
  const collectionMs = entries.size === 0 ? null : nextBoundaryMs;
  expect(semaphores.collectionDeadlineMs(nowMs)).toBe(collectionMs);
  expect(semaphores.deadlineMs).toBe(
    Math.min(model.nextLeaseEnd(nowMs) ?? Infinity, collectionMs ?? Infinity),
  );
}

describe("semaphores", () => {
  it("semaphores answer as the model does, whatever comes, leaves or is restarted", () => {
    const property = fc.property(
      fc.array(step, { minLength: 1, maxLength: 40, size: "max" }),
      fc.integer(),
      fc.constantFrom(70_000, 1_900_000),
      fc.nat(2 * INTERVAL_MS),
      (steps, hashSeed, rowBytesMax, startMs) => {
        const options = (restarts: number) => ({
          hashKey: { low: hashSeed, high: restarts },
          bytesMax: 64 << 20,
          isCounting: restarts % 2 === 0,
          semaphoreIntervalMs: INTERVAL_MS,
        });
        const disk = new Disk(rowBytesMax);
        let restarts = 0;
        let nowMs = startMs;
        let engine = disk.load(options(0), nowMs);
        let model = new SemaphoreModel(INTERVAL_MS);
        let durable = model.clone();
        const flush = (): void => {
          disk.flush(engine);
          durable = model.clone();
        };
        const restart = (): void => {
          engine = disk.load(options(++restarts), nowMs);
          model = durable.clone();
        };
        const perform = (step: Step): void => {
          const { semaphores } = engine;
          const leases = new Leases(semaphores);
          switch (step.do) {
            case "requests": {
              const answers = answersOf(engine, step.who, step.frames, nowMs);
              step.frames.forEach((frame, i) => {
                const expected = model.answer(String(step.who), frame, nowMs)!;
                expect(hex(answers[i]!)).toBe(hex(expected));
              });
              return;
            }
            case "close":
              semaphores.releaseAll(holderOf(step.who), nowMs);
              return model.close(String(step.who), nowMs);
            case "lease": {
              const { name, resources, maximum, ttlMs } = step;
              const id = idOf(step.who);
              expect(
                Object.values(
                  leases.acquire({ name, resources, maximum, ttlMs, leaseId: id }, nowMs),
                ),
              ).toEqual(
                model.acquireLease(String(step.who), name, resources, maximum, ttlMs, nowMs),
              );
              return;
            }
            case "renew":
              return expect(
                leases.renew(step.name, idOf(step.who), step.ttlMs, nowMs)?.endsAtMs ?? null,
              ).toBe(model.renew(String(step.who), textOf(step.name), step.ttlMs, nowMs));
            case "release lease":
              return expect(leases.release(step.name, idOf(step.who), nowMs)).toBe(
                model.releaseLease(String(step.who), textOf(step.name), nowMs),
              );
            case "wait":
              nowMs += step.ms;
              return;
            case "collect":
              return expect(collectAll(engine, nowMs)).toBe(model.collect(nowMs));
            case "commit":
              return flush();
            case "snapshot step":
              disk.commit(engine);
              durable = model.clone();
              return disk.snapshotStep(engine);
            case "restart":
              flush();
              return restart();
            case "crash":
              return restart();
            case "look":
              return expectAlike(engine, model, nowMs);
          }
        };
        steps.forEach(perform);
        expectAlike(engine, model, nowMs);

        // Everybody leaves: connections close, leases end.
        for (let index = 0; index < PARTIES; index++) perform({ do: "close", who: index });
        nowMs += 3 * INTERVAL_MS;
        for (const { consumption } of dumpOf(engine, nowMs).values()) expect(consumption).toBe(0);
        expect(engine.semaphores.figures(nowMs)).toMatchObject({ holdings: 0, holders: 0 });
        nowMs += INTERVAL_MS;
        perform({ do: "collect" });
        perform({ do: "restart" });
        expect(engine.figures.records).toBe(0);
        expect(engine.semaphores.figures(nowMs).objects).toBe(0);
      },
    );
    fc.assert(property, { seed, numRuns: runs(400) });
  });
});
