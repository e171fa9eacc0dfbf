/** Checkers of semaphores, channels, listings, progress and budgets: correct histories pass, and each kind of forged one is refused. */
import { describe, expect, it } from "vitest";
import * as Sizes from "../../../src/engine/sizes.ts";
import { Bounds } from "../../simulator/checks/bounds.ts";
import {
  checkGroupBudgets,
  checkGroupPrices,
  checkHubBudgets,
  checkNamespaceBudgets,
  checkShardBudgets,
  type BudgetSettings,
  type BudgetSizes,
  type GroupFigures,
  type GroupPrices,
  type HubFigures,
  type NamespaceFigures,
  type Sample,
  type ShardFigures,
} from "../../simulator/checks/budgets.ts";
import {
  payloadBytesMax,
  type Carriage,
  type ChannelOperation,
  type ChannelOutcome,
  type Receipt,
  type ReplayRules,
  type Subscriber,
  withExecuted,
} from "../../simulator/checks/channel-calls.ts";
import { checkChannels } from "../../simulator/checks/channels.ts";
import { ClockHistory } from "../../simulator/checks/clocks.ts";
import { Durations } from "../../simulator/checks/durations.ts";
import type { Call, Moment, Violation } from "../../simulator/checks/history.ts";
import type { Change } from "../../simulator/checks/lifetimes.ts";
import { checkListing, Things } from "../../simulator/checks/listings.ts";
import { NEVER } from "../../simulator/checks/order.ts";
import {
  checkProgress,
  checkRun,
  type ProgressRules,
  type Waiting,
  type WaitReason,
} from "../../simulator/checks/progress.ts";
import type {
  SemaphoreOperation,
  SemaphoreOutcome,
  SemaphoreRules,
} from "../../simulator/checks/semaphore-calls.ts";
import type { MsSpan } from "../../support/models/span.ts";
import { checkSemaphores } from "../../simulator/checks/semaphores.ts";
import { Facts, type ObjectCall } from "../../simulator/checks/facts.ts";

/** A forged moment: its tick is its time, so that a test reads one number. */
const at = (ms: number): Moment => ({ tick: ms, ms });

interface Forged<Operation, Outcome> {
  readonly operation: Operation;
  readonly outcome: Outcome | "unknown" | "refused";
  readonly from: number;
  /** Null for a call that was never answered. */
  readonly to?: number | null;
  readonly settled?: number;
  readonly connection?: number | null;
}

function forge<Operation, Outcome>(forged: Forged<Operation, Outcome>): Call<Operation, Outcome> {
  const { operation, outcome, from, to = from + 1, settled, connection = null } = forged;
  return {
    client: connection ?? 0,
    door: connection === null ? "http" : "tcp",
    connection,
    operation,
    outcome,
    begun: at(from),
    ended: to === null ? null : at(to),
    settled: settled === undefined ? null : at(settled),
  };
}

const messagesOf = (violations: readonly Violation[]): string =>
  violations
    .map(({ promise, subject, message }) => `${promise}: ${subject}: ${message}`)
    .join("\n");

const HOLDER_TIMEOUT_MS = 15_000;
const SHARD = "Shard default/0";
const HUB = "Hub default/XXX/0";

