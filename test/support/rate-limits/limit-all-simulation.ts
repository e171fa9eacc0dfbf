/**
 * Doors that charge limits of several shards together, in simulated time, and a model that is written from the promise:
 *
 * - whatever becomes of messages and shards, what was granted is no more than each limit allows;
 * - where no message was lost and no shard has restarted, what refused calls had charged is given back in the end.
 */
import { vi } from "vitest";
import { readEntries } from "../../../src/engine/limit-all-entries.ts";
import type { Engine } from "../../../src/engine/engine.ts";
import { binaryString } from "../../../src/wire/bytes.ts";
import { Command, REPLY_HEADER_BYTES } from "../../../src/wire/edge/command.ts";
import type { LimitStrategy } from "../../../src/wire/edge/limit.ts";
import type { LimitAllEntry } from "../../../src/wire/edge/limit-all.ts";
import * as operations from "../../../src/wire/edge/operations.ts";
import { storageKey } from "../../../src/wire/ratelimit/keys.ts";
import { STATUS_SUCCESS } from "../../../src/wire/throttr/requests.ts";
import { commandFrame } from "../frames/commands.ts";
import { concat, edgeBatch, f64, u32 } from "../frames/index.ts";
import { SimulatedShards, type Fate, type Sent } from "./simulated-shards.ts";

const SHARDS = 3;
/** Long enough for all that was sent to come, and for all that waits to end. */
const CALM_MS = 60_000;
const YEAR_MS = 365 * 86_400_000;

/** A limit, with what it may grant: at most `burst`, and `rate` a second. */
interface Limit {
  readonly name: string;
  readonly strategy: LimitStrategy;
  readonly burst: number;
  readonly rate: number;
}

const window = (limit: number) =>
  ({
    strategy: "fixed_window",
    quotas: [{ name: "year", limit, windowMs: YEAR_MS }],
  }) as const;
const bucket = (strategy: "token_bucket" | "leaky_bucket" | "gcra", burst: number, rate: number) =>
  ({ strategy, burst, rate }) as const;
/** Rates of one unit in 11 days: within a run nothing comes back by itself. */
const SLOW = 1e-6;
/** Without refill, so that what is left says exactly what is charged. */
const STILL: readonly Limit[] = [
  { name: "window", strategy: window(40), burst: 40, rate: 0 },
  { name: "token", strategy: bucket("token_bucket", 30, SLOW), burst: 30, rate: SLOW },
  { name: "leaky", strategy: bucket("leaky_bucket", 25, SLOW), burst: 25, rate: SLOW },
  { name: "gcra", strategy: bucket("gcra", 20, SLOW), burst: 20, rate: SLOW },
  {
    name: "sliding",
    strategy: { strategy: "sliding_window", limit: 35, windowMs: YEAR_MS },
    burst: 35,
    rate: 0,
  },
  {
    name: "composite",
    strategy: {
      strategy: "composite",
      primary: window(30),
      secondary: bucket("token_bucket", 20, SLOW),
    },
    burst: 20,
    rate: SLOW,
  },
];
/** With refill. */
const QUICK: readonly Limit[] = [
  { name: "quick", strategy: bucket("token_bucket", 10, 0.7), burst: 10, rate: 0.7 },
  { name: "drain", strategy: bucket("leaky_bucket", 8, 0.5), burst: 8, rate: 0.5 },
  { name: "cells", strategy: bucket("gcra", 6, 0.5), burst: 6, rate: 0.5 },
];
const KEYS = ["ada", "bob"];

/** What a call was granted of one limit, and when. */
interface Grant {
  readonly cost: number;
  readonly fromMs: number;
  readonly toMs: number;
}

/** `oneByOne`: a shard charges each entry by itself, so that a refusal leaves some charged. */
export type Fault = "refunds" | "forgetsCancels" | "keepsCharges" | "oneByOne";

export class LimitAllSimulation {
  readonly #shards = new SimulatedShards(SHARDS);
  readonly #random: () => number;
  readonly #isLossy: boolean;
  readonly #grants = new Map<string, Grant[]>();
  /** Outcomes of calls, so that a test can see that all kinds came. */
  readonly counts = { granted: 0, refused: 0, failed: 0 };

