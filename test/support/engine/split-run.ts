/** Random requests and steps of splits, and a run of them at shards beside models that never split. */
import fc from "fast-check";
import { expect } from "vitest";
import type { Engine } from "../../../src/engine/engine.ts";
import { connectionHolder } from "../../../src/engine/semaphores/holder.ts";
import { Leases } from "../../../src/engine/semaphores/leases.ts";
import { endOf, isIn } from "../../../src/wire/range.ts";
import { ByteWriter } from "../../../src/wire/bytes.ts";
import { Keyspace } from "../../../src/wire/keyspace.ts";
import { Status } from "../../../src/wire/yrmcds/protocol.ts";
import { writeDumpReplies } from "../../../src/wire/yrmcds/dump.ts";
import { PageReader } from "../../../src/wire/page.ts";
import { protocolByName } from "../../../src/wire/throttr/protocol.ts";
import { goodCommand, configurations } from "../commands/arbitraries.ts";
import { finish } from "./steps.ts";
import { SplitPhase } from "../../../src/objects/shard/split-rows.ts";
import { SplitShards, type SplitShard } from "./splitting.ts";
import {
  batchIn,
  bytesOf,
  EDGE,
  hex,
  pairFrame,
  partsOf,
  unhex,
  yrmcds,
  type Pair,
  type PairRequest,
} from "../frames/index.ts";
import { CommandModel } from "../models/commands.ts";
import { PairModel } from "../models/pairs.ts";
import type { ModelEntry } from "../models/semaphores.ts";
import { SemaphoreModel, textOf } from "../models/yrmcds.ts";
import { decodeDumpEntry } from "../yrmcds/codec.ts";
import { framesOf } from "../yrmcds/server.ts";
import { imagesOf } from "../commands/disk.ts";
import { expectReply } from "../commands/expected.ts";

const NOW_MS = 1_700_000_000_000;
const INTERVAL_MS = 10_000;
const PAIRS = protocolByName("2", undefined)!;
const PARTIES = 4;
const NAMES = ["a", "b", "ab", "n".repeat(300), ...Array.from({ length: 12 }, (_, i) => `s${i}`)];

/** What happens to the changes of a request before its commit. */
interface Fate {
  /** Steps of a split under way that come between. */
  readonly between: number;
  readonly isLost: boolean;
}

export type Step =
  | ({ do: "command"; frames: Uint8Array[] } & Fate)
  | ({ do: "pair"; request: PairRequest } & Fate)
  | ({ do: "semaphore"; who: number; frame: Uint8Array; name: string } & Fate)
  | { do: "close" | "release lease"; who: number; name: string }
  | { do: "lease"; who: number; name: string; resources: number; maximum: number; ttlMs: number }
  | { do: "renew"; who: number; name: string; ttlMs: number }
  | { do: "wait"; ms: number }
  | { do: "begin"; share: number; at: number }
  | { do: "walk" | "send" | "send twice"; share: number; steps: number }
  | { do: "switch"; share: number; crash: string | null; whose: "parent" | "child" }
  | { do: "tell" | "forget" | "give up" | "cut" | "crash"; share: number }
  | { do: "late row" | "crash child"; share: number }
  | { do: "collect" | "look" | "finish" };

const who = fc.nat(PARTIES - 1);
const name = fc.constantFrom(...NAMES);
const share = fc.double({ min: 0, max: 1, noNaN: true, maxExcluded: true });
/** Where in a range it is split: one of few places, so that later attempts meet what earlier ones have left. */
const middle = fc.constantFrom(0.3, 0.5, 0.5, 0.8);
const fate = {
  between: fc.oneof(fc.constant(0), fc.nat(4)),
  isLost: fc.oneof({ weight: 5, arbitrary: fc.constant(false) }, fc.constant(true)),
};
const pair: fc.Arbitrary<Pair> = fc.tuple(
  fc.constantFrom("", "c", "d"),
  fc.constantFrom("", "r", "q"),
);
const small = fc.bigInt(0n, 50n);
const pairRequest: fc.Arbitrary<PairRequest> = fc.oneof(
  fc.record({
    type: fc.constant("insert" as const),
    pair,
    quota: small,
    ttlType: fc.constantFrom(1, 2),
    ttl: fc.bigInt(1n, 30n),
  }),
  fc.record({ type: fc.constantFrom("query" as const, "purge" as const), pair }),
  fc.record({
    type: fc.constant("update" as const),
    pair,
    attribute: fc.constantFrom(0, 1),
    change: fc.constantFrom(0, 1, 2),
    value: small,
  }),
);
const numbers = fc.tuple(fc.integer({ min: 1, max: 4 }), fc.integer({ min: 4, max: 9 }));
const semaphoreFrame = fc
  .tuple(name, numbers, fc.nat(5))
  .map(([name, [resources, maximum], kind]) => ({
    name,
    frame:
      kind < 3
        ? yrmcds.acquire(name, resources, maximum)
        : kind < 5
          ? yrmcds.release(name, resources)
          : yrmcds.get(name),
  }));