describe("the checker of semaphores", () => {
  type Step = Forged<SemaphoreOperation, SemaphoreOutcome>;

  const rules: SemaphoreRules = {
    shardOf: () => SHARD,
    wasFull: () => false,
    statsIntervalMs: 1e9,
    hasLost: () => false,
    holderTimeoutMs: HOLDER_TIMEOUT_MS,
    slackMs: 100,
  };

  /** Connections 1 to 3 live; `ends` says when one ended, or that nobody knows when. */
  function factsOf(
    ends: Record<number, [begun: number, ended: number | null]> = {},
    parted: Record<number, number> = {},
  ): Facts {
    const facts = new Facts();
    for (const number of [1, 2, 3]) {
      const end = ends[number];
      facts.addConnection({
        number,
        id: `id${number}`,
        hub: HUB,
        begun: at(0),
        opened: at(1),
        ending:
          end === undefined
            ? null
            : { begun: at(end[0]), ended: end[1] === null ? null : at(end[1]) },
        partedAt: number in parted ? at(parted[number]!) : null,
      });
    }
    return facts;
  }

  const check = (steps: readonly Step[], facts = factsOf(), changed = {}): string =>
    messagesOf(checkSemaphores(steps.map(forge), facts, { ...rules, ...changed }));

  const acquire = (
    connection: number,
    from: number,
    outcome: Step["outcome"] = "granted",
    more: Partial<Step & { resources: number; maximum: number }> = {},
  ): Step => {
    const { resources = 1, maximum = 1, ...rest } = more;
    const operation = { type: "acquire", name: "gpu", resources, maximum } as const;
    return { operation, outcome, from, connection, ...rest };
  };
  const release = (
    connection: number,
    from: number,
    outcome: Step["outcome"] = "released",
    resources = 1,
  ): Step => ({
    operation: { type: "release", name: "gpu", resources },
    outcome,
    from,
    connection,
  });
  const get = (from: number, consumption: number | null, mostHeld: number | null = null): Step => ({
    operation: { type: "get", name: "gpu" },
    outcome: consumption === null ? "not found" : { consumption, mostHeld },
    from,
  });
  const TTL_MS = 1000;
  const acquireLease = (
    leaseId: string,
    from: number,
    outcome: Step["outcome"] = { endsAtMs: from + TTL_MS },
    more: Partial<Step> = {},
  ): Step => ({
    operation: {
      type: "acquire lease",
      name: "gpu",
      leaseId,
      resources: 1,
      maximum: 1,
      ttlMs: TTL_MS,
    },
    outcome,
    from,
    ...more,
  });
  const renewLease = (
    leaseId: string,
    from: number,
    outcome: Step["outcome"] = { endsAtMs: from + TTL_MS },
  ): Step => ({
    operation: { type: "renew lease", name: "gpu", leaseId, ttlMs: TTL_MS },
    outcome,
    from,
  });
  const restoreLease = (
    leaseId: string,
    from: number,
    outcome: Step["outcome"] = "restored",
    isReplacing = false,
  ): Step => ({
    operation: {
      type: "restore lease",
      name: "gpu",
      leaseId,
      resources: 1,
      endsAtMs: 2000,
      isReplacing,
    },
    outcome,
    from,
  });
  const releaseLease = (leaseId: string, from: number, outcome: Step["outcome"]): Step => ({
    operation: { type: "release lease", name: "gpu", leaseId },
    outcome,
    from,
  });

  it("accepts that a connection loses what it holds from the moment on when its Hub has a second copy, and not before", () => {
    const parted = factsOf({ 1: [20, 100] }, { 1: 20 });
    const held = [acquire(1, 10), acquire(2, 40), release(1, 50, "not acquired")];
    expect(check(held, parted)).toBe("");
    const again = [...held, release(2, 60), acquire(1, 70), release(1, 80, "not acquired")];
    expect(check(again, parted)).toBe("");
    expect(check([acquire(1, 10), release(1, 15, "not acquired")], parted)).toContain(
      "was refused as not acquired, but the connection held 1",
    );
    expect(check([acquire(1, 10), acquire(2, 15)], parted)).toContain("was granted 1 of at most 1");
    expect(check(held, factsOf({ 1: [20, 100] }))).toContain("was refused as not acquired");
  });

  it("accepts holders that come and go, by connection and by lease", () => {
    const steps = [
      acquire(1, 10),
      acquire(2, 20, "unavailable"),
      get(30, 1, 1),
      release(1, 40),
      get(50, 0, 1),
      release(1, 55, "not acquired"),
      acquireLease("a", 60),
      acquire(2, 70, "unavailable"),
      renewLease("a", 900),
      acquire(2, 1500, "unavailable"),
      acquire(2, 1950),
      releaseLease("a", 1960, "absent"),
      release(2, 1970),
      get(1980, 0, 1),
    ];
    expect(check(steps)).toBe("");
  });

  it("accepts either order of calls that overlap", () => {
    for (const outcome of ["granted", "unavailable"] as const) {
      const both = [release(1, 100), acquire(2, 95, outcome, { to: 110 })];
      expect(check([acquire(1, 10), ...both])).toBe("");
    }
  });

  it("accepts that a full shard removes a semaphore within its interval, and what was held of it is forgotten", () => {
    const full = { wasFull: () => true };
    const used = [acquire(1, 10), release(1, 20)];
    expect(check([...used, get(30, null)], factsOf(), full)).toBe("");
    expect(check([...used, get(30, 0, 0)], factsOf(), full)).toBe("");
    expect(check([acquire(1, 10), get(30, null)], factsOf(), full)).toContain("found no semaphore");
  });

  it.each([
    [
      "a grant above its maximum",
      [acquire(1, 10), acquire(2, 20)],
      'Semaphores: semaphore "gpu": client 2 over tcp 2, #20 to #21 (1.0 ms later) was granted 1 of at most 1, but at least 1 were in use: at #20 connection 1 holds 1',
    ],
    [
      "two grants at once above their maximum",
      [acquire(1, 10, "granted", { to: 30 }), acquire(2, 10, "granted", { to: 30 })],
      "at #30 2 were in use, but at most 1 was ever granted",
    ],
    [
      "a refusal without a holder",
      [acquire(1, 10, "unavailable")],
      "but nothing can have been in use",
    ],
    [
      "a refusal after the release",
      [acquire(1, 10), release(1, 20), acquire(2, 30, "unavailable")],
      "was refused 1 of at most 1",
    ],
    [
      "a holding that Get misses",
      [acquire(1, 10), get(20, 0)],
      "told that 0 are in use, but it was 1",
    ],
    ["a holding too much in Get", [acquire(1, 10), get(20, 2)], "told that 2 are in use"],
    ["a semaphore in use that is not found", [acquire(1, 10), get(20, null)], "found no semaphore"],
    [
      "a semaphore that is collected within its interval",
      [acquire(1, 10), release(1, 20), get(30, null)],
      "acquired of it in the same interval",
    ],
    [
      "a most below what was in use in the interval",
      [acquire(1, 10), release(1, 20), get(30, 0, 0)],
      "told that at most 0 were in use, but 1 were",
    ],
    [
      "a most that never was in use",
      [acquire(1, 10), get(30, 1, 2)],
      "2 were in use at once, but never more than 1",
    ],
    ["a release below zero", [release(1, 10)], "Release of 1 succeeded, but the connection held 0"],
    [
      "a release of what another connection holds",
      [acquire(1, 10), release(2, 20)],
      "succeeded, but the connection held 0",
    ],
    [
      "a refused release of what is held",
      [acquire(1, 10), release(1, 20, "not acquired")],
      "refused as not acquired, but the connection held 1",
    ],
  ] as [string, Step[], string][])("refuses %s", (_, steps, message) => {
    expect(check(steps)).toContain(message);
  });

  it("accepts any effect of an unknown outcome until it is settled, and none against a known one", () => {
    const lost = acquire(1, 10, "unknown", { settled: 50 });
    for (const inUse of [0, 1]) expect(check([lost, get(30, inUse)])).toBe("");
    expect(check([lost, get(30, 2)])).toContain("told that 2 are in use");
    expect(check([acquire(1, 10, "refused"), get(30, 1)])).toContain("told that 1 are in use");
  });

  it("accepts a holding of a connection that ended until the holder's timeout, and no longer", () => {
    const facts = factsOf({ 1: [100, 200] });
    const seenAt = (ms: number, inUse: number): string =>
      check([acquire(1, 10), get(ms, inUse)], facts);
    for (const inUse of [0, 1]) {
      expect(seenAt(150, inUse)).toBe("");
      expect(seenAt(15_000, inUse)).toBe("");
      expect(seenAt(15_250, inUse)).toBe("");
    }
    expect(seenAt(15_400, 0)).toBe("");
    expect(seenAt(15_400, 1)).toContain("told that 1 are in use, but it was 0");
    expect(seenAt(90, 0)).toContain("told that 0 are in use, but it was 1");
    expect(check([acquire(1, 10), get(1e6, 1)], factsOf({ 1: [100, null] }))).toBe("");
  });

  it("counts the holder's timeout from the next start of a shard that was reset meanwhile", () => {
    const facts = factsOf({ 1: [100, 200] });
    facts.addLife(SHARD, { begun: at(0), ended: at(10_000), isReset: true });
    facts.addLife(SHARD, { begun: at(12_000), ended: null, isReset: false });
    const seenAt = (ms: number): string => check([acquire(1, 10), get(ms, 1)], facts);
    expect(seenAt(27_000)).toBe("");
    expect(seenAt(27_200)).toContain("told that 1 are in use, but it was 0");
  });

  it("counts no new holder's timeout for a shard that was evicted", () => {
    const facts = factsOf({ 1: [100, 200] });
    facts.addLife(SHARD, { begun: at(0), ended: at(10_000), isReset: false });
    facts.addLife(SHARD, { begun: at(12_000), ended: null, isReset: false });
    expect(check([acquire(1, 10), get(15_400, 1)], facts)).toContain("told that 1 are in use");
  });

  it("counts the holder's timeout by a shard's clock that was set back", () => {
    const facts = factsOf({ 1: [100, 200] });
    facts.clocks.set(SHARD, 5000, -60_000);
    expect(check([acquire(1, 10), get(16_000, 1)], facts)).toBe("");
  });

  it("accepts that a lease is there again where the shard's clock goes back after it was seen to have ended, and only there", () => {
    const seenAgain = [
      acquireLease("a", 10),
      renewLease("a", 600, "absent"),
      releaseLease("a", 800, "released"),
    ];
    const forwards = factsOf({});
    forwards.clocks.set(SHARD, 500, 2000);
    expect(check(seenAgain, forwards)).toContain("can't have been held any more");
    const back = factsOf({});
    back.clocks.set(SHARD, 500, 2000);
    back.clocks.set(SHARD, 700, -2000);
    expect(check(seenAgain, back)).toBe("");
    const before = factsOf({});
    before.clocks.set(SHARD, 500, 2000);
    before.clocks.set(SHARD, 550, -500);
    expect(check(seenAgain, before)).toContain("can't have been held any more");
  });

  it.each([
    [
      "a lease that is held after its end",
      [acquireLease("a", 10), acquire(1, 1020, "unavailable")],
      "but nothing can have been in use",
    ],
    [
      "a lease that is lost before its end",
      [acquireLease("a", 10), acquire(1, 1000)],
      "lease a holds 1",
    ],
    [
      "a lease renewed after its end",
      [acquireLease("a", 10), renewLease("a", 1030)],
      "can't have been held any more",
    ],
    [
      "a lease released twice",
      [acquireLease("a", 10), releaseLease("a", 20, "released"), releaseLease("a", 30, "released")],
      "release lease found lease a, but it can't have been held any more",
    ],
    [
      "a lease that is absent before its end",
      [acquireLease("a", 10), renewLease("a", 500, "absent")],
      "renew lease found that lease a is absent, but it was held all the while",
    ],
    [
      "a second lease above the maximum",
      [acquireLease("a", 10), acquireLease("b", 20)],
      "was granted 1 of at most 1",
    ],
    [
      "a lease with an end that is not its TTL's",
      [acquireLease("a", 10, { endsAtMs: 2010 })],
      "a lease of 1000 ms ends at 2010, expected 1008 to 1011",
    ],
  ] as [string, Step[], string][])("refuses %s", (_, steps, message) => {
    expect(check(steps)).toContain(message);
  });

  it("accepts a renewal of unknown outcome that is applied to a lease acquired after it was asked for", () => {
    const lost = { ...renewLease("a", 5, "unknown"), to: 8, settled: 1000 };
    const late = { ...renewLease("a", 6, "unknown"), to: 9, settled: 1900 };
    const steps = [acquireLease("a", 10), get(1500, 1)];
    expect(check([lost, ...steps])).toBe("");
    // One may be applied to what the other has left.
    expect(check([late, lost, ...steps, get(2500, 1)])).toBe("");
    expect(check([{ ...lost, settled: 9 }, ...steps])).toContain("1 are in use, but it was 0");
  });

  it("accepts leases that are restored to their end, above the maximum too, and those that are kept", () => {
    const steps = [
      restoreLease("a", 10),
      restoreLease("b", 20),
      get(30, 2, 2),
      restoreLease("a", 40, "kept"),
      restoreLease("a", 50, "restored", true),
      acquire(1, 1900, "unavailable"),
      releaseLease("b", 1910, "released"),
      restoreLease("b", 2010, "expired"),
      get(2020, 0),
    ];
    expect(check(steps)).toBe("");
    const lost = { ...restoreLease("a", 10, "unknown"), to: null, settled: 100 };
    expect(check([lost, get(200, 1)])).toBe("");
    expect(check([lost, get(200, 0)])).toBe("");
  });

  it.each([
    [
      "a restored lease that is lost before its end",
      [restoreLease("a", 10), get(1900, 0)],
      "told that 0 are in use, but it was 1",
    ],
    [
      "a restored lease that is held after its end",
      [restoreLease("a", 10), get(2020, 1)],
      "told that 1 are in use, but it was 0",
    ],
    [
      "a lease that is replaced, and keeps its old end",
      [acquireLease("a", 10), restoreLease("a", 20, "restored", true), get(1500, 0)],
      "told that 0 are in use, but it was 1",
    ],
    [
      "a lease that is kept and was never held",
      [restoreLease("a", 10, "kept")],
      "lease a was kept, but it can't have been held",
    ],
    [
      "a lease that is restored beside itself",
      [restoreLease("a", 10), restoreLease("a", 20)],
      "lease a was restored, but it was held all the while",
    ],
    [
      "a lease that has ended, and is restored all the same",
      [restoreLease("a", 2010), get(2020, 1)],
      "told that 1 are in use, but it was 0",
    ],
  ] as [string, Step[], string][])("refuses %s", (_, steps, message) => {
    expect(check(steps)).toContain(message);
  });

  it("accepts a lease that lives longer by the clock of its shard, and a shorter one where the clock jumped", () => {
    const seen = [acquireLease("a", 10), get(700, 0), get(1500, 1)];
    const back = factsOf();
    back.clocks.set(SHARD, 100, -1000);
    expect(check(seen.toSpliced(1, 1), back)).toBe("");
    const ahead = factsOf();
    ahead.clocks.set(SHARD, 600, 60_000);
    expect(check(seen.toSpliced(2, 1), ahead)).toBe("");
    expect(check(seen)).toContain("told that 0 are in use");
  });

  it("expects a lease to last where its shard's time waits for a clock that was ahead", () => {
    const facts = factsOf();
    facts.clocks.set(SHARD, -Infinity, 60_000);
    facts.clocks.set(SHARD, 5, 0);
    const lease = acquireLease("a", 10, { endsAtMs: 60_000 });
    expect(check([lease, get(1050, 1)], facts)).toBe("");
    expect(check([lease, get(500, 0)], facts)).toContain("told that 0 are in use, but it was 1");
  });

  it("joins what holders give back and take at one moment", () => {
    const bounds = new Bounds();
    bounds.add(at(5), 1, 1);
    bounds.add(at(10), 1, 1);
    bounds.add(at(10), -1, -1);
    expect(bounds.mostBetween(at(1), at(20))).toBe(1);
    expect(bounds.mostUntil(at(20))).toBe(1);
    expect(bounds.leastBetween(at(6), at(20))).toBe(1);
  });

  it("accepts a stale answer of a second copy, but no stale write", () => {
    const facts = factsOf();
    facts.addStale({ object: SHARD, asOf: at(5), until: at(100) });
    expect(check([acquire(1, 10), get(50, 0)], facts)).toBe("");
    expect(check([acquire(1, 10), get(150, 0)], facts)).toContain("told that 0 are in use");
    expect(check([acquire(1, 10), acquire(2, 50)], facts)).toContain("was granted 1 of at most 1");
  });

  it("lets a reset undo what was answered before it was on disk, and nothing else", () => {
    const facts = factsOf();
    facts.addLife(SHARD, { begun: at(0), ended: at(40), isReset: true });
    facts.addLife(SHARD, { begun: at(60), ended: null, isReset: false });
    const steps = [acquire(1, 10), get(70, 0)];
    const lostUntil = (ms: number) => (_: string, answered: MsSpan) => answered.toMs < ms;
    expect(check(steps, facts, { hasLost: lostUntil(40) })).toBe("");
    expect(check(steps, facts)).toContain("told that 0 are in use");
    expect(check(steps, facts, { hasLost: lostUntil(10) })).toContain("told that 0 are in use");
  });

  const list = (
    from: number,
    rows: [name: string, consumption: number, mostHeld: number][],
    isDump = false,
  ): Step => ({
    operation: { type: "list", prefix: "", isDump },
    outcome: {
      rows: rows.map(([name, consumption, mostHeld]) => ({ name, consumption, mostHeld })),
    },
    from,
    to: from + 5,
  });
  const holders = (from: number, rows: [id: string, resources: number][]): Step => ({
    operation: { type: "holders", name: "gpu" },
    outcome: { holders: rows.map(([id, resources]) => ({ id, resources })) },
    from,
  });

  it.each([
    [
      "a Dump without a semaphore in use",
      [acquire(1, 10), list(20, [])],
      '"gpu" was there all the while, but not listed',
    ],
    [
      "a Dump with a semaphore twice",
      [
        acquire(1, 10),
        list(20, [
          ["gpu", 1, 1],
          ["gpu", 1, 1],
        ]),
      ],
      "listed more than once",
    ],
    [
      "a Dump with a semaphore that was never used",
      [list(20, [["cpu", 0, 0]])],
      "absent all the while",
    ],
    [
      "a Dump with a wrong figure",
      [acquire(1, 10), list(20, [["gpu", 3, 3]])],
      "told that 3 are in use",
    ],
    [
      "a list of holders without one",
      [acquire(1, 10), holders(20, [])],
      '"id1" was there all the while',
    ],
    [
      "a list of holders with one too many",
      [
        acquire(1, 10),
        holders(20, [
          ["id1", 1],
          ["id2", 1],
        ]),
      ],
      '"id2" was listed, but absent',
    ],
    [
      "a list of holders with a wrong amount",
      [acquire(1, 10), holders(20, [["id1", 2]])],
      "connection 1 holds 2, but it was 1",
    ],
    [
      "Stats with too few objects",
      [acquire(1, 10), { operation: { type: "stats" }, outcome: { objects: 0 }, from: 20 }],
      "Stats has 0 objects, expected 1 to 1",
    ],
  ] as [string, Step[], string][])("refuses %s", (_, steps, message) => {
    expect(check(steps)).toContain(message);
  });

  it("accepts listings of what is held, and a Dump that begins a restarted shard again", () => {
    const rows: [string, number, number][] = [["gpu", 1, 1]];
    const seen = [list(20, rows), holders(30, [["id1", 1]])];
    expect(check([acquire(1, 10), ...seen])).toBe("");
    const facts = factsOf();
    facts.addLife(SHARD, { begun: at(0), ended: at(21), isReset: true });
    facts.addLife(SHARD, { begun: at(22), ended: null, isReset: false });
    const twice = [...rows, ...rows];
    expect(check([acquire(1, 10), list(20, twice, true)], facts)).toBe("");
    expect(check([acquire(1, 10), list(20, twice)], facts)).toContain("listed more than once");
  });
});

