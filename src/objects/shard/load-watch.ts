/**
 * LoadWatch: counts the calls to a shard, and says where to split it when they have been too many for half a minute.
 *
 * One call of 16 is looked at: its frames are hashed once more, as the door has hashed them. The rest costs a few additions.
 */
import { readEntries } from "../../engine/limit-all-entries.ts";
import { LoadSample } from "../../engine/load-sample.ts";
import { batchHeaderBytes, SECTION_HEADER_BYTES, type Placement } from "../../wire/batch.ts";
import type { KeyHasher } from "../../wire/framing.ts";
import { Keyspace } from "../../wire/keyspace.ts";
import { anyProtocolByCode, framingOf } from "../../wire/protocols.ts";
import type { Range } from "../../wire/range.ts";
import { LoadPace } from "./load-pace.ts";

/** The shard. */
interface WatchedShard {
  /** `SPLIT_CALLS_PER_SECOND`; 0 for never. */
  readonly callsMax: number;
  /** That doors choose shards by. */
  readonly hasher: KeyHasher;
  /** What the shard owns. */
  range(): Range;
  /** Splits the shard, if that is possible. @returns whether it does */
  split(at: number): boolean;
}

/** Of one instance of a shard. */
export class LoadWatch {
  readonly #shard: WatchedShard;
  readonly #sample = new LoadSample();
  readonly #pace = new LoadPace();
  #from = 0;
  #to = 0;

  constructor(shard: WatchedShard) {
    this.#shard = shard;
  }

  callsPerSecond(nowMs: number): number {
    return this.#sample.callsPerSecond(nowMs);
  }

  /** There have been too many calls for half a minute, and still are. */
  isHot(nowMs: number): boolean {
    const { callsMax } = this.#shard;
    return callsMax > 0 && this.#sample.isHot(callsMax, nowMs);
  }

  /** A batch is applied. */
  note(placement: Placement, batch: Uint8Array, nowMs: number): void {
    if (this.#isLookedAt(nowMs)) this.#look(this.#placesIn(placement, batch), nowMs);
  }

  /** Limits are charged together: the body of a LIMIT_ALL. */
  noteLimits(body: Uint8Array, nowMs: number): void {
    if (!this.#isLookedAt(nowMs)) return;
    const { hasher } = this.#shard;
    const places = readEntries(body).map(({ bytes, keyAt, keyBytes }) =>
      hasher.hashOf(Keyspace.throttr, bytes, keyAt, keyBytes),
    );
    this.#look(places, nowMs);
  }

  #isLookedAt(nowMs: number): boolean {
    return this.#sample.noteCall(nowMs) && this.#shard.callsMax > 0;
  }

  #split(range: Range, nowMs: number): void {
    const calls = this.callsPerSecond(nowMs);
    if (!this.#pace.mayTry(nowMs, calls)) return;
    const middle = this.#sample.middle(range);
    if (middle !== null && this.#shard.split(middle)) this.#pace.noteSplit(nowMs, calls);
  }

  /** Adds the places of the keys of a call to the sample: the lowest, the highest, and one of all. */
  #look(places: Iterable<number>, nowMs: number): void {
    const { from, to } = this.#shard.range();
    if (from !== this.#from || to !== this.#to) this.#sample.clear();
    this.#from = from;
    this.#to = to;
    let [lowest, highest, one, keys] = [Infinity, -1, 0, 0];
    for (const hash of places) {
      lowest = Math.min(lowest, hash);
      highest = Math.max(highest, hash);
      // Any of them, and the same one in each run of a test: which numbers divide a hash says nothing about its key.
      if (hash % ++keys === 0) one = hash;
    }
    if (keys > 0) this.#sample.add(one, lowest, highest);
    if (this.isHot(nowMs)) this.#split({ from, to }, nowMs);
  }

  *#placesIn(placement: Placement, batch: Uint8Array): Generator<number> {
    const view = new DataView(batch.buffer, batch.byteOffset, batch.byteLength);
    for (let at = batchHeaderBytes(placement); at < batch.length;) {
      const from = at + SECTION_HEADER_BYTES + view.getUint16(at + 2, true);
      const end = at + SECTION_HEADER_BYTES + view.getUint32(at + 8, true);
      const framing = framingOf(anyProtocolByCode(batch[at]!)!);
      for (let frameAt = from; frameAt < end; frameAt = framing.frameEnd(batch, frameAt)) {
        yield framing.hashOf(this.#shard.hasher, batch, frameAt);
      }
      at = end;
    }
  }
}