export const stepArbitrary: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 8,
    arbitrary: fc.record({
      do: fc.constant("command" as const),
      frames: fc.array(goodCommand(configurations), { minLength: 1, maxLength: 12 }),
      ...fate,
    }),
  },
  {
    weight: 3,
    arbitrary: fc.record({ do: fc.constant("pair" as const), request: pairRequest, ...fate }),
  },
  {
    weight: 8,
    arbitrary: fc.record({ who, semaphoreFrame, ...fate }).map(({ semaphoreFrame, ...rest }) => ({
      do: "semaphore" as const,
      ...semaphoreFrame,
      ...rest,
    })),
  },
  fc.record({ do: fc.constantFrom("close" as const, "release lease" as const), who, name }),
  {
    weight: 3,
    arbitrary: fc.record({
      do: fc.constant("lease" as const),
      who,
      name,
      resources: fc.integer({ min: 1, max: 3 }),
      maximum: fc.integer({ min: 3, max: 6 }),
      ttlMs: fc.integer({ min: 1, max: 9000 }),
    }),
  },
  fc.record({
    do: fc.constant("renew" as const),
    who,
    name,
    ttlMs: fc.integer({ min: 1, max: 9000 }),
  }),
  {
    weight: 2,
    arbitrary: fc.record({
      do: fc.constant("wait" as const),
      ms: fc.oneof(fc.constantFrom(1, 999, INTERVAL_MS), fc.nat(4000)),
    }),
  },
  {
    weight: 3,
    arbitrary: fc.record({ do: fc.constant("begin" as const), share, at: middle }),
  },
  {
    weight: 12,
    arbitrary: fc.record({
      do: fc.constantFrom("walk" as const, "send" as const, "send twice" as const),
      share,
      steps: fc.integer({ min: 1, max: 12 }),
    }),
  },
  {
    weight: 6,
    arbitrary: fc.record({
      do: fc.constant("switch" as const),
      share,
      crash: fc.oneof(
        { weight: 3, arbitrary: fc.constant(null) },
        fc.constantFrom("commit", "row", "given"),
      ),
      whose: fc.constantFrom("parent" as const, "child" as const),
    }),
  },
  {
    weight: 8,
    arbitrary: fc.record({
      do: fc.constantFrom(
        "tell" as const,
        "forget" as const,
        "forget" as const,
        "give up" as const,
        "cut" as const,
        "crash" as const,
      ),
      share,
    }),
  },
  {
    weight: 2,
    arbitrary: fc.record({
      do: fc.constantFrom("late row" as const, "crash child" as const),
      share,
    }),
  },
  {
    weight: 4,
    arbitrary: fc.record({
      do: fc.constantFrom("collect" as const, "look" as const, "finish" as const),
    }),
  },
);

/** Of a connection, or of a lease: one ID may hold several semaphores. */
const idOf = (who: number): Uint8Array => new Uint8Array(16).fill(who + 1);

/** What was met: a run in which no split ends shows nothing. */
export const met = new Map<string, number>();
const note = (what: string): void => void met.set(what, (met.get(what) ?? 0) + 1);

/** In a function of its own: the linter takes `expect` in a method for one that no test runs. */
function expectSame(actual: unknown, expected: unknown): void {
  expect(actual).toEqual(expected);
}

export class SplitRun {
  readonly shards: SplitShards;
  readonly #commands = new CommandModel(5000);
  readonly #pairs = new PairModel();
  readonly #semaphores = new SemaphoreModel(INTERVAL_MS);
  /** Pairs that were used. */
  readonly #pairsSeen = new Map<string, Pair>();