describe("the checker of listings", () => {
  const sure = (
    key: string,
    from: number,
    leaves: Change["leaves"],
    to = from + 1,
  ): [string, Change] => [key, { leaves, from: at(from), to: at(to), certainty: "done" }];
  const open = (key: string, from: number, leaves: Change["leaves"]): [string, Change] => [
    key,
    { leaves, from: at(from), to: NEVER, certainty: "open" },
  ];

  /** A listing from 100 to 200. */
  function check(changes: [string, Change][], rows: string[], isComplete = true): string {
    const things = new Things(() => new Durations(new ClockHistory(), SHARD));
    for (const [key, change] of changes) things.note(key, change);
    const [begun, ended] = [at(100), at(200)];
    const includes = (key: string): boolean => key.startsWith("k");
    const listing = { what: "LIST", begun, ended, isComplete, rows, includes };
    return messagesOf(checkListing(listing, things.between(begun, ended)));
  }

  it("accepts what stayed once, and either answer about what came, went or is uncertain", () => {
    const changes = [
      sure("k stays", 10, "present"),
      sure("k came", 150, "present"),
      sure("k went", 10, "present"),
      sure("k went", 150, "absent"),
      open("k unknown", 10, "present"),
      sure("k removed unknown", 10, "present"),
      open("k removed unknown", 50, "absent"),
    ];
    const uncertain = ["k came", "k went", "k unknown", "k removed unknown"];
    expect(check(changes, ["k stays"])).toBe("");
    expect(check(changes, ["k stays", ...uncertain])).toBe("");
    expect(check(changes, [], false)).toBe("");
  });

  it.each([
    [
      "without a thing that stayed",
      [sure("k", 10, "present")],
      [],
      'Listings: k: LIST, from #100 to #200: "k" was there all the while, but not listed',
    ],
    ["with a thing twice", [sure("k", 10, "present")], ["k", "k"], '"k" was listed more than once'],
    [
      "with a thing that was removed before",
      [sure("k", 10, "present"), sure("k", 50, "absent")],
      ["k"],
      "absent all the while",
    ],
    ["with a thing that came later", [sure("k", 250, "present")], ["k"], "absent all the while"],
    ["with a thing that never was", [], ["k"], "absent all the while"],
    [
      "with a thing of another prefix",
      [sure("other", 10, "present")],
      ["other"],
      "not what was asked for",
    ],
    [
      "that broke off, with a thing twice",
      [sure("k", 10, "present")],
      ["k", "k"],
      "more than once",
    ],
  ] as [string, [string, Change][], string[], string][])(
    "refuses one %s",
    (title, changes, rows, message) => {
      expect(check(changes, rows, !title.includes("broke off"))).toContain(message);
    },
  );

  it("knows what has expired for certain, and what is about to", () => {
    const lives = (livesMs: number): [string, Change] => [
      "k",
      { ...sure("k", 10, "present")[1], livesMs: { fromMs: livesMs, toMs: livesMs } },
    ];
    expect(check([lives(50)], [])).toBe("");
    expect(check([lives(50)], ["k"])).toContain("absent all the while");
    expect(check([lives(140)], [])).toBe("");
    expect(check([lives(140)], ["k"])).toBe("");
    expect(check([lives(500)], ["k"])).toBe("");
    expect(check([lives(500)], [])).toContain("there all the while");
  });
});