  constructor(random: () => number, options: { isLossy: boolean; fault: Fault | null }) {
    this.#random = random;
    this.#isLossy = options.isLossy;
    this.#shards.fateOf = (sent) => this.#fateOf(sent);
    if (options.fault !== null) plant(this.#shards, options.fault);
  }

  /** Calls that overlap, and then calm. */
  async run(calls: number): Promise<void> {
    const open: Promise<void>[] = [];
    for (let i = 0; i < calls; i++) {
      open.push(this.#call());
      if (this.#isLossy && this.#below(15) === 0) this.#shards.restart(this.#below(SHARDS));
      await vi.advanceTimersByTimeAsync(this.#below(this.#below(5) === 0 ? 3_000 : 40));
    }
    await vi.advanceTimersByTimeAsync(CALM_MS);
    await Promise.all(open);
  }

  /** What broke the promise; null when all is well. */
  violation(): string | null {
    for (const limit of [...STILL, ...QUICK]) {
      for (const key of KEYS) {
        const broken = this.#surplus(limit, key) ?? (this.#isLossy ? null : this.#loss(limit, key));
        if (broken !== null) return `${limit.name}:${key}: ${broken}`;
      }
    }
    return null;
  }

  /** More than the limit allows was granted in a span of time. */
  #surplus({ name, burst, rate }: Limit, key: string): string | null {
    const grants = this.#grants.get(`${name}:${key}`) ?? [];
    for (const { fromMs } of grants) {
      for (const { toMs } of grants) {
        const within = grants.filter((grant) => grant.fromMs >= fromMs && grant.toMs <= toMs);
        const sum = within.reduce((total, { cost }) => total + cost, 0);
        const room = burst + (rate * Math.max(0, toMs - fromMs)) / 1000 + 1e-6;
        if (sum > room) return `${sum} granted within ${toMs - fromMs} ms`;
      }
    }
    return null;
  }

  /** What is left is not what was not granted. */
  #loss({ name, strategy, burst, rate }: Limit, key: string): string | null {
    if (rate > SLOW) return null;
    const granted = (this.#grants.get(`${name}:${key}`) ?? []).reduce(
      (sum, { cost }) => sum + cost,
      0,
    );
    const shard = this.#shards.shardOfKey(storageKey(name, key, strategy.strategy === "composite"));
    const { remaining } = this.#shards.callOne(shard, operations.peek({ name, key, strategy }));
    return remaining === burst - granted
      ? null
      : `${granted} of ${burst} granted, but ${remaining} left`;
  }

  async #call(): Promise<void> {
    const limits = [...STILL, ...QUICK];
    const requests = Array.from({ length: 1 + this.#below(5) }, (): LimitAllEntry => {
      const { name, strategy } = limits[this.#below(limits.length)]!;
      return { name, key: KEYS[this.#below(2)]!, strategy, cost: 1 + this.#below(3) };
    });
    const fromMs = Date.now();
    try {
      const { success } = await this.#shards.ask(requests);
      this.counts[success ? "granted" : "refused"]++;
      if (success) for (const request of requests) this.#note(request, fromMs);
    } catch {
      this.counts.failed++;
    }
  }

  #note({ name, key, cost }: LimitAllEntry, fromMs: number): void {
    const id = `${name}:${key}`;
    const grants = this.#grants.get(id) ?? [];
    grants.push({ cost: cost!, fromMs, toMs: Date.now() });
    this.#grants.set(id, grants);
  }

  /**
   * Most messages take some milliseconds. Some charges come after the door has given up, some answers, too; a cancel may
   * overtake its charge. Where messages may be lost, a cancel may be late, too.
   */
  #fateOf({ method }: Sent): Fate {
    const isCharge = method === "limitAll";
    const isSlow = this.#below(12) === 0;
    const delayMs = isSlow
      ? this.#below(isCharge ? 25_000 : this.#isLossy ? 40_000 : 1_500)
      : this.#below(20);
    const replyMs = this.#below(20) === 0 ? this.#below(8_000) : this.#below(20);
    const end = this.#isLossy
      ? ([undefined, "lost", "unanswered"] as const)[this.#below(10)]
      : undefined;
    return { delayMs, replyMs, ...(end === undefined ? {} : { end }) };
  }

  #below(end: number): number {
    return Math.floor(this.#random() * end);
  }
}

function plant(shards: SimulatedShards, fault: Fault): void {
  const { charge } = shards;
  const cancelled = new Set<string>();
  switch (fault) {
    case "refunds":
      shards.cancel = refundAll;
      break;
    case "keepsCharges":
      shards.cancel = () => {};
      break;
    case "forgetsCancels":
      shards.charge = (engine, body, id) => charge(engine, body, cancelled.has(id!) ? null : id);
      shards.cancel = (engine, body, id) => {
        cancelled.add(id);
        engine.cancelLimits(body, id, Date.now());
      };
      break;
    case "oneByOne":
      shards.charge = (engine, body, id) => {
        const replies = readEntries(body).map(({ at, end }) => {
          const one = concat([Uint8Array.of(1), body.subarray(at, end)]);
          return engine.limitAll(one, id, Date.now());
        });
        const failed = replies.find(([status]) => status !== STATUS_SUCCESS);
        if (failed !== undefined) return failed;
        const decisions = concat(replies.map((reply) => reply.subarray(REPLY_HEADER_BYTES)));
        return concat([Uint8Array.of(STATUS_SUCCESS), u32(decisions.length), decisions]);
      };
  }
}

/** As a door would that refunds what it does not know to be charged. */
function refundAll(engine: Engine, body: Uint8Array): void {
  for (const { bytes, keyAt, keyBytes, cost, configurationAt, end } of readEntries(body)) {
    const key = binaryString(bytes, keyAt, keyBytes);
    const given = concat([f64(cost), bytes.subarray(configurationAt, end)]);
    engine.apply(edgeBatch([commandFrame(Command.refund, key, given)]), Date.now());
  }
}
