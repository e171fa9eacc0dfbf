/** An engine with a disk, on which tests of reservations make calls at a time that they move. */
import type { Engine } from "../../../src/engine/engine.ts";
import { settle, type Operation } from "../../../src/wire/edge/operation.ts";
import * as operations from "../../../src/wire/edge/operations.ts";
import type { LimitResult, LimitStrategy } from "../../../src/wire/edge/limit.ts";
import type { ReserveResult, SettleResult } from "../../../src/wire/edge/operations.ts";
import { CommandDisk } from "../commands/disk.ts";
import { edgeBatch, partsOf, uuidOfNumber } from "../frames/index.ts";

export const START_MS = 1_700_000_040_000;

export class ReservingShard {
  nowMs = START_MS;
  engine: Engine;
  readonly #disk: CommandDisk;
  readonly strategy: LimitStrategy;
  #ids = 0;

  constructor(strategy: LimitStrategy, bytesMax = 8 << 20) {
    this.strategy = strategy;
    this.#disk = new CommandDisk({ rowBytesMax: 1_900_000, answerTtlMs: 60_000, bytesMax });
    this.engine = this.#disk.start(1, this.nowMs);
  }

  call<Result>(operation: Operation<Result>): Result {
    const answer = this.engine.apply(edgeBatch([operation.frame]), this.nowMs);
    const [settled] = settle([operation], partsOf(answer)[0]!.replies);
    if (!settled!.ok) throw settled!.error;
    return settled!.value;
  }

  get #limit() {
    return { name: "api", key: "ada", strategy: this.strategy };
  }

  newId(): string {
    return uuidOfNumber(++this.#ids);
  }

  limit(cost = 1): LimitResult {
    return this.call(operations.limit({ ...this.#limit, cost }));
  }

  refund(cost: number): LimitResult {
    return this.call(operations.refund({ ...this.#limit, cost }));
  }

  peek(): LimitResult {
    return this.call(operations.peek(this.#limit));
  }

  reset(): boolean {
    return this.call(operations.reset(this.#limit));
  }

  reserve(cost: number, ttlMs = 60_000, id = this.newId()): ReserveResult {
    return this.call(operations.reserve({ ...this.#limit, cost, ttlMs, id }));
  }

  settle(id: string | null, cost: number): SettleResult {
    return this.call(operations.settle({ ...this.#limit, id: id!, cost }));
  }

  get stateKey(): string {
    return `api:ada${this.strategy.strategy === "composite" ? ":c" : ""}`;
  }

  /** The stored state and its TTL; null without any. */
  state(): { readonly text: string; readonly ttlMs: number } | null {
    const record = this.call(operations.get(this.stateKey));
    if (record === null) return null;
    return { text: new TextDecoder().decode(record.value), ttlMs: record.ttlMs };
  }

  commit(): void {
    this.#disk.commit(this.engine);
  }

  /** The engine starts again with all that it has done. */
  restart(): void {
    this.commit();
    this.crash();
  }

  /** All that was committed goes into a snapshot. */
  snapshot(): void {
    this.commit();
    do this.#disk.snapshotStep(this.engine);
    while (this.#disk.isCutting);
  }

  /** What a call would be answered later: an engine is asked that starts from what is stored, and nothing is kept of it. */
  callLater<Result>(afterMs: number, operation: Operation<Result>): Result {
    this.commit();
    const { engine, nowMs } = this;
    this.nowMs += afterMs;
    this.crash();
    try {
      return this.call(operation);
    } finally {
      this.engine = engine;
      this.nowMs = nowMs;
    }
  }

  /** The engine starts again with what was committed. */
  crash(): void {
    this.engine = this.#disk.start(1, this.nowMs);
  }
}