describe("the checker of channels", () => {
  type Step = Forged<ChannelOperation, ChannelOutcome>;
  type Got = [message: number, at: number, number?: number];

  interface Client {
    got?: Got[];
    /** When its end began and was over. */
    end?: [begun: number, ended: number | null];
    heardUntil?: number | null;
    hasDefaults?: boolean;
    payloadBytesMax?: number;
    partedAt?: number;
  }

  const RULES: ReplayRules = {
    messagesMax: 3,
    keptMs: 86_400_000,
    channelBytesMax: 4 << 20,
    groupBytesMax: 16 << 20,
    groupOf: () => "Channel default/7",
  };

  /** Connections by their numbers; each has read to the end of the run unless a test says otherwise. */
  function check(
    steps: readonly Step[],
    clients: Record<number, Client>,
    facts = new Facts(),
    carriages: readonly Carriage[] = inTime(steps),
    hasTaken: (connection: number) => boolean = () => false,
  ): string {
    const subscribers = new Map<number, Subscriber>();
    for (const [key, client] of Object.entries(clients)) {
      const number = Number(key);
      const { got = [], end, heardUntil, hasDefaults = false } = client;
      const connection = {
        number,
        id: `id${number}`,
        hub: HUB,
        begun: at(0),
        opened: at(1),
        ending:
          end === undefined
            ? null
            : { begun: at(end[0]), ended: end[1] === null ? null : at(end[1]) },
        partedAt: client.partedAt === undefined ? null : at(client.partedAt),
      };
      facts.addConnection(connection);
      subscribers.set(number, {
        connection,
        hasDefaults,
        payloadBytesMax: client.payloadBytesMax ?? Infinity,
        receipts: got.map(([message, ms, event]): Receipt => ({
          message,
          channel: null,
          number: event ?? null,
          at: at(ms),
        })),
        heardUntil: heardUntil === undefined ? NEVER : heardUntil === null ? null : at(heardUntil),
      });
    }
    return messagesOf(
      checkChannels(withExecuted(steps.map(forge), hasTaken), subscribers, facts, {
        rules: RULES,
        carriages,
      }),
    );
  }

  /** The Hub has each message while its publisher waits. */
  const inTime = (steps: readonly Step[]): Carriage[] =>
    steps.flatMap(({ operation, from, to = from + 1 }) =>
      operation.type === "publish" && to !== null
        ? ["deliverAll", "deliverToOwners"].map((method) =>
            carriage(operation.message, from, to, { method }),
          )
        : [],
    );

  const carriage = (
    message: number,
    begun: number,
    answered: number,
    more: Partial<ObjectCall> = {},
  ): Carriage => ({
    message,
    call: {
      object: HUB,
      method: "deliverAll",
      parameters: [],
      caller: RULES.groupOf("a"),
      callerLife: 1,
      begun: at(begun),
      taken: at((begun + answered) / 2),
      isTakenByCopy: false,
      answered: at(answered),
      hasFailed: false,
      ...more,
    },
  });

  const subscribe = (connection: number, from: number, more: Partial<Step> = {}): Step => ({
    operation: { type: "subscribe", channel: "a" },
    outcome: { status: 1 },
    from,
    connection,
    ...more,
  });
  const unsubscribe = (connection: number, from: number, more: Partial<Step> = {}): Step => ({
    ...subscribe(connection, from),
    operation: { type: "unsubscribe", channel: "a" },
    ...more,
  });
  const publish = (
    message: number,
    from: number,
    outcome: Step["outcome"] = { status: 1 },
    more: Partial<Step> & { channel?: string; payloadBytes?: number } = {},
  ): Step => {
    const { channel = "a", payloadBytes = 12, ...rest } = more;
    return {
      operation: { type: "publish", channel, message, payloadBytes },
      outcome,
      from,
      ...rest,
    };
  };
  const listen = (
    connection: number,
    from: number,
    start: number | null,
    after: number | null = null,
  ): Step => ({
    operation: { type: "listen", channel: "a", after },
    outcome: start === null ? "unknown" : { start },
    from,
    connection,
  });
  const delivered = (count: number, sequence: number | null = null) => ({
    delivered: count,
    sequence,
  });

  it("accepts messages that reach the subscribers that stay, once and in order", () => {
    const steps = [
      subscribe(1, 10),
      subscribe(2, 12),
      publish(1, 20, delivered(2)),
      publish(2, 30, { status: 1 }, { connection: 1 }),
      unsubscribe(2, 40),
      publish(3, 50, delivered(1)),
      publish(4, 60, delivered(2), { channel: "*" }),
      publish(5, 70, { status: 1 }, { channel: "id2" }),
    ];
    const clients = {
      1: {
        got: [
          [1, 20.5],
          [2, 30.5],
          [3, 50.5],
          [4, 61],
        ] as Got[],
        hasDefaults: true,
      },
      2: {
        got: [
          [1, 25],
          [2, 35],
          [4, 65],
          [5, 71],
        ] as Got[],
        hasDefaults: true,
      },
    };
    expect(check(steps, clients)).toBe("");
  });

  it("finds a message that was sent before its connection ended, and that a subscriber did not get", () => {
    const last = publish(1, 20, "unknown", { to: 21, connection: 2 });
    const steps = [subscribe(1, 10), subscribe(2, 12), last];
    const ended = { end: [21, 22] as [number, number] };
    const checkTaken = (one: Client, carriages?: Carriage[]): string =>
      check(steps, { 1: one, 2: ended }, new Facts(), carriages, (connection) => connection === 2);
    expect(checkTaken({ got: [[1, 25]] })).toBe("");
    expect(checkTaken({}, [])).toContain("connection 1 never got message 1");
    // It may have ended before the message came.
    expect(checkTaken({ end: [5000, 5001] }, [])).toBe("");
    // Another connection may have lost it with its end.
    expect(check(steps, { 1: {}, 2: ended }, new Facts(), [])).toBe("");
  });

  it("accepts a message to subscribers that come, go or end while it travels, and none of them", () => {
    for (const got of [[], [[1, 25]]] as Got[][]) {
      const sent = publish(1, 20, delivered(got.length), { to: 30 });
      expect(check([subscribe(1, 15, { to: 25 }), sent], { 1: { got } })).toBe("");
      expect(check([subscribe(1, 10), sent, unsubscribe(1, 22)], { 1: { got } })).toBe("");
      expect(check([subscribe(1, 10), sent], { 1: { got, end: [22, 40] } })).toBe("");
      const unknown = publish(1, 20, "unknown", { to: 21 });
      expect(check([subscribe(1, 10), unknown], { 1: { got } })).toBe("");
    }
    expect(check([subscribe(1, 10), publish(1, 20)], { 1: { heardUntil: 15 } })).toBe("");
    expect(check([subscribe(1, 10), publish(1, 20)], { 1: { heardUntil: null } })).toBe("");
  });

  it("accepts a message that a call to the Hub lost, or that a second copy of the Hub took", () => {
    const steps = [subscribe(1, 10), publish(1, 20, { status: 0 }, { to: 40 })];
    for (const got of [[], [[1, 30]]] as Got[][]) {
      for (const fate of [{ hasFailed: true }, { isTakenByCopy: true }]) {
        const carriages = [carriage(1, 21, 39, fate)];
        expect(check(steps, { 1: { got } }, new Facts(), carriages)).toBe("");
      }
    }
  });

  it("accepts a message that a connection misses whose Hub had a second copy while it was opened, and no other", () => {
    const steps = [subscribe(1, 10), publish(1, 20, { status: 0 }, { to: 40 })];
    const checkCopied = (from: number, until: number): string => {
      const facts = new Facts();
      facts.addStale({ object: HUB, asOf: at(from), until: at(until) });
      return check(steps, { 1: {} }, facts, [carriage(1, 21, 39)]);
    };
    expect(checkCopied(0, 50)).toBe("");
    expect(checkCopied(15, 50)).toContain("connection 1 never got message 1");
  });

  it("accepts that a connection misses its own messages from the moment on when its Hub has a second copy", () => {
    const own = (from: number): string =>
      check([subscribe(1, 10), publish(1, from, { status: 0 }, { connection: 1 })], {
        1: { end: [20, 60], partedAt: 20 },
      });
    expect(own(15)).toContain("never got message 1");
    expect(own(25)).toBe("");
  });

  it("accepts a late message of a publisher that was answered without a slow Hub, and misses one that never comes", () => {
    const steps = [subscribe(1, 10), publish(1, 20, { status: 0 }, { to: 2030 })];
    const late = [carriage(1, 21, 3000, { taken: at(2900) })];
    expect(check(steps, { 1: { got: [[1, 2950]] } }, new Facts(), late)).toBe("");
    expect(check(steps, { 1: {} }, new Facts(), late)).toContain(
      "connection 1 never got message 1",
    );
    const gone = [...steps, unsubscribe(1, 2500)];
    expect(check(gone, { 1: {} }, new Facts(), late)).toBe("");
  });

  it("accepts a push behind the status of its own PUBLISH, and a count without it, where the Hub took two seconds", () => {
    const status = { to: 2100, connection: 1 };
    const steps = [subscribe(1, 10), publish(1, 20, { status: 0 }, status)];
    const client = { 1: { got: [[1, 2110]] as Got[] } };
    expect(check(steps, client, new Facts(), [carriage(1, 21, 2090)])).toBe("");
    const soon = check(steps, client, new Facts(), [carriage(1, 21, 2010)]);
    expect(soon).toContain("behind the status of its own PUBLISH");
    expect(soon).toContain("was answered with status 00, but 1 took it");
  });

  it("refuses an answer to PUBLISH while its Hub has been asked for less than two seconds", () => {
    const steps = [subscribe(1, 10), publish(2, 2080, { status: 0 }, { to: 2100 })];
    const client = { 1: { got: [[2, 2150]] as Got[] } };
    const behind = (begun: number): Carriage[] => [
      carriage(1, begun, 2090),
      carriage(2, 2090, 2200, { taken: at(2140) }),
    ];
    const one = publish(1, 50, "unknown", { to: 60 });
    expect(check([one, ...steps], client, new Facts(), behind(100))).toBe("");
    const [first, second] = behind(100);
    const between = [first!, carriage(3, 1000, 1001, { callerLife: 2 }), second!];
    expect(check([one, ...steps], client, new Facts(), between)).toBe("");
    expect(check([one, ...steps], client, new Facts(), behind(101))).toContain(
      `was answered before ${HUB} had answered, which it was asked less than 2 s before`,
    );
  });

  it("accepts a message that was never sent to a Hub only where its group says so, or had a second copy or was reset", () => {
    const steps = [subscribe(1, 10), publish(1, 20, { status: 0 }, { to: 40 })];
    const checkNone = (facts: Facts, all = steps): string => check(all, { 1: {} }, facts, []);
    const missed = "connection 1 never got message 1";
    expect(checkNone(new Facts())).toContain(missed);
    const group = RULES.groupOf("a");
    const copied = new Facts();
    copied.addStale({ object: group, asOf: at(30), until: at(35) });
    expect(checkNone(copied)).toBe("");
    const copiedBefore = new Facts();
    copiedBefore.addStale({ object: group, asOf: at(5), until: at(15) });
    expect(checkNone(copiedBefore)).toContain(missed);
    for (const [lostAt, message] of [
      [30, ""],
      [45, missed],
    ] as const) {
      const facts = new Facts();
      facts.losses.push({ hub: HUB, at: at(lostAt) });
      if (message === "") expect(checkNone(facts)).toBe("");
      else expect(checkNone(facts)).toContain(message);
    }
    const reset = new Facts();
    reset.addLife(group, { begun: at(0), ended: at(2500), isReset: true });
    expect(checkNone(reset)).toContain(missed);
    const slow = [subscribe(1, 10), publish(1, 20, { status: 0 }, { to: 2020 })];
    expect(checkNone(reset, slow)).toBe("");
    expect(checkNone(new Facts(), slow)).toContain(missed);
    // A call that waits for a row which is never durable does not leave.
    const unsent = [carriage(1, 2400, Infinity, { taken: null })];
    expect(check(slow, { 1: {} }, reset, unsent)).toBe("");
    expect(check(slow, { 1: {} }, new Facts(), unsent)).toContain(missed);
  });

  it("tells the way to the owner of a channel from that to its other subscribers", () => {
    const channel = "id1";
    const steps = [
      { ...subscribe(2, 10), operation: { type: "subscribe", channel } as const },
      publish(1, 20, { status: 0 }, { channel, to: 40 }),
    ];
    const defaults = { hasDefaults: true };
    const [got, nothing]: Client[] = [{ got: [[1, 30]], ...defaults }, defaults];
    const failed = (method: string): Carriage[] => [
      carriage(1, 20, 39, { method, hasFailed: true }),
      carriage(1, 20, 39, { method: method === "deliverAll" ? "deliverToOwners" : "deliverAll" }),
    ];
    const play = (owner: Client, other: Client, method: string): string =>
      check(steps, { 1: owner!, 2: other! }, new Facts(), failed(method));
    expect(play(nothing!, got!, "deliverToOwners")).toBe("");
    expect(play(got!, nothing!, "deliverToOwners")).toContain("connection 2 never got message 1");
    expect(play(got!, nothing!, "deliverAll")).toBe("");
    expect(play(nothing!, got!, "deliverAll")).toContain("connection 1 never got message 1");
  });

  it("accepts that a message to an own channel is lost with the publisher's Hub, in which it waited for two seconds", () => {
    const sent = (to: number): Step[] => [
      publish(1, 20, { status: 0 }, { channel: "id1", connection: 2, to }),
    ];
    const clients = { 1: { hasDefaults: true }, 2: {} };
    const reset = new Facts();
    reset.addLife(HUB, { begun: at(0), ended: at(2500), isReset: true });
    const missed = "connection 1 never got message 1";
    expect(check(sent(2020), clients, reset, [])).toBe("");
    expect(check(sent(2019), clients, reset, [])).toContain(missed);
    expect(check(sent(2020), clients, new Facts(), [])).toContain(missed);
  });

  it("accepts a message behind a later one only where a life of the group before had it under way", () => {
    const steps = [subscribe(1, 10), publish(1, 20), publish(2, 30)];
    const client = {
      1: {
        got: [
          [2, 31],
          [1, 36],
        ] as Got[],
      },
    };
    const sent = (firstLife: number, secondLife: number): Carriage[] => [
      carriage(1, 20, 20.8, { callerLife: firstLife }),
      carriage(2, 30, 30.8, { callerLife: secondLife }),
    ];
    expect(check(steps, client, new Facts(), sent(1, 2))).toBe("");
    expect(check(steps, client, new Facts(), sent(2, 2))).toContain("behind message 2");
    expect(check(steps, client, new Facts(), sent(2, 1))).toContain("behind message 2");
  });

  it("accepts a message to an own channel behind a later one only where its request over HTTP was over before the Hub had it", () => {
    const sent = (first: Partial<Step>): Step[] => [
      publish(1, 20, delivered(0), { channel: "id1", to: 2020, ...first }),
      publish(2, 2030, { status: 1 }, { channel: "id1", ...first, to: 2031 }),
    ];
    const client = {
      hasDefaults: true,
      got: [
        [2, 2031],
        [1, 2040],
      ] as Got[],
    };
    const calls = (answered: number): Carriage[] => [
      carriage(1, 21, answered, { method: "deliverToOwners", caller: "request 1" }),
      carriage(2, 2030, 2030.8, { method: "deliverToOwners", caller: "request 2" }),
    ];
    expect(check(sent({}), { 1: client }, new Facts(), calls(4059))).toBe("");
    expect(check(sent({}), { 1: client }, new Facts(), calls(2019))).toContain("behind message 2");
    const socket = { connection: 2, outcome: { status: 0 } };
    expect(check(sent(socket), { 1: client, 2: {} }, new Facts(), calls(4059))).toContain(
      "behind message 2",
    );
  });

  it("expects no push of a payload that is too long for its subscriber", () => {
    const steps = [subscribe(1, 10), publish(1, 20, { status: 0 }, { payloadBytes: 256 })];
    const client = { payloadBytesMax: payloadBytesMax(1) };
    expect(check(steps, { 1: client })).toBe("");
    expect(check(steps, { 1: { ...client, got: [[1, 25]] } })).toContain(
      "but it was not subscribed",
    );
  });

  it.each([
    [
      "a message that is lost",
      [subscribe(1, 10), publish(1, 20)],
      { 1: {} },
      'Channels: channel "a": connection 1 never got message 1 (client 0 over http, #20 to #21 (1.0 ms later)), but it was subscribed all the while',
    ],
    [
      "a message to * that is lost",
      [publish(1, 20, { status: 1 }, { channel: "*" })],
      { 1: { hasDefaults: true } },
      "connection 1 never got message 1",
    ],
    [
      "a publisher that misses its own message",
      [subscribe(1, 10), publish(1, 20, { status: 1 }, { connection: 1 })],
      { 1: {} },
      "connection 1 never got message 1",
    ],
    [
      "a message that comes twice",
      [subscribe(1, 10), publish(1, 20)],
      {
        1: {
          got: [
            [1, 21],
            [1, 22],
          ],
        },
      },
      "got message 1 (client 0 over http, #20 to #21 (1.0 ms later)) 2 times",
    ],
    [
      "messages of a connection in another order",
      [
        subscribe(1, 10),
        publish(1, 20, { status: 1 }, { connection: 2, to: 30 }),
        publish(2, 21, { status: 1 }, { connection: 2, to: 31 }),
      ],
      {
        1: {
          got: [
            [2, 25],
            [1, 26],
          ],
        },
        2: {},
      },
      "behind message 2",
    ],
    [
      "messages of a client over HTTP in another order",
      [subscribe(1, 10), publish(1, 20), publish(2, 30)],
      {
        1: {
          got: [
            [2, 35],
            [1, 36],
          ],
        },
      },
      "behind message 2",
    ],
    [
      "a message that was never published",
      [subscribe(1, 10)],
      { 1: { got: [[7, 20]] } },
      "message 7 at #20, which was never published",
    ],
    [
      "a message to a connection that never subscribed",
      [publish(1, 20, { status: 0 })],
      { 1: { got: [[1, 22]] } },
      "but it was not subscribed",
    ],
    [
      "a message after the unsubscription",
      [subscribe(1, 10), unsubscribe(1, 15), publish(1, 20, { status: 0 })],
      { 1: { got: [[1, 22]] } },
      "but it was not subscribed",
    ],
    [
      "a message that was refused",
      [subscribe(1, 10), publish(1, 20, "refused")],
      { 1: { got: [[1, 22]] } },
      "although it was refused",
    ],
    [
      "a message before it was published",
      [subscribe(1, 10), publish(1, 20)],
      { 1: { got: [[1, 15]] } },
      "before it was published",
    ],
    [
      "a push behind the status of its publisher",
      [subscribe(1, 10), publish(1, 20, { status: 1 }, { connection: 1 })],
      { 1: { got: [[1, 25]] } },
      "behind the status of its own PUBLISH",
    ],
    [
      "a status 01 without a subscriber",
      [publish(1, 20)],
      {},
      "was answered with status 01, but 0 took it",
    ],
    [
      "a status 00 with a subscriber",
      [subscribe(1, 10), publish(1, 20, { status: 0 })],
      { 1: { got: [[1, 20.5]] } },
      "was answered with status 00, but 1 took it",
    ],
    [
      "a count that is too high",
      [subscribe(1, 10), publish(1, 20, delivered(2))],
      { 1: { got: [[1, 21]] } },
      "was answered with delivered 2, but 1 took it",
    ],
    [
      "a count that is too low",
      [subscribe(1, 10), publish(1, 20, delivered(0))],
      { 1: { got: [[1, 21]] } },
      "was answered with delivered 0, but 1 took it",
    ],
    [
      "UNSUBSCRIBE that finds no subscription",
      [subscribe(1, 10), unsubscribe(1, 20, { outcome: { status: 0 } })],
      { 1: {} },
      "UNSUBSCRIBE answered 00, but the connection was subscribed",
    ],
    [
      "UNSUBSCRIBE that finds one too many",
      [unsubscribe(1, 20)],
      { 1: {} },
      "UNSUBSCRIBE answered 01, but the connection was not subscribed",
    ],
  ] as [string, Step[], Record<number, Client>, string][])(
    "refuses %s",
    (_, steps, clients, message) => {
      expect(check(steps, clients)).toContain(message);
    },
  );

  it("accepts replay from the number that a listener has on, as far as messages are kept", () => {
    const sent = [1, 2, 3, 4, 5].map((message) =>
      publish(message, 20 * message, delivered(1, 100 + message)),
    );
    const all: Got[] = [1, 2, 3, 4, 5].map((message) => [message, 20 * message + 5, 100 + message]);
    const got = (from: number): Got[] =>
      all.slice(from - 1).map(([message, , n]) => [message, 205, n!]);
    const back = (after: number): Step[] => [
      listen(1, 10, 100),
      ...sent,
      listen(2, 200, 105, after),
    ];
    expect(check(back(103), { 1: { got: all }, 2: { got: got(4) } })).toBe("");
    expect(check(back(102), { 1: { got: all }, 2: { got: got(3) } })).toBe("");
    expect(check(back(100), { 1: { got: all }, 2: { got: got(3) } })).toBe("");
    expect(check(back(105), { 1: { got: all }, 2: {} })).toBe("");
    expect(check(back(102), { 1: { got: all }, 2: {} })).toContain(
      "never got number 103, message 3, which was kept: its stream begins at 105",
    );
    expect(check(back(102), { 1: { got: all }, 2: { got: got(4) } })).toContain("number 103");
    const gap = got(3).toSpliced(1, 1);
    expect(check(back(102), { 1: { got: all }, 2: { got: gap } })).toContain(
      "number 104, message 4, but it got 103",
    );
    expect(check(back(103), { 1: { got: all }, 2: { got: got(3) } })).toContain(
      "got number 103, but asked for what comes after 103",
    );
  });

  it("accepts a message that a listener gets by replay and its publisher did not count", () => {
    const sent = publish(1, 20, delivered(0, 101), { to: 40 });
    expect(
      check([listen(1, 10, 100), sent, listen(2, 30, 101, 100)], {
        1: { end: [12, 15] },
        2: { got: [[1, 35, 101]] },
      }),
    ).toBe("");
  });

  it("refuses that a publisher misses its own message that was never sent to its Hub, though it was subscribed before", () => {
    const own = publish(1, 11, { status: 0 }, { connection: 1, to: 20 });
    const joined = subscribe(1, 10, { to: 15 });
    expect(check([joined, own], { 1: {} }, new Facts(), [])).toContain("never got message 1");
    const failed = [carriage(1, 12, 18, { hasFailed: true })];
    expect(check([joined, own], { 1: {} }, new Facts(), failed)).toBe("");
  });

  it("accepts a count with a listener whose stream begins behind the message, and with no other", () => {
    const counted = (
      listener: Step,
      sent = publish(1, 20, delivered(1, 101), { to: 40 }),
    ): string => check([listen(1, 5, 100), sent, listener], { 1: { end: [12, 15] }, 2: {} });
    expect(counted({ ...listen(2, 10, 101), to: 50 })).toBe("");
    expect(counted({ ...listen(2, 30, 101), to: 50 })).toBe("");
    expect(counted({ ...listen(2, 10, 101), to: 15 })).toContain("never got message 1");
    expect(counted({ ...listen(2, 45, 101), to: 50 })).toContain("delivered 1, but 0 took it");
    const twice = publish(1, 20, delivered(2, 101), { to: 40 });
    expect(counted({ ...listen(2, 10, 101), to: 50 }, twice)).toContain("delivered 2, but 0 to 1");
  });

  it.each([
    [
      "a live listener that misses a number",
      [
        [1, 25, 101],
        [3, 45, 103],
      ],
      [],
      "never got number 102, message 2, but it got later ones",
    ],
    [
      "numbers that go back at a listener",
      [
        [1, 25, 102],
        [2, 35, 101],
      ],
      [],
      "got number 101 behind 102",
    ],
    [
      "one number for two messages",
      [
        [1, 25, 101],
        [2, 35, 101],
      ],
      [],
      "number 101 names the messages 1 and 2",
    ],
    [
      "two numbers for one message",
      [[1, 25, 101]],
      [[1, 26, 109]],
      "message 1 has the numbers 101 and 109",
    ],
    [
      "numbers that go back between publications",
      [],
      [
        [1, 25, 102],
        [2, 35, 101],
      ],
      "numbers went back: message 2 has 101",
    ],
  ] as [string, Got[], Got[], string][])("refuses %s", (_, first, second, message) => {
    const sent = [1, 2, 3].map((message) => publish(message, 10 + 10 * message, { status: 1 }));
    const steps = [listen(1, 5, 100), listen(2, 5, 100), ...sent];
    // The other listener has seen all messages that the first one lacks.
    const rest: Got[] =
      second.length > 0
        ? second
        : [
            [1, 25, 101],
            [2, 35, 102],
            [3, 45, 103],
          ];
    expect(check(steps, { 1: { got: first }, 2: { got: rest } })).toContain(message);
  });
});