  constructor(placementSeed: number) {
    this.shards = new SplitShards(
      {
        seed: { low: placementSeed, high: 7 },
        semaphoreIntervalMs: INTERVAL_MS,
        answerTtlMs: 5000,
      },
      NOW_MS,
    );
    this.#commands.advance(NOW_MS);
    this.#semaphores.advance(NOW_MS);
  }

  get #nowMs(): number {
    return this.shards.nowMs;
  }

  take(step: Step): void {
    switch (step.do) {
      case "command":
        return this.#command(step);
      case "pair":
        return this.#pair(step);
      case "semaphore":
        return this.#semaphore(step);
      case "close":
        return this.#close(step.who);
      case "lease":
        return this.#lease(step);
      case "renew":
        return this.#renew(step);
      case "release lease":
        return this.#releaseLease(step);
      case "wait":
        return this.#wait(step.ms);
      case "collect":
        return this.#collect();
      case "look":
        return this.look();
      case "finish":
        return this.#finish();
      case "switch":
        return this.#switch(step);
      case "late row":
        return this.#lateRow(step.share);
      case "crash child":
        return this.#crashChild(step.share);
      default:
        return this.#ofSplit(step);
    }
  }

  /** Applies changes at a shard, and makes them durable unless a crash comes before. */
  #write(shard: SplitShard, { between, isLost }: Fate, apply: () => void): void {
    apply();
    for (let i = 0; i < between; i++) {
      shard.copy?.step();
      if (i % 2 === 1) this.shards.send(shard);
    }
    if (!isLost) return shard.journal.append();
    note("lost");
    shard.start(this.#nowMs);
  }

  #command({ frames, ...fate }: Step & { do: "command" }): void {
    for (const frame of frames) {
      const key = frame.subarray(7, 7 + frame[2]!);
      const shard = this.shards.owner(this.shards.placeOf(Keyspace.throttr, key));
      this.#write(shard, fate, () => {
        const answer = shard.engine.apply(
          batchIn([{ protocol: EDGE, frames: [frame] }]),
          this.#nowMs,
        );
        if (!fate.isLost)
          expectReply(partsOf(answer)[0]!.replies, 0, this.#commands.command(frame));
      });
    }
  }

  #pair({ request, ...fate }: Step & { do: "pair" }): void {
    this.#pairsSeen.set(JSON.stringify(request.pair), request.pair);
    this.#askPair(request, fate);
  }

  #askPair(request: PairRequest, fate: Fate): void {
    const [consumer, resource] = request.pair;
    const key = bytesOf(
      String.fromCharCode(consumer.length, resource.length) + consumer + resource,
    );
    const shard = this.shards.owner(this.shards.placeOf(Keyspace.throttrPairs, key));
    this.#write(shard, fate, () => {
      const frame = pairFrame(1, request);
      const answer = shard.engine.apply(
        batchIn([{ protocol: PAIRS, frames: [frame] }]),
        this.#nowMs,
      );
      if (fate.isLost) return;
      const { success, found } = this.#pairs.execute(request, BigInt(this.#nowMs) * 1_000_000n);
      const { replies } = partsOf(answer)[0]!;
      expectSame(replies[4], success ? 1 : 0);
      if (found === undefined) return;
      const view = new DataView(replies.buffer, replies.byteOffset);
      expectSame(view.getBigUint64(5, true), found.quota);
      expectSame(view.getBigUint64(14, true), found.ttl);
    });
  }

  #semaphore({ who, frame, name, ...fate }: Step & { do: "semaphore" }): void {
    const shard = this.#ownerOfSemaphore(name);
    this.#write(shard, fate, () => {
      const out = new ByteWriter();
      const holder = connectionHolder(idOf(who));
      const { semaphoreRequests } = shard.engine;
      semaphoreRequests.execute(frame, 0, frame.length, holder, out, Infinity, this.#nowMs);
      if (fate.isLost) return;
      const expected = this.#semaphores.answer(String(who), frame, this.#nowMs)!;
      expectSame(hex(out.take()), hex(expected));
    });
  }

  #ownerOfSemaphore(name: string): SplitShard {
    return this.shards.owner(this.shards.placeOf(Keyspace.semaphores, bytesOf(name)));
  }

  /** A connection that has ended is told to all shards. */
  #close(who: number): void {
    this.shards.owner(0);
    for (const { engine, journal } of this.shards.active) {
      engine.semaphores.releaseAll(connectionHolder(idOf(who)), this.#nowMs);
      journal.append();
    }
    this.#semaphores.close(String(who), this.#nowMs);
  }

  #lease({ who, name, resources, maximum, ttlMs }: Step & { do: "lease" }): void {
    const { engine, journal } = this.#ownerOfSemaphore(name);
    const leaseId = idOf(who);
    const request = { name: bytesOf(name), resources, maximum, ttlMs, leaseId };
    const { status, endsAtMs } = new Leases(engine.semaphores).acquire(request, this.#nowMs);
    journal.append();
    const expected = this.#semaphores.acquireLease(
      textOf(leaseId),
      bytesOf(name),
      resources,
      maximum,
      ttlMs,
      this.#nowMs,
    );
    expectSame([status, endsAtMs], expected);
    if (status === Status.success) note("lease");
  }

  #renew({ who, name, ttlMs }: Step & { do: "renew" }): void {
    const { engine, journal } = this.#ownerOfSemaphore(name);
    const id = idOf(who);
    const held = new Leases(engine.semaphores).renew(bytesOf(name), id, ttlMs, this.#nowMs);
    journal.append();
    const expected = this.#semaphores.renew(textOf(id), name, ttlMs, this.#nowMs);
    expectSame(held?.endsAtMs ?? null, expected);
  }

  #releaseLease({ who, name }: { who: number; name: string }): void {
    const { engine, journal } = this.#ownerOfSemaphore(name);
    const id = idOf(who);
    const isReleased = new Leases(engine.semaphores).release(bytesOf(name), id, this.#nowMs);
    journal.append();
    expectSame(isReleased, this.#semaphores.releaseLease(textOf(id), name, this.#nowMs));
  }

  #wait(ms: number): void {
    this.shards.nowMs += ms;
    this.#commands.advance(this.#nowMs);
    this.#semaphores.advance(this.#nowMs);
    for (const { engine } of this.shards.active) engine.advance(this.#nowMs);
  }

  #collect(): void {
    this.shards.owner(0);
    let collected = 0;
    for (const { engine, journal } of this.shards.active) {
      for (let cursor: number | null = 0; cursor !== null;) {
        const step: { collected: number; cursor: number | null } = engine.semaphores.collectStep(
          cursor,
          this.#nowMs,
        );
        collected += step.collected;
        ({ cursor } = step);
      }
      journal.append();
    }
    expectSame(collected, this.#semaphores.collect(this.#nowMs));
    if (collected > 0) note("collected");
  }

  #of(share: number): SplitShard {
    const { active } = this.shards;
    return active[Math.floor(share * active.length)]!;
  }

  /** A step of a split concerns one that is under way, if there is any. */
  #splitting(share: number): SplitShard {
    return this.shards.active.find(({ copy }) => copy !== null) ?? this.#of(share);
  }

  #ofSplit(step: Exclude<Step, { do: "command" }> & { share: number }): void {
    const shard = step.do === "crash" ? this.#of(step.share) : this.#splitting(step.share);
    switch (step.do) {
      case "begin": {
        const { range } = shard;
        if (endOf(range) - range.from < 2) return;
        if (shard.begin(SplitShards.hashAt(range, step.at))) note("begin");
        return;
      }
      case "walk":
        for (let i = 0; i < step.steps; i++) {
          const isFull = shard.copy?.isFull ?? false;
          if (isFull) note("full queue");
          shard.copy?.step();
        }
        return;
      case "send":
        for (let i = 0; i < step.steps; i++) this.shards.send(shard);
        return;
      case "send twice":
        if (this.shards.send(shard, true)) note("sent twice");
        return;
      case "tell":
        return this.shards.tell(this.#of(step.share));
      case "forget": {
        const forgetting = this.shards.active.find(({ engine }) => engine.ownership.isForgetting);
        return forgetting?.forget();
      }
      case "give up":
        if (shard.copy !== null) note("given up");
        return shard.giveUp();
      case "cut":
        shard.journal.beginCut();
        return shard.journal.append();
      case "crash":
        note(`crash of phase ${shard.journal.split.split?.phase ?? 0}`);
        return shard.start(this.#nowMs);
      default:
        throw new Error(`no step ${step.do}`);
    }
  }

  #switch({ share, crash, whose }: Step & { do: "switch" }): void {
    const shard = this.#splitting(share);
    const childAt = shard.copy?.range.from;
    while (shard.copy?.isWalked === false) {
      shard.copy.step();
      while (this.shards.send(shard));
    }
    const isGiven = this.shards.switch(shard, (moment) => {
      if (moment !== crash) return false;
      note(`crash of ${whose} after ${moment}`);
      if (whose === "child") {
        this.shards.at(childAt!).start(this.#nowMs);
        return false;
      }
      shard.start(this.#nowMs);
      return true;
    });
    if (isGiven) note("switch");
    // While the upper part is not dropped yet.
    if (isGiven && share > 0.5) this.look();
    const { split } = shard.journal.split;
    if (split?.phase === SplitPhase.given) this.#expectAbsent(shard, split.at);
  }

  /** At the moment of the split nothing of the upper part is left, wherever one looks. */
  #expectAbsent({ engine }: SplitShard, at: number): void {
    for (const [key] of this.#commands.records) {
      const bytes = bytesOf(key);
      if (this.shards.placeOf(Keyspace.throttr, bytes) < at) continue;
      expectSame(engine.scan.isOrdered, true);
      expectSame(keysOf(engine, Keyspace.throttr).includes(key), false);
    }
    for (const name of this.#semaphores.dump(this.#nowMs).keys()) {
      const bytes = bytesOf(name);
      if (this.shards.placeOf(Keyspace.semaphores, bytes) < at) continue;
      expectSame(engine.semaphores.get(bytes, 0, bytes.length, this.#nowMs), -1);
    }
  }

  #lateRow(share: number): void {
    const sent = this.shards.sent.filter(({ to }) => !this.shards.at(to).isActive);
    const late = sent[Math.floor(share * sent.length)];
    if (late === undefined) return;
    const child = this.shards.at(late.to);
    const { attempt } = child.journal.split;
    const isNewer = child.journal.placement === null || late.offer.attempt > attempt;
    const outcome = this.shards.deliver(late);
    note(`late row: ${outcome}`);
    // A shard that knows nothing begins with the first row of whatever attempt: that attempt is never activated.
    if (outcome === "applied")
      expectSame(isNewer ? late.number : late.offer.attempt, isNewer ? 1 : attempt);
  }

  #crashChild(share: number): void {
    const { copy } = this.#splitting(share);
    if (copy === null) return;
    note("crash of child");
    this.shards.at(copy.range.from).start(this.#nowMs);
  }

  /** Ends what is under way. */
  #finish(): void {
    for (const shard of this.shards.active) {
      while (shard.copy !== null) {
        shard.copy.step();
        while (this.shards.send(shard));
        if (this.shards.switch(shard)) note("switch");
      }
      while (shard.engine.ownership.isForgetting) shard.forget();
      this.shards.tell(shard);
    }
  }

  /** All shards together have what one would have. */
  look(): void {
    this.shards.owner(0);
    const engines = this.shards.active.map(({ engine }) => engine);
    const records = this.#commands.records;
    const keys = engines.flatMap((engine) => keysOf(engine, Keyspace.throttr));
    expectSame(keys.toSorted(), [...records.keys()].toSorted());
    const answers = engines.flatMap((engine) => storedKeysOf(engine, Keyspace.answers));
    expectSame(answers.length, this.#commands.answers);
    for (const shard of this.shards.active) this.#expectOwn(shard);
    this.#lookAtSums(engines);
    this.#lookAtSemaphores(engines);
    for (const pair of this.#pairsSeen.values()) {
      this.#askPair({ type: "query", pair }, { between: 0, isLost: false });
    }
  }

  #expectOwn({ engine, range }: SplitShard): void {
    for (const key of keysOf(engine, Keyspace.throttr)) {
      expectSame(isIn(range, this.shards.placeOf(Keyspace.throttr, bytesOf(key))), true);
    }
    for (const key of storedKeysOf(engine, Keyspace.answers)) {
      const ofRecord = bytesOf(key.slice(1 + key.charCodeAt(0)));
      expectSame(isIn(range, this.shards.placeOf(Keyspace.throttr, ofRecord)), true);
    }
  }

  #lookAtSums(engines: readonly Engine[]): void {
    // Those that have expired are counted until they are collected.
    for (const engine of engines) {
      for (let cursor: number | null = 0; cursor !== null;) {
        cursor = engine.sweepStep(cursor, this.#nowMs);
      }
    }
    const records = [...this.#commands.records.values()];
    const sum = (of: (engine: Engine) => number): number =>
      engines.reduce((total, engine) => total + of(engine), 0);
    const buffers = records.filter(({ kind }) => kind === 2);
    expectSame(
      sum(({ totals }) => totals.counters),
      records.length - buffers.length,
    );
    expectSame(
      sum(({ totals }) => totals.buffers),
      buffers.length,
    );
    expectSame(
      sum(({ totals }) => totals.bufferBytes),
      buffers.reduce((bytes, { value }) => bytes + value.length, 0),
    );
  }

  #lookAtSemaphores(engines: readonly Engine[]): void {
    const entries = this.#semaphores.dump(this.#nowMs);
    const dumped = engines.flatMap((engine) => [...dumpOf(engine, this.#nowMs)]);
    expectSame(dumped.toSorted(byName), [...entries].toSorted(byName));
    const figures = engines.map(({ semaphores }) => semaphores.figures(this.#nowMs));
    const objects = figures.reduce((sum, each) => sum + each.objects, 0);
    const holdings = figures.reduce((sum, each) => sum + each.holdings, 0);
    expectSame(
      { objects, holdings },
      {
        objects: entries.size,
        holdings: this.#semaphores.holdings,
      },
    );
    const connections = new Set(engines.flatMap((engine) => connectionsOf(engine, this.#nowMs)));
    expectSame(
      [...connections].toSorted(),
      this.#semaphores.connections.map((who) => hex(idOf(Number(who)))).toSorted(),
    );
    const deadlines = engines.map(({ semaphores }) => semaphores.deadlineMs);
    const boundaryMs =
      entries.size === 0 ? Infinity : (Math.floor(this.#nowMs / INTERVAL_MS) + 1) * INTERVAL_MS;
    const leaseMs = this.#semaphores.nextLeaseEnd(this.#nowMs) ?? Infinity;
    expectSame(Math.min(...deadlines), Math.min(leaseMs, boundaryMs));
  }
}

const byName = ([a]: [string, unknown], [b]: [string, unknown]): number => (a < b ? -1 : 1);

function keysOf(engine: Engine, keyspace: Keyspace): string[] {
  const query = { keyspace, prefix: new Uint8Array(0), prefixes: [] };
  const page = new PageReader(finish(engine.scan.page(query, null, 10_000)));
  const keys: string[] = [];
  while (page.next()) keys.push(textOf(page.key()));
  return keys;
}

/** As a snapshot has them. */
function storedKeysOf(engine: Engine, keyspace: Keyspace): string[] {
  return imagesOf(engine)
    .map((image) => unhex(image))
    .filter((image) => image[1] === keyspace)
    .map((image) => textOf(image.subarray(20, 20 + image[2]! + 256 * image[3]!)));
}

function dumpOf(engine: Engine, nowMs: number): Map<string, ModelEntry> {
  const entries = new Map<string, ModelEntry>();
  for (let cursor: number | null = 0; cursor !== null;) {
    const page = engine.semaphorePages.dump(cursor, 1, nowMs);
    const out = new ByteWriter();
    writeDumpReplies(out, 7, "document", page.entries);
    for (const frame of framesOf(out.take())) {
      const { consumption, maximum, name } = decodeDumpEntry(frame.subarray(12), "document")!;
      entries.set(textOf(name), { consumption, maximum });
    }
    ({ cursor } = page);
  }
  return entries;
}

function connectionsOf(engine: Engine, nowMs: number): string[] {
  const { ids } = engine.semaphores.connections(0, 100, nowMs);
  return Array.from({ length: ids.length / 16 }, (_, i) => hex(ids.subarray(16 * i, 16 * i + 16)));
}
