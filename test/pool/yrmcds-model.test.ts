/**
 * Semaphores against the model: connections over WebSockets and TCP, in several Hubs, that come, hold and go,
 * while objects sleep, die and are rung by alarms, and time goes by.
 */
import {
  abortAllDurableObjects,
  evictAllDurableObjects,
  reset,
  runDurableObjectAlarm,
  runInDurableObject,
} from "cloudflare:test";
import fc from "fast-check";
import { afterEach, beforeEach, describe, expect, inject, it, vi } from "vitest";
import { YrmcdsEnded, type YrmcdsClient } from "../support/yrmcds/client.ts";
import {
  acquire,
  dump,
  entriesOf,
  get,
  numberOfBody,
  OPCODE,
  release,
  statsOf,
  type YrmcdsEntry,
  type YrmcdsReply,
} from "../support/frames/yrmcds.ts";
import { concat, hex } from "../support/frames/index.ts";
import { SemaphoreModel } from "../support/models/yrmcds.ts";
import {
  piecesOf,
  renderRequest,
  stepsArbitrary,
  type PlannedStep,
} from "../support/yrmcds/streams.ts";
import { openYrmcds, type YrmcdsKind } from "../support/pool/yrmcds-wires.ts";
import { evictOne, expectSame, hubAt } from "../support/pool/pubsub-slots.ts";
import { shardStub } from "../support/pool/shards.ts";

const seed = inject("seed");
const SHARDS = 4;
const PARTIES = 5;
const LOCATIONS = ["XXX", "FRA"];
/** As the defaults of YRMCDS_STATS_INTERVAL_MS and HOLDER_TIMEOUT_MS. */
const INTERVAL_MS = 86_400_000;
const HOLDER_TIMEOUT_MS = 15_000;
const POLL_TIMEOUT_MS = 2000;
/** Of a busy machine. */
const TEST_TIMEOUT_MS = 240_000;
/** A longer frame keeps its Hub awake until it is whole. */
const SHORT_BYTES = 1024;

/** Time goes by so much faster here, and by leaps. */
const SPEED = 20;
let leapsMs = 0;

const leap = (ms: number): void => void (leapsMs += ms);

beforeEach(() => {
  const now = Date.now;
  const startMs = now();
  // It begins in the middle of an interval, and ahead of the runtime's clock: no alarm rings by itself.
  const beginMs = (Math.ceil(startMs / INTERVAL_MS) + 1.5) * INTERVAL_MS;
  vi.spyOn(Date, "now").mockImplementation(
    () => beginMs + leapsMs + Math.floor((now() - startMs) * SPEED),
  );
  const wait = scheduler.wait.bind(scheduler);
  vi.spyOn(scheduler, "wait").mockImplementation(async (ms, options) => {
    await wait(ms / SPEED, options);
  });
});

afterEach(async () => {
  vi.restoreAllMocks();
  await reset();
});

/** Ends an object as a fault would, if it is there: what it had in memory is lost. */
async function abort(stub: DurableObjectStub): Promise<void> {
  const aborted = runInDurableObject(stub, (_, state) => state.abort("fault"));
  await expect(aborted).rejects.toThrow("fault");
}

async function ringAlarms(): Promise<void> {
  for (let shard = 0; shard < SHARDS; shard++) await runDurableObjectAlarm(shardStub(shard));
}

type Event =
  | { do: "evict"; what: "everything" | "hubs" | "shards" }
  | { do: "abort shard"; shard: number }
  | { do: "abort hub"; location: string }
  | { do: "abort everything" }
  | { do: "alarm" }
  | { do: "wait"; ms: number }
  | { do: "look" };

type Step = PlannedStep | (PlannedStep & { isEvictedBetween: boolean }) | Event;