describe("the checker of progress", () => {
  const rules: ProgressRules = {
    stallTimeoutMs: 1000,
    holderTimeoutMs: 3000,
    answerMs: 5000,
    slackMs: 100,
  };
  const waiting = (reason: WaitReason, since: number, progressed = since): Waiting => ({
    kind: "call",
    name: "7",
    reason,
    since: at(since),
    progressed: at(progressed),
  });
  const check = (all: readonly Waiting[], now: number, isAnythingScheduled = true): string =>
    messagesOf(checkProgress(all, at(now), isAnythingScheduled, rules));

  it.each([
    ["answer", 5100],
    ["unfinished", 1100],
    ["unread", 1100],
    ["publish", 7100],
    ["ending", 5100],
    ["flush", 150],
    ["holder", 3100],
  ] as [WaitReason, number][])(
    "accepts waiting (%s) for %i ms, and no longer",
    (reason, limitMs) => {
      expect(check([waiting(reason, 10)], 10 + limitMs)).toBe("");
      expect(check([waiting(reason, 10)], 11 + limitMs)).toContain(
        `Progress: 7: call 7 waits since #10 (${reason}), without progress for ${limitMs + 1} ms, at most ${limitMs} ms are promised`,
      );
      if (reason === "holder") return;
      expect(check([waiting(reason, 10, 2000)], 2000 + Math.min(limitMs, 1100))).toBe("");
    },
  );

  it("refuses an unfinished frame that goes on too slowly", () => {
    expect(check([waiting("unfinished", 0, 4000)], 4100)).toBe("");
    expect(check([waiting("unfinished", 0, 4000)], 4101)).toContain("for 4101 ms, at most 4100 ms");
  });

  it("accepts a silent peer for ever, and nothing else once nothing is scheduled", () => {
    expect(check([waiting("peer", 0)], 1e12, false)).toBe("");
    expect(check([waiting("answer", 0), waiting("flush", 0)], 1, false)).toContain(
      "nothing is scheduled any more, but 2 wait: call 7 waits since #0 (answer); call 7",
    );
  });

  const run = (points: [ms: number, begun: number, ended: number, requests?: number][]): string =>
    messagesOf(
      checkRun(
        points.map(([ms, begun, ended, requests = 0]) => ({ at: at(ms), begun, ended, requests })),
        rules,
      ),
    );

  it("accepts a run whose calls end, with pauses while none is open", () => {
    expect(
      run([
        [0, 1, 0],
        [5000, 3, 1],
        [10_000, 3, 3],
        [60_000, 3, 3],
        [61_000, 4, 3],
        [62_000, 4, 4],
      ]),
    ).toBe("");
  });

  it("accepts a listing that takes long, as long as pages of it come", () => {
    const points = [
      [0, 2, 1, 10],
      [5000, 2, 1, 11],
      [10_000, 2, 1, 12],
      [14_000, 2, 2, 12],
    ] as [number, number, number, number][];
    expect(run(points)).toBe("");
    points[1]![3] = 10;
    points[2]![3] = 10;
    expect(run(points)).toContain("no call ended from #0 to #10000");
  });

  it.each([
    [
      "in which no call ends",
      [
        [0, 2, 0],
        [4000, 3, 0],
        [5200, 4, 0],
      ],
      "no call ended from #0 to #5200 (5200 ms), but 4 are open",
    ],
    [
      "that stands still in the middle",
      [
        [0, 2, 1],
        [1000, 3, 2],
        [7000, 3, 2],
        [8000, 3, 3],
      ],
      "no call ended from #1000 to #7000",
    ],
    ["that leaves calls open", [[0, 2, 1]], "1 calls never ended"],
    ["without calls", [[0, 0, 0]], "no call was made"],
    ["without an end of any call", [[0, 2, 0]], "none of 2 calls ended"],
  ] as [string, [number, number, number][], string][])("refuses a run %s", (_, points, message) => {
    expect(run(points)).toContain(message);
  });
});

