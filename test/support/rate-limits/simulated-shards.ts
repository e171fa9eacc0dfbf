/**
 * Shards in one process, and the door of LIMIT_ALL before them. Messages take time, come late, or are lost; shards restart
 * from their disks. Time is that of the fake timers of a test.
 */
import { chargeTogether, type ChargingShards } from "../../../src/dispatch/charge-together.ts";
import { InitialShards } from "../shards.ts";
import type { Engine } from "../../../src/engine/engine.ts";
import { readEntries } from "../../../src/engine/limit-all-entries.ts";
import { hexOf } from "../../../src/wire/bytes.ts";
import type { LimitAllEntry, LimitAllResult } from "../../../src/wire/edge/limit-all.ts";
import { settle, type Operation } from "../../../src/wire/edge/operation.ts";
import { Keyspace } from "../../../src/wire/keyspace.ts";
import { STATUS_SUCCESS } from "../../../src/wire/throttr/requests.ts";
import { Disk } from "../engine/disk.ts";
import { bytesOf, concat, edgeBatch, partsOf, u32 } from "../frames/index.ts";
import { together } from "./limit-all.ts";

const BYTES_MAX = 1 << 22;
const ROW_BYTES_MAX = 1 << 20;

export type Method = "limitAll" | "cancelLimits";

/** What becomes of a message to a shard. */
export interface Fate {
  /** How long it is on its way; 0 unless given. */
  readonly delayMs?: number;
  /** How long its answer is on its way; 0 unless given. */
  readonly replyMs?: number;
  /** `lost`: it never arrives. `unanswered`: it does, and its answer never does. Both fail at the caller. */
  readonly end?: "lost" | "unanswered" | Error;
}

/** A message that was sent. */
export interface Sent {
  readonly method: Method;
  readonly shard: number;
}

/** Faults that are planted to see that a test notices them. */
export type Fault =
  /** A cancel gives the cost back without knowing the charge. */
  | "refunds"
  /** A cancelled charge that comes late is charged. */
  | "forgetsCancels"
  /** A cancel gives nothing back. */
  | "keepsCharges";

export class SimulatedShards implements ChargingShards {
  fault: Fault | null = null;
  /** What becomes of messages from now on. */
  fateOf: (sent: Sent) => Fate = () => ({});
  /** How a shard charges and cancels. Tests plant faults here. */
  charge = (engine: Engine, body: Uint8Array, id: string | null): Uint8Array =>
    engine.limitAll(body, id, Date.now());
  cancel = (engine: Engine, body: Uint8Array, id: string): unknown =>
    engine.cancelLimits(body, id, Date.now());
  readonly sent: Sent[] = [];
  readonly map: InitialShards;
  readonly #shards: SimulatedShard[];
  #ids = 0;

  constructor(count: number) {
    this.map = new InitialShards("default", count, "");
    this.#shards = Array.from({ length: count }, () => new SimulatedShard());
  }

  /** A call by a door of its own. */
  async ask(requests: readonly LimitAllEntry[]): Promise<LimitAllResult> {
    const { operation, body } = together(...requests);
    const decisions = concat(await chargeTogether(this, readEntries(body), () => this.#newId()));
    return operation.read(
      concat([Uint8Array.of(STATUS_SUCCESS), u32(decisions.length), decisions]),
    );
  }

  /** Executes a command at a shard, at once. */
  callOne<Result>(shard: number, operation: Operation<Result>): Result {
    const answer = this.#shards[shard]!.engine.apply(edgeBatch([operation.frame]), Date.now());
    const [settled] = settle([operation], partsOf(answer)[0]!.replies);
    if (!settled!.ok) throw settled!.error;
    return settled!.value;
  }

  shardOf(keyspace: number, bytes: Uint8Array, at: number, length: number): number {
    return this.map.shardOf(keyspace, bytes, at, length);
  }

  nameOf(shard: number): string {
    return `${this.map.namespace}/${shard}`;
  }

  learn(_shard: number): Promise<void> {
    throw new Error("these shards never split");
  }

  /** The shard of a limit's state. */
  shardOfKey(key: string): number {
    const bytes = bytesOf(key);
    return this.map.shardOf(Keyspace.throttr, bytes, 0, bytes.length);
  }

  /** A name of a key `limit:name` that is in a shard, the `i`th of those. */
  nameIn(shard: number, limit: string, i = 0): string {
    for (let n = 0; ; n++)
      if (this.shardOfKey(`${limit}:${n}`) === shard && i-- === 0) return `${n}`;
  }

  restart(shard: number): void {
    this.#shards[shard]!.restart();
  }

  /** Rows that all shards have written. */
  get rows(): number {
    return this.#shards.reduce((sum, { rows }) => sum + rows, 0);
  }

  async limitAll(shard: number, body: Uint8Array, id: Uint8Array | null): Promise<Uint8Array> {
    return await this.#send({ method: "limitAll", shard }, (engine) =>
      this.charge(engine, body, id === null ? null : hexOf(id)),
    );
  }

  async cancelLimits(shard: number, body: Uint8Array, id: Uint8Array): Promise<void> {
    await this.#send({ method: "cancelLimits", shard }, (engine) =>
      this.cancel(engine, body, hexOf(id)),
    );
  }

  async #send<Result>(sent: Sent, apply: (engine: Engine) => Result): Promise<Result> {
    this.sent.push(sent);
    const { delayMs = 0, replyMs = 0, end } = this.fateOf(sent);
    await wait(delayMs);
    if (end instanceof Error) throw end;
    if (end === "lost") throw new Error("Network connection lost.");
    const result = this.#shards[sent.shard]!.write(apply);
    await wait(replyMs);
    if (end === "unanswered") throw new Error("Network connection lost.");
    return result;
  }

  #newId(): Uint8Array {
    const id = new Uint8Array(16);
    new DataView(id.buffer).setUint32(0, ++this.#ids);
    return id;
  }
}

/** An engine with its disk. */
class SimulatedShard {
  readonly #disk = new Disk(ROW_BYTES_MAX);
  #starts = 0;
  engine = this.#start();
  rows = 0;

  write<Result>(apply: (engine: Engine) => Result): Result {
    const result = apply(this.engine);
    if (this.engine.isDirty) this.rows++;
    this.#disk.commit(this.engine);
    return result;
  }

  restart(): void {
    this.engine = this.#start();
  }

  #start(): Engine {
    const hashKey = { low: 1, high: this.#starts++ };
    return this.#disk.load({ hashKey, bytesMax: BYTES_MAX, isCounting: true }, Date.now());
  }
}

async function wait(ms: number): Promise<void> {
  if (ms > 0) await new Promise((resolve) => setTimeout(resolve, ms));
}