const event: fc.Arbitrary<Event> = fc.oneof(
  {
    weight: 4,
    arbitrary: fc.record({
      do: fc.constant("evict" as const),
      what: fc.constantFrom("everything" as const, "hubs" as const, "shards" as const),
    }),
  },
  {
    weight: 2,
    arbitrary: fc.record({ do: fc.constant("abort shard" as const), shard: fc.nat(SHARDS - 1) }),
  },
  {
    weight: 1,
    arbitrary: fc.record({
      do: fc.constant("abort hub" as const),
      location: fc.constantFrom(...LOCATIONS),
    }),
  },
  { weight: 1, arbitrary: fc.constant({ do: "abort everything" as const }) },
  { weight: 3, arbitrary: fc.constant({ do: "alarm" as const }) },
  {
    weight: 2,
    arbitrary: fc.record({
      do: fc.constant("wait" as const),
      ms: fc.constantFrom(1, HOLDER_TIMEOUT_MS, INTERVAL_MS / 2, INTERVAL_MS, 3 * INTERVAL_MS),
    }),
  },
  { weight: 2, arbitrary: fc.constant({ do: "look" as const }) },
);

const kind: fc.Arbitrary<YrmcdsKind> = fc.oneof(
  fc.record({
    transport: fc.constant("websocket" as const),
    form: fc.constantFrom("document" as const, "today" as const),
    location: fc.constantFrom(...LOCATIONS),
  }),
  fc.record({
    transport: fc.constant("tcp" as const),
    form: fc.constantFrom("document" as const, "today" as const),
    location: fc.constant("XXX"),
  }),
);

/** What connections do, with what happens around them in between. */
const steps: fc.Arbitrary<Step[]> = stepsArbitrary(PARTIES).chain((planned) =>
  fc
    .tuple(
      fc.array(fc.array(event, { maxLength: 2 }), {
        minLength: planned.length,
        maxLength: planned.length,
      }),
      fc.array(fc.boolean(), { minLength: planned.length, maxLength: planned.length }),
    )
    .map(([events, evictions]) =>
      planned.flatMap((step, i): Step[] => [
        { ...step, isEvictedBetween: evictions[i]! },
        ...events[i]!,
      ]),
    ),
);

interface Party {
  readonly client: YrmcdsClient;
  readonly kind: YrmcdsKind;
  readonly holder: string;
}

/** Steps one after the other, each compared with the model. */
class Sequence {
  readonly #prefix: string;
  readonly #kinds: readonly YrmcdsKind[];
  readonly #model = new SemaphoreModel(INTERVAL_MS);
  readonly #parties = new Map<number, Party>();
  #opened = 0;

  constructor(prefix: string, kinds: readonly YrmcdsKind[]) {
    this.#prefix = prefix;
    this.#kinds = kinds;
  }