describe("the checker of budgets", () => {
  const MIB = 1 << 20;
  const settings: BudgetSettings = {
    shardBytesMax: 8 * MIB,
    shards: 4,
    shardsMax: 1,
    hubsMax: 2,
    hubConnectionsMax: 20,
    frameBytesMax: MIB,
  };
  const sizes: BudgetSizes = Sizes;
  const sample = <Figures>(figures: Figures): Sample<Figures>[] => [
    { subject: SHARD, at: at(10), figures },
    { subject: SHARD, at: at(20), figures },
  ];
  const shard: ShardFigures = {
    engineBytes: 9 * MIB,
    engineBytesMost: 9 * MIB,
    journalRows: 4000,
    hasAdopted: false,
    journalBytes: 4 * MIB,
    rowsWritten: 1100,
    changingCalls: 1000,
    changedBytes: 4 * MIB,
    commitBytesMost: MIB,
    alarmsSet: 60,
    timesRungAgain: 0,
    livesParted: 0,
    lives: 1,
    hints: 0,
    offers: 0,
    splits: 0,
    clockSteps: 0,
    elapsedMs: 60_000,
  };
  const group: GroupFigures = { joinedBytes: MIB, keptBytes: 16 * MIB, idleNumberedBytes: 0 };
  const hub: HubFigures = {
    connections: 20,
    pendingBytes: 32 * MIB,
    backlogBytes: 32 * MIB,
    silentBytes: 64 * MIB,
  };
  const prices: GroupPrices = {
    publications: 100,
    publishCalls: 100,
    hubCalls: 100,
    changes: 10,
    listens: 2,
    channels: 100,
    keptRows: 50,
    rowsWritten: 451,
    lives: 1,
  };
  const namespace: NamespaceFigures = {
    shards: 4,
    groups: 32,
    hubs: 4,
    locations: 2,
    directories: 2,
  };

  const checkAll = (changed: {
    shard?: Partial<ShardFigures>;
    group?: Partial<GroupFigures>;
    hub?: Partial<HubFigures>;
    prices?: Partial<GroupPrices>;
    namespace?: Partial<NamespaceFigures>;
  }): string =>
    messagesOf([
      ...checkShardBudgets(sample({ ...shard, ...changed.shard }), settings, sizes),
      ...checkGroupBudgets(sample({ ...group, ...changed.group }), sizes),
      ...checkHubBudgets(sample({ ...hub, ...changed.hub }), settings, sizes),
      ...checkGroupPrices(sample({ ...prices, ...changed.prices })),
      ...checkNamespaceBudgets(sample({ ...namespace, ...changed.namespace }), settings),
    ]);

  it("accepts objects at their limits", () => {
    expect(checkAll({})).toBe("");
  });

  it("accepts alarms that are set anew after the platform has rung them too early", () => {
    expect(checkAll({ shard: { alarmsSet: 63, timesRungAgain: 2 } })).toBe("");
  });

  it("accepts the rows of each split of a shard and a snapshot after it, and refuses a row above these", () => {
    expect(checkAll({ shard: { splits: 10, rowsWritten: 1196 + 190 } })).toBe("");
    expect(checkAll({ shard: { splits: 10, rowsWritten: 1196 + 191 } })).toContain(
      "1387 rows written, at most 1386 are promised",
    );
  });

  it("accepts a row for each hint that a shard passes on, and refuses a row above these", () => {
    expect(checkAll({ shard: { hints: 10, rowsWritten: 1196 + 10 } })).toBe("");
    expect(checkAll({ shard: { hints: 10, rowsWritten: 1196 + 11 } })).toContain(
      "1207 rows written, at most 1206 are promised",
    );
  });

  it("accepts a table for each time that a shard was offered a range, and refuses a row above these", () => {
    expect(checkAll({ shard: { offers: 10, rowsWritten: 1196 + 160 } })).toBe("");
    expect(checkAll({ shard: { offers: 10, rowsWritten: 1196 + 161 } })).toContain(
      "1357 rows written, at most 1356 are promised",
    );
  });

  it("accepts the tables of a group that has had one join", () => {
    const asked = { publications: 0, publishCalls: 0, hubCalls: 0, changes: 1, listens: 0 };
    const stored = { channels: 0, keptRows: 0, rowsWritten: 8 };
    expect(checkAll({ prices: { ...asked, ...stored } })).toBe("");
  });

  it.each([
    [
      "a shard with more memory",
      { shard: { engineBytes: 9 * MIB + 1 } },
      "at #10 it has 9437185 bytes of memory, at most 9437184 are promised: SHARD_BYTES_MAX",
    ],
    [
      "a journal that is never cut",
      { shard: { journalRows: 10_000 } },
      "10000 rows of its journal",
    ],
    [
      "a journal with too many bytes",
      { shard: { journalBytes: 200 * MIB } },
      "bytes of its journal",
    ],
    [
      "two rows for each change",
      { shard: { rowsWritten: 2000 } },
      "2000 rows written, at most 1196 are promised",
    ],
    ["two alarms a second", { shard: { alarmsSet: 120 } }, "120 alarms, at most 61"],
    [
      "an alarm more than the platform has rung too early",
      { shard: { alarmsSet: 64, timesRungAgain: 2 } },
      "64 alarms, at most 63",
    ],
    [
      "a group with too many names",
      { group: { joinedBytes: 17 * MIB } },
      "bytes of names with subscribers",
    ],
    ["a group that keeps too much", { group: { keptBytes: 17 * MIB } }, "bytes of kept messages"],
    [
      "a group that forgets no channel",
      { group: { idleNumberedBytes: 9 * MIB } },
      "bytes of numbered channels",
    ],
    ["a Hub with too many connections", { hub: { connections: 21 } }, "21 connections, at most 20"],
    [
      "a Hub that holds too many frames",
      { hub: { pendingBytes: 40 * MIB } },
      "bytes of frames that wait",
    ],
    [
      "a Hub with too much unread",
      { hub: { backlogBytes: 40 * MIB } },
      "bytes unread behind bridges",
    ],
    [
      "a Hub that sends to silent peers",
      { hub: { silentBytes: 90 * MIB } },
      "bytes sent to silent peers",
    ],
    [
      "a request more than there were publications",
      { prices: { publishCalls: 101 } },
      "101 calls with publications, at most 100 are promised: a publication is one request to its group",
    ],
    ["a request to a Hub for each channel", { prices: { hubCalls: 150 } }, "150 calls to one Hub"],
    [
      "a row for each message that is not kept",
      { prices: { rowsWritten: 500 } },
      "500 rows written, at most 451 are promised",
    ],
    ["a shard too many", { namespace: { shards: 5 } }, "5 Shards, at most 4"],
    ["a group too many", { namespace: { groups: 33 } }, "33 groups of channels"],
    ["a Hub too many", { namespace: { hubs: 5 } }, "5 Hubs, at most 4"],
    ["a Directory too many", { namespace: { directories: 3 } }, "3 Directories, at most 2"],
    ["figures that are none", { shard: { engineBytes: NaN } }, "NaN bytes of memory"],
  ] as [string, Parameters<typeof checkAll>[0], string][])(
    "refuses %s, once",
    (_, changed, message) => {
      const told = checkAll(changed);
      expect(told).toContain(message);
      expect(told.split("\n").filter((line) => line.includes("at #20"))).toEqual([]);
    },
  );
});

