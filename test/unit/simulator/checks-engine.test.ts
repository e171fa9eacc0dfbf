/** The checker of records accepts what the real engine answers, and refuses what one answers that forgets writes now and then. */
import { expect, inject, it } from "vitest";
import { tokenBucket } from "../../../src/ratelimit/strategies.ts";
import type { Operation } from "../../../src/wire/edge/operation.ts";
import { ThrottrError } from "../../../src/wire/edge/error.ts";
import * as operations from "../../../src/wire/edge/operations.ts";
import { encodeRequest, type Request } from "../../../src/wire/throttr/encode.ts";
import { ClockHistory } from "../../simulator/checks/clocks.ts";
import { checkRecords } from "../../simulator/checks/records.ts";
import { Random } from "../../simulator/kernel/random.ts";
import { EDGE, edgeBatch, partsOf } from "../../support/frames/index.ts";
import {
  leftOfMs,
  leftOfTtl,
  type RecordAnswer,
  type RecordOperation,
} from "../../support/models/record.ts";
import { uintOf } from "../../support/models/values.ts";
import { ReservingShard } from "../../support/rate-limits/reserving-shard.ts";
import { forge, type ForgedCall } from "../../support/simulator/forge.ts";

const seed = inject("seed");
const KEPT_MS = 60_000;
const key = "k";
const keyBytes = new TextEncoder().encode(key);
const decoder = new TextDecoder();
/** A frame that removes a record has no TTL. */
const NO_TTL = { count: 0, unit: 3 };
const CHANGES = ["patch", "increase", "decrease"] as const;
const CHANGE = {
  patch: operations.patch,
  increase: operations.increase,
  decrease: operations.decrease,
};

class Client {
  readonly shard = new ReservingShard(tokenBucket({ burst: 1, rate: 1 }));
  readonly #random: Random;
  #ids = 0;

  constructor(random: Random) {
    this.#random = random;
  }

  /** Asks something at random, and writes down what came of it. */
  ask(): { operation: RecordOperation; outcome: RecordAnswer } {
    return this.#random.chance(0.5) ? this.#askThrottr() : this.#askEdge();
  }

