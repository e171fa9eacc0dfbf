/**
 * Holder: a connection of the yrmcds protocol as shards know it, and which shards those are.
 *
 * When the connection ends, these shards must release what it holds. A shard is noted by its range, in the attachment of
 * the socket, before it is sent anything: the Hub may hibernate, or be reset, at any time, and must not forget one. When the
 * connection ends, all shards are told that have hashes of these ranges by then. A shard that is told and holds nothing costs
 * a call; one that is forgotten would keep resources until it asks by itself.
 */
import { connectionHolder } from "../engine/semaphores/holder.ts";
import { NOTED_RANGES_MAX } from "../engine/sizes.ts";
import { endOf, isWithin, WHOLE, type Range } from "../wire/range.ts";

/** Lives as long as its connection is awake; the attachment keeps the rest. */
export class Holder {
  /** Format: `engine/semaphores/holder.ts`. */
  readonly bytes: Uint8Array;
  /** In the order of the circle; none touches another. */
  #ranges: readonly Range[];
  readonly #noted: (ranges: Uint32Array) => void;
  /** Exchanges that may still send frames of the connection. */
  #exchanges = 0;
  /** Resolves when none does. */
  #idle = Promise.withResolvers<void>();

  /**
   * @param connectionId 16 bytes
   * @param ranges what was noted before: `from` and `to` of each
   * @param noted is called with all ranges whenever one is new, before anything is sent to its shard
   */
  constructor(connectionId: Uint8Array, ranges: Uint32Array, noted: (ranges: Uint32Array) => void) {
    this.bytes = connectionHolder(connectionId);
    this.#ranges = Array.from({ length: ranges.length / 2 }, (_, i) => ({
      from: ranges[2 * i]!,
      to: ranges[2 * i + 1]!,
    }));
    this.#noted = noted;
    this.#idle.resolve();
  }

  /** Notes that the shard of a range is about to be sent frames of the connection. */
  note(range: Range): void {
    if (this.#ranges.some((noted) => isWithin(range, noted))) return;
    const ranges = mergeRanges([...this.#ranges, range]);
    this.#ranges = ranges.length > NOTED_RANGES_MAX ? [WHOLE] : ranges;
    this.#noted(Uint32Array.from(this.#ranges.flatMap(({ from, to }) => [from, to])));
  }

  /** The ranges that were noted, in order; those that touch are one. */
  get ranges(): readonly Range[] {
    return this.#ranges;
  }

  /** An exchange begins to send frames of the connection. */
  beginExchange(): void {
    if (this.#exchanges++ === 0) this.#idle = Promise.withResolvers<void>();
  }

  /** An exchange has sent its last frame of the connection. */
  endExchange(): void {
    if (--this.#exchanges === 0) this.#idle.resolve();
  }

  /** Resolves when no exchange sends frames of the connection any more: its end must come behind them. */
  async idle(): Promise<void> {
    await this.#idle.promise;
  }
}

/** The same hashes as ranges in order, none of which touches another. */
function mergeRanges(ranges: readonly Range[]): Range[] {
  const merged: Range[] = [];
  for (const range of ranges.toSorted((a, b) => a.from - b.from)) {
    const last = merged.at(-1);
    if (last === undefined || endOf(last) < range.from) merged.push(range);
    else if (endOf(last) < endOf(range)) merged[merged.length - 1] = { ...last, to: range.to };
  }
  return merged;
}

/**
 * The ranges of shards that a release before 0.5.0 has noted in an attachment: a bit for each. How many shards there are is
 * not known here, so one bit stands for all of them.
 */
export function rangesOfBits(bits: Uint8Array): Uint32Array {
  return Uint32Array.from(bits.some((bit) => bit !== 0) ? [WHOLE.from, WHOLE.to] : []);
}