  async run(steps: readonly Step[]): Promise<void> {
    try {
      for (const step of steps) await this.#perform(step);
      await this.#look();
      for (const who of this.#parties.keys()) {
        this.#parties.get(who)!.client.close();
        await this.#left(who);
      }
      const held = [...this.#model.dump(Date.now()).values()].filter(
        (entry) => entry.consumption > 0,
      );
      expectSame(held, [], "held when all have left");
      // Nobody uses them any more: the second interval's end collects them.
      leap(2 * INTERVAL_MS);
      await this.#ring();
      await this.#look();
      expectSame(this.#model.dump(Date.now()).size, 0, "semaphores after all");
    } finally {
      for (const { client } of this.#parties.values()) client.close();
    }
  }

  async #perform(step: Step): Promise<void> {
    switch (step.do) {
      case "requests":
      case "close":
        return await this.#send(step);
      case "evict":
        return await evict(step.what);
      case "abort shard":
        return await abort(shardStub(step.shard));
      case "abort hub":
        await abort(hubAt(step.location));
        return await this.#lost(({ kind }) => kind.location === step.location);
      case "abort everything":
        await abortAllDurableObjects();
        return await this.#lost(() => true);
      case "alarm":
        return await this.#ring();
      case "wait":
        return leap(step.ms);
      case "look":
        return await this.#look();
    }
  }

  async #send(step: PlannedStep & { isEvictedBetween?: boolean }): Promise<void> {
    const { client, kind, holder } = await this.#open(step.who);
    const frames = step.requests.map((request) => renderRequest(request, this.#prefix));
    const bytes = concat(frames);
    if (step.do === "close") {
      client.end(bytes);
    } else {
      for (const [i, piece] of piecesOf(bytes, step.cuts).entries()) {
        const isEvicted = i > 0 && step.isEvictedBetween === true && bytes.length <= SHORT_BYTES;
        if (isEvicted) await evictAllDurableObjects();
        client.write(piece);
      }
    }
    // A WebSocket that is closed can't be answered any more.
    const isAnswered = step.do !== "close" || kind.transport === "tcp";
    const answers = isAnswered ? await client.answers(frames.length) : null;
    for (const [i, frame] of frames.entries()) {
      const expected = this.#model.answer(holder, frame, Date.now());
      if (answers !== null) this.#expectAnswer(frame, answers[i]!, expected, kind);
    }
    if (step.do !== "close") return;
    expectSame(await client.rest(), [], "behind the answers");
    await this.#left(step.who);
  }

  #expectAnswer(
    frame: Uint8Array,
    answer: readonly YrmcdsReply[],
    expected: number[] | null,
    { form }: YrmcdsKind,
  ): void {
    const [first] = answer;
    const what = `answer to ${hex(frame.subarray(0, 80))}`;
    if (expected !== null) {
      expectSame(hex(first!.bytes), hex(expected), what);
    } else if (first!.opcode === OPCODE.stats) {
      expectSame(statsOf(first!).objects >= this.#semaphores().size, true, what);
    } else {
      const entries = this.#ours(entriesOf(answer, form, first!.opaque));
      expectSame(entries, this.#semaphores(), what);
    }
  }

  async #open(who: number): Promise<Party> {
    const present = this.#parties.get(who);
    if (present !== undefined) return present;
    const kind = this.#kinds[who]!;
    const client = await openYrmcds(kind);
    const party = { client, kind, holder: `connection ${this.#opened++}` };
    this.#parties.set(who, party);
    return party;
  }

  /** A connection has said goodbye: waits until what it held is back. */
  async #left(who: number): Promise<void> {
    this.#model.close(this.#parties.get(who)!.holder, Date.now());
    this.#parties.delete(who);
    await this.#settled();
  }

  /** Connections are gone without a goodbye: what they held stays until that is found out. */
  async #lost(isLost: (party: Party) => boolean): Promise<void> {
    const lost = [...this.#parties].filter(([, party]) => isLost(party));
    for (const [who, { client, holder }] of lost) {
      expectSame(await client.rest(), [], "of a lost connection");
      this.#parties.delete(who);
      // What changes when it is found out bears that time.
      this.#model.close(holder, Date.now() + HOLDER_TIMEOUT_MS);
    }
    // A shard that has started anew counts from there.
    for (let ring = 0; ring < 2; ring++) {
      leap(HOLDER_TIMEOUT_MS);
      await this.#ring();
    }
    await this.#look();
  }

  async #ring(): Promise<void> {
    await ringAlarms();
    this.#model.collect(Date.now());
  }

