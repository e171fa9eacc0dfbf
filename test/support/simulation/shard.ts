/**
 * A shard: a real engine behind a disk that takes a while. Replies leave when the rows of their message are on the disk;
 * what is not there when the shard restarts has never happened.
 */
import { Engine } from "../../../src/engine/engine.ts";
import { Command } from "../../../src/wire/edge/command.ts";
import { settle, type Operation } from "../../../src/wire/edge/operation.ts";
import * as operations from "../../../src/wire/edge/operations.ts";
import { concat, edgeBatch, partsOf } from "../frames/index.ts";
import { hearReplies, type HeardFrame } from "./frames.ts";
import type { MachineClock } from "./clocks.ts";
import type { Effects, History, KeyEvent } from "./history.ts";
import type { VirtualTime } from "./virtual-time.ts";

const HASH_KEY = { low: 1, high: 2 };
const BYTES_MAX = 1 << 20;
const ROW_BYTES_MAX = 1 << 16;
const SALT_END = 2 ** 20;
const REPLACING: readonly number[] = [Command.purge, Command.set];

/** A message, and who waits for its replies. */
export interface ShardCall {
  readonly sender: number;
  readonly frames: readonly HeardFrame[];
  /** Replies leave the shard; it is told what they say has happened. */
  answer(replies: Uint8Array, events: readonly KeyEvent[]): void;
  /** The shard has restarted before it could reply. */
  fail(): void;
}

interface Waiting {
  readonly call: ShardCall;
  readonly effects: Effects;
}

export class SimulatedShard {
  /** A fault: replies don't wait for the disk. */
  isRelaxed = false;
  readonly clock: MachineClock;
  readonly #time: VirtualTime;
  readonly #random: () => number;
  readonly #history: History;
  readonly #needsStates: boolean;
  readonly #diskMs: number;
  readonly #onCall: () => void;
  #engine: Engine;
  /** With the moments at which they are on the disk. */
  #rows: { readonly atMs: number; readonly row: Uint8Array }[] = [];
  /** When the flush that is under way ends, and the one that follows it: 0 for none. */
  #flushEndMs = 0;
  #nextFlushEndMs = 0;
  readonly #waiting = new Set<Waiting>();
  calls = 0;

  /** @param parts.diskMs the longest time that a commit takes */
  constructor(parts: {
    readonly time: VirtualTime;
    readonly random: () => number;
    readonly clock: MachineClock;
    readonly history: History;
    readonly needsStates: boolean;
    readonly diskMs: number;
    readonly onCall?: () => void;
  }) {
    this.#time = parts.time;
    this.#random = parts.random;
    this.clock = parts.clock;
    this.#history = parts.history;
    this.#needsStates = parts.needsStates;
    this.#diskMs = parts.diskMs;
    this.#onCall = parts.onCall ?? (() => {});
    this.#engine = this.#start();
  }

  /** Applies a message, and answers it when the disk has what it changed. */
  receive(call: ShardCall): void {
    this.calls++;
    this.#onCall();
    const effects: Effects = { made: [], shown: [] };
    // States are looked at after each batch: what replaces them needs one of its own.
    const isWhole = call.frames.every(({ type }) => !REPLACING.includes(type));
    const batches = isWhole ? [call.frames] : call.frames.map((frame) => [frame]);
    const replies = concat(batches.map((frames) => this.#execute(call.sender, frames, effects)));
    const waiting = { call, effects };
    this.#waiting.add(waiting);
    const atMs = this.#commit();
    this.#time.at(this.isRelaxed ? this.#time.nowMs : atMs, () => {
      if (this.#waiting.delete(waiting)) call.answer(replies, effects.shown);
    });
  }

  #execute(sender: number, frames: readonly HeardFrame[], effects: Effects): Uint8Array {
    const { type, key } = frames[0]!;
    const replaced = REPLACING.includes(type) ? this.stateOf(key) : null;
    const replies = this.#apply(concat(frames.map(({ bytes }) => bytes)));
    const { made, shown } = this.#history.noteApplied({
      sender,
      frames,
      replies: hearReplies(frames, replies),
      trueMs: this.#time.nowMs,
      atNs: BigInt(this.#engine.nowMs) * 1_000_000n,
      states: this.#statesOf(frames),
      replaced,
    });
    effects.made.push(...made);
    effects.shown.push(...shown);
    return replies;
  }

  /** The text under a key. */
  stateOf(key: string): string | null {
    const record = this.#call(operations.get(key));
    return record === null ? null : Buffer.from(record.value).toString("latin1");
  }

  get nowNs(): bigint {
    this.#engine.advance(this.clock.wallMs);
    return BigInt(this.#engine.nowMs) * 1_000_000n;
  }

  /** The process ends, and another one starts from what is on the disk, perhaps on another machine. */
  restart(): void {
    const lost = [...this.#waiting];
    this.#waiting.clear();
    this.#history.noteRestart();
    for (const { call, effects } of lost) {
      for (const event of effects.made) event.isUndone = true;
      call.fail();
    }
    this.#rows = this.#rows.filter(({ atMs }) => atMs <= this.#time.nowMs);
    this.#flushEndMs = 0;
    this.#nextFlushEndMs = 0;
    this.#engine = this.#start();
  }

  #start(): Engine {
    const drawSalt = Math.floor(this.#random() * SALT_END);
    const engine = new Engine({
      hashKey: HASH_KEY,
      bytesMax: BYTES_MAX,
      isCounting: false,
      drawSalt,
    });
    engine.advance(this.clock.wallMs);
    for (const { row } of this.#rows) engine.restore(row);
    return engine;
  }

  #apply(message: Uint8Array): Uint8Array {
    const answer = this.#engine.apply(edgeBatch([message]), this.clock.wallMs);
    return partsOf(answer)[0]!.replies.slice();
  }

  #call<Result>(operation: Operation<Result>): Result {
    const [settled] = settle([operation], this.#apply(operation.frame));
    if (!settled!.ok) throw settled!.error;
    return settled!.value;
  }

  /** All charges of a message are of one moment, and so of the same windows. */
  #statesOf(frames: readonly HeardFrame[]): ReadonlyMap<string, string | null> {
    const keys = this.#needsStates ? new Set(frames.map(({ key }) => key)) : [];
    return new Map([...keys].map((key) => [key, this.stateOf(key)]));
  }

  /** Returns when everything that has changed is on the disk. What changes while it is written waits for the next flush. */
  #commit(): number {
    const { nowMs } = this.#time;
    if (nowMs >= this.#flushEndMs && this.#nextFlushEndMs > 0) {
      this.#flushEndMs = this.#nextFlushEndMs;
      this.#nextFlushEndMs = 0;
    }
    if (!this.#engine.isDirty) return Math.max(nowMs, this.#flushEndMs, this.#nextFlushEndMs);
    const atMs = this.#flushEnd(nowMs);
    for (const row of this.#engine.takeCommit(ROW_BYTES_MAX)) {
      this.#rows.push({ atMs, row: row.slice() });
    }
    return atMs;
  }

  #flushEnd(nowMs: number): number {
    const durationMs = this.#random() * this.#diskMs;
    if (nowMs >= this.#flushEndMs) return (this.#flushEndMs = nowMs + durationMs);
    if (this.#nextFlushEndMs === 0) this.#nextFlushEndMs = this.#flushEndMs + durationMs;
    return this.#nextFlushEndMs;
  }
}