describe("durations by the time of an object", () => {
  const MINUTE_MS = 60_000;
  const from = { fromMs: 1000, toMs: 1000 };

  it("are over when they have passed, where the clock was never set", () => {
    const endMs = new Durations(new ClockHistory(), SHARD).latestEnd(from, MINUTE_MS);
    expect(endMs).toBeGreaterThanOrEqual(1000 + MINUTE_MS);
    expect(endMs).toBeLessThan(1010 + MINUTE_MS);
  });

  it("may be over at the very moment at which the clock is set forwards", () => {
    for (let stepMs = 20_000; stepMs < 20_001; stepMs += 0.01) {
      const clocks = new ClockHistory();
      clocks.set(SHARD, stepMs, 10 * MINUTE_MS);
      const endMs = new Durations(clocks, SHARD).earliestEnd(from, MINUTE_MS);
      expect(endMs).toBeLessThanOrEqual(stepMs);
      expect(endMs).toBeGreaterThan(stepMs - 1);
    }
  });

  it("may last on behind a clock that goes back, as the object may have taken no reading before", () => {
    const clocks = new ClockHistory();
    clocks.set(SHARD, 2 * MINUTE_MS, -10 * MINUTE_MS);
    const endMs = new Durations(clocks, SHARD).latestEnd(from, MINUTE_MS);
    expect(endMs).toBeGreaterThan(2 * MINUTE_MS);
  });
});