  #ttl(): { count: bigint; unit: number } {
    return this.#random.chance(0.5)
      ? { count: BigInt(this.#random.int(3000)), unit: 3 }
      : { count: BigInt(1 + this.#random.int(3)), unit: 4 };
  }

  #value(): string {
    return this.#random.pick(["a", "b", "long text"]);
  }

  #askThrottr(): { operation: RecordOperation; outcome: RecordAnswer } {
    const common = { key, dialect: "throttr" } as const;
    const ttl = this.#ttl();
    const quota = BigInt(this.#random.int(9));
    const value = this.#value();
    const wire = { key: keyBytes, ttlType: ttl.unit, ttl: ttl.count };
    const change = this.#random.int(3);
    switch (this.#random.int(7)) {
      case 0:
        return this.#status(
          { ...common, name: "insert", quota, ttl },
          { type: "insert", quota, ...wire },
        );
      case 1: {
        const bytes = new TextEncoder().encode(value);
        return this.#status(
          { ...common, name: "set", value, ttl },
          { type: "set", value: bytes, ...wire },
        );
      }
      case 2:
        return this.#status({ ...common, name: "purge" }, { type: "purge", key: keyBytes });
      case 3: {
        const asked = {
          type: "update",
          key: keyBytes,
          attribute: 0,
          change,
          value: quota,
        } as const;
        return this.#status(
          { ...common, name: "change", change: CHANGES[change]!, amount: quota },
          asked,
        );
      }
      case 4: {
        const amount = ttl.count;
        const asked = {
          type: "update",
          key: keyBytes,
          attribute: 1,
          change,
          value: amount,
        } as const;
        return this.#status({ ...common, name: "expire", change: CHANGES[change]!, amount }, asked);
      }
      case 5: {
        const reply = this.#send({ type: "query", key: keyBytes });
        const operation = { ...common, name: "query" } as const;
        if (reply[0] !== 1) return { operation, outcome: { success: false, record: null } };
        const unit = reply[9]!;
        const left = leftOfTtl(uintOf([...reply.subarray(10, 18)]), unit);
        const record = {
          kind: "counter",
          quota: uintOf([...reply.subarray(1, 9)]),
          unit,
          left,
        } as const;
        return { operation, outcome: { success: true, record } };
      }
      default: {
        const reply = this.#send({ type: "get", key: keyBytes });
        const operation = { ...common, name: "get" } as const;
        if (reply[0] !== 1) return { operation, outcome: { success: false, record: null } };
        const unit = reply[1]!;
        const left = leftOfTtl(uintOf([...reply.subarray(2, 10)]), unit);
        const record = {
          kind: "buffer",
          value: decoder.decode(reply.subarray(18)),
          unit,
          left,
        } as const;
        return { operation, outcome: { success: true, record } };
      }
    }
  }

  #status(operation: RecordOperation, request: Request) {
    return { operation, outcome: { success: this.#send(request)[0] === 1 } };
  }

  #send(request: Request): Uint8Array {
    const { engine, nowMs } = this.shard;
    return partsOf(
      engine.apply(edgeBatch([encodeRequest(EDGE, request)]), nowMs),
    )[0]!.replies.slice();
  }

  #askEdge(): { operation: RecordOperation; outcome: RecordAnswer } {
    const random = this.#random;
    // Some keys come again, with another call or the same.
    const id = random.chance(0.5)
      ? undefined
      : `${random.chance(0.3) ? this.#ids++ : random.int(this.#ids + 1)}`;
    const once = id === undefined ? {} : { once: id };
    const keyed = id === undefined ? {} : { idempotencyKey: id };
    const common = { key, dialect: "edge", ...once } as const;
    const ttlMs = 1 + random.int(2000);
    const ttl = { count: ttlMs, unit: 3 };
    const by = BigInt(1 + random.int(2));
    switch (random.int(5)) {
      case 0:
        return this.#call(
          { ...common, name: "increment", by, ttl },
          operations.increment(key, { by, ttlMs, ...keyed }),
          (quota) => ({
            success: true,
            record: { kind: "counter", quota },
          }),
        );
      case 1: {
        const change = random.pick(CHANGES);
        return this.#call(
          { ...common, name: "change", change, amount: by },
          CHANGE[change](key, by, keyed),
          (after) =>
            after === null
              ? { success: false, record: null }
              : {
                  success: after.applied,
                  record: { quota: after.quota, left: leftOfMs(after.ttlMs) },
                },
        );
      }
      case 2: {
        const change = random.pick(CHANGES);
        return this.#call(
          { ...common, name: "expire", change, amount: ttlMs, unit: 3 },
          operations.ttl(key, { ttlMs, change, ...keyed }),
          (after) => ({ record: after === null ? null : { left: leftOfMs(after.ttlMs) } }),
        );
      }
      case 3: {
        const expected = random.chance(0.3) ? null : this.#value();
        const value = random.chance(0.2) ? null : this.#value();
        return this.#call(
          { ...common, name: "compareAndSet", expected, value, ttl: value === null ? NO_TTL : ttl },
          operations.compareAndSet(key, { expected, value, ttlMs, ...keyed }),
          ({ applied, current }) =>
            applied
              ? { success: true }
              : {
                  success: false,
                  record: current === null ? null : { value: decoder.decode(current) },
                },
        );
      }
      default:
        return this.#call(
          { key, dialect: "edge", name: "query" },
          operations.query(key),
          (counter) => ({
            success: counter !== null,
            record:
              counter === null ? null : { quota: counter.quota, left: leftOfMs(counter.ttlMs) },
          }),
        );
    }
  }

  #call<Result>(
    operation: RecordOperation,
    asked: Operation<Result>,
    shown: (result: Result) => RecordAnswer,
  ): { operation: RecordOperation; outcome: RecordAnswer } {
    try {
      return { operation, outcome: shown(this.shard.call(asked)) };
    } catch (error) {
      return { operation, outcome: { code: ThrottrError.from(error).code } };
    }
  }

  /** As if a write were lost. */
  forget(): void {
    this.shard.call(operations.purge(key));
  }
}

function play(random: Random, forgets: boolean) {
  const client = new Client(random);
  const { shard } = client;
  const calls: ForgedCall<RecordOperation, RecordAnswer>[] = [];
  for (let i = 0; i < 120; i++) {
    shard.nowMs += random.chance(0.1) ? random.int(KEPT_MS) : random.int(200);
    const begunMs = shard.nowMs - random.next() * 15 - 0.01;
    const endedMs = shard.nowMs + 1 + random.next() * 15;
    const { operation, outcome } = client.ask();
    // Each tenth answer is lost.
    const isLost = random.chance(0.1);
    const lost = { outcome: "unknown", settledMs: endedMs + 400 } as const;
    calls.push({ operation, begunMs, endedMs, ...(isLost ? lost : { outcome }) });
    if (forgets && i % 10 === 9) client.forget();
  }
  return checkRecords(forge(calls), {
    clocks: new ClockHistory(),
    objectOf: () => "shard 0",
    answersKept: { fromMs: KEPT_MS, toMs: KEPT_MS },
  });
}

it("what the engine answers to calls that overlap is accepted", () => {
  for (let i = 0; i < 25; i++) {
    const { violations, undecided } = play(new Random(seed + i), false);
    expect(violations.map(({ message }) => message)).toEqual([]);
    expect(undecided).toEqual([]);
  }
});

it("an engine that forgets records is found out", () => {
  let found = 0;
  for (let i = 0; i < 10; i++)
    found += play(new Random(seed + i), true).violations.length > 0 ? 1 : 0;
  expect(found).toBeGreaterThan(5);
});
