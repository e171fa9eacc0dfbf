/**
 * Holder: a connection of the yrmcds protocol as shards know it, and which shards those are.
 *
 * When the connection ends, these shards must release what it holds. A shard is noted, in the attachment of the socket,
 * before it is sent anything: the Hub may hibernate, or be reset, at any time, and must not forget one. A shard that is
 * noted and holds nothing costs a call; one that is forgotten would keep resources until it asks by itself.
 */
import { connectionHolder } from "../engine/semaphores/holder.ts";

/** Lives as long as its connection is awake; the attachment keeps the rest. */
export class Holder {
  /** Format: `engine/semaphores/holder.ts`. */
  readonly bytes: Uint8Array;
  /** A bit for each shard, the lowest of a byte first. */
  #shards: Uint8Array;
  readonly #noted: (shards: Uint8Array) => void;

  /**
   * @param connectionId 16 bytes
   * @param shards what was noted before
   * @param noted is called with every shard that is new, before anything is sent to it
   */
  constructor(connectionId: Uint8Array, shards: Uint8Array, noted: (shards: Uint8Array) => void) {
    this.bytes = connectionHolder(connectionId);
    this.#shards = shards;
    this.#noted = noted;
  }

  /** Notes that a shard is about to be sent frames of the connection. */
  note(shard: number): void {
    const at = shard >>> 3;
    const bit = 1 << (shard & 7);
    if (((this.#shards[at] ?? 0) & bit) !== 0) return;
    const shards = new Uint8Array(Math.max(this.#shards.length, at + 1));
    shards.set(this.#shards);
    shards[at]! |= bit;
    this.#shards = shards;
    this.#noted(shards);
  }

  /** The shards that were noted, in order. */
  shards(): number[] {
    return Array.from(this.#shards).flatMap((bits, at) =>
      [0, 1, 2, 3, 4, 5, 6, 7].filter((i) => (bits & (1 << i)) !== 0).map((i) => 8 * at + i),
    );
  }
}