  #semaphores(): Map<string, YrmcdsEntry> {
    return this.#ours(this.#model.dump(Date.now()));
  }

  #ours(entries: ReadonlyMap<string, YrmcdsEntry>): Map<string, YrmcdsEntry> {
    return new Map([...entries].filter(([name]) => name.startsWith(this.#prefix)));
  }

  async #seen(): Promise<Map<string, YrmcdsEntry>> {
    const watcher = await openYrmcds({ transport: "websocket", form: "today", location: "NRT" });
    const entries = entriesOf(await watcher.askDump(dump()), "today");
    watcher.close();
    return this.#ours(entries);
  }

  async #look(): Promise<void> {
    expectSame(await this.#seen(), this.#semaphores(), "semaphores");
  }

  async #settled(): Promise<void> {
    const giveUpAtMs = performance.now() + POLL_TIMEOUT_MS;
    const expected = textOfEntries(this.#semaphores());
    while (textOfEntries(await this.#seen()) !== expected) {
      if (performance.now() > giveUpAtMs) return await this.#look();
      await scheduler.wait(2 * SPEED);
    }
  }
}

function textOfEntries(entries: ReadonlyMap<string, YrmcdsEntry>): string {
  return JSON.stringify([...entries].toSorted(([a], [b]) => (a < b ? -1 : 1)));
}

async function evict(what: "everything" | "hubs" | "shards"): Promise<void> {
  if (what === "everything") return await evictAllDurableObjects();
  if (what === "hubs") for (const location of LOCATIONS) await evictOne(hubAt(location));
  else for (let shard = 0; shard < SHARDS; shard++) await evictOne(shardStub(shard));
}

let sequences = 0;

it(
  "consumption is what living connections hold, whatever happens to objects",
  { timeout: TEST_TIMEOUT_MS },
  async () => {
    const kinds = fc.array(kind, { minLength: PARTIES, maxLength: PARTIES });
    const property = fc.asyncProperty(kinds, steps, async (kinds, steps) => {
      try {
        await new Sequence(`${sequences++}/`, kinds).run(steps);
      } catch (error) {
        await reset();
        throw error;
      }
    });
    await fc.assert(property, { seed, numRuns: 30 });
  },
);

describe("all at once", () => {
  const MAXIMUM = 5;
  const NAMES = Array.from({ length: 6 }, (_, i) => `n${i}`);

  interface Turn {
    name: number;
    amount: number;
    isRelease: boolean;
    pauseMs: number;
    leave: "no" | "close" | "end";
  }

  const turn: fc.Arbitrary<Turn> = fc.record({
    name: fc.nat(NAMES.length - 1),
    amount: fc.integer({ min: 1, max: 3 }),
    isRelease: fc.boolean(),
    pauseMs: fc.constantFrom(0, 0, 1, 3),
    leave: fc.constantFrom("no", "no", "no", "no", "no", "close", "end"),
  });
  const program = fc.record({ kind, turns: fc.array(turn, { minLength: 5, maxLength: 25 }) });
  const disturbances = fc.array(
    fc.constantFrom(
      "evict" as const,
      "evict" as const,
      "abort shard" as const,
      "abort hub" as const,
      "alarm" as const,
    ),
    { maxLength: 8 },
  );

  /** One connection after the other, and what the last one holds by the replies that it got. */
  class Actor {
    readonly #kind: YrmcdsKind;
    readonly held = new Map<string, number>();
    #client: YrmcdsClient | null = null;
    losses = 0;
    granted = 0;

    constructor(kind: YrmcdsKind) {
      this.#kind = kind;
    }

    async run(turns: readonly Turn[]): Promise<void> {
      for (const turn of turns) {
        try {
          await this.#take(turn);
        } catch (error) {
          // Its Hub, or a shard that it waited for, was ended.
          if (!isLoss(error)) throw error;
          this.losses++;
          this.#forget();
        }
        if (turn.pauseMs > 0) await scheduler.wait(turn.pauseMs * SPEED);
      }
    }

    async #take({ name: index, amount, isRelease, leave }: Turn): Promise<void> {
      this.#client ??= await openYrmcds(this.#kind);
      const name = NAMES[index]!;
      const held = this.held.get(name) ?? 0;
      const frame = isRelease ? release(name, amount) : acquire(name, amount, MAXIMUM);
      if (leave === "end") {
        this.#client.end(frame);
        return this.#forget();
      }
      const { status } = await this.#client.askOne(frame);
      if (isRelease) {
        expectSame(status === 0, held >= amount, "released");
        if (status === 0) this.held.set(name, held - amount);
      } else if (status === 0) {
        this.granted++;
        this.held.set(name, held + amount);
        expectSame(held + amount <= MAXIMUM, true, "within the maximum");
      } else {
        expectSame(status, 0x21, "refused");
      }
      if (leave === "no") return;
      this.#client.close();
      this.#forget();
    }

    #forget(): void {
      this.#client = null;
      this.held.clear();
    }

    /** False when the connection was lost meanwhile: then it holds nothing. */
    async isThere(): Promise<boolean> {
      if (this.#client === null) return false;
      try {
        await this.#client.askOne(get("nobody's"));
        return true;
      } catch (error) {
        if (!isLoss(error)) throw error;
        this.#forget();
        return false;
      }
    }

    close(): void {
      this.#client?.close();
      this.#forget();
    }
  }

  const isLoss = (error: unknown): boolean =>
    error instanceof YrmcdsEnded || String(error).includes('"hub_failed"');

  async function disturb(what: string, round: number): Promise<void> {
    try {
      if (what === "evict") await evictAllDurableObjects();
      else if (what === "abort shard") await abort(shardStub(round % SHARDS));
      else if (what === "abort hub") await abort(hubAt(LOCATIONS[round % LOCATIONS.length]!));
      else await ringAlarms();
    } catch (error) {
      // It may be dying already.
      if (!/fault|not currently running/.test(String(error))) throw error;
    }
  }

  async function watch(isOver: () => boolean): Promise<void> {
    let watcher: YrmcdsClient | null = null;
    while (!isOver()) {
      try {
        watcher ??= await openYrmcds({ transport: "websocket", form: "today", location: "NRT" });
        for (const reply of await watcher.ask(...NAMES.map((name) => get(name)))) {
          if (reply.status === 0) expect(numberOfBody(reply)).toBeLessThanOrEqual(MAXIMUM);
        }
      } catch (error) {
        if (!isLoss(error)) throw error;
        watcher = null;
      }
      await scheduler.wait(2 * SPEED);
    }
    watcher?.close();
  }

  async function consumptions(): Promise<Record<string, number>> {
    const watcher = await openYrmcds({ transport: "tcp", form: "document", location: "XXX" });
    const replies = await watcher.ask(...NAMES.map((name) => get(name)));
    watcher.close();
    return Object.fromEntries(
      replies.map((reply, i) => [NAMES[i], reply.status === 0 ? numberOfBody(reply) : 0]),
    );
  }

  /** Waits until consumptions are so; alarms ring, as what was lost is found out by them. */
  async function expectConsumptions(expected: Record<string, number>): Promise<void> {
    const giveUpAtMs = performance.now() + POLL_TIMEOUT_MS;
    while (JSON.stringify(await consumptions()) !== JSON.stringify(expected)) {
      if (performance.now() > giveUpAtMs) break;
      leap(HOLDER_TIMEOUT_MS);
      await ringAlarms();
      await scheduler.wait(2 * SPEED);
    }
    expect(await consumptions()).toEqual(expected);
  }

  it(
    "concurrent requests never exceed the maximum, and consumption is what living connections hold",
    { timeout: TEST_TIMEOUT_MS },
    async () => {
      let [granted, losses] = [0, 0];
      const property = fc.asyncProperty(
        fc.array(program, { minLength: 2, maxLength: 8 }),
        disturbances,
        async (programs, disturbances) => {
          const actors = programs.map(({ kind }) => new Actor(kind));
          let isOver = false;
          const watching = watch(() => isOver);
          try {
            await Promise.all([
              Promise.all(programs.map(({ turns }, i) => actors[i]!.run(turns))).then(() => {
                isOver = true;
              }),
              (async () => {
                for (const [round, what] of disturbances.entries()) {
                  await disturb(what, round);
                  await scheduler.wait(3 * SPEED);
                }
              })(),
            ]);
            const sums: Record<string, number> = Object.fromEntries(NAMES.map((name) => [name, 0]));
            for (const actor of actors) {
              granted += actor.granted;
              losses += actor.losses;
              if (!(await actor.isThere())) continue;
              for (const [name, amount] of actor.held) sums[name]! += amount;
            }
            await expectConsumptions(sums);
            for (const actor of actors) actor.close();
            await expectConsumptions(Object.fromEntries(NAMES.map((name) => [name, 0])));
          } finally {
            isOver = true;
            for (const actor of actors) actor.close();
            await watching;
          }
        },
      );
      await fc.assert(property, { seed, numRuns: 25 });
      expect(granted).toBeGreaterThan(100);
      expect(losses).toBeGreaterThan(0);
    },
  );
});
