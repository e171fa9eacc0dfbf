/**
 * Walks: the requests about all records of a shard, in bounded steps.
 *
 * A walk takes turns: sockets and timers of this isolate wait while a step runs. A shard that splits meanwhile leaves out what
 * it has given away, so a walk that was begun before looks at the range again when it is over.
 */
import { presentMs } from "../../base/clock.ts";
import type {
  ShardCalls,
  ShardDump,
  ShardPlan,
  ShardRemoval,
  ShardRows,
} from "../../base/calls/shard.ts";
import { inTurns, turn } from "../../base/turn.ts";
import type { Engine } from "../../engine/engine.ts";
import type { Steps } from "../../engine/walk.ts";
import type { Placement } from "../../wire/batch.ts";
import type { OwnRange } from "./own-range.ts";
import type { TableOrder } from "./table-order.ts";

/** What a method of `ShardCalls` is called with. */
type Asked<Method extends keyof ShardCalls> = Parameters<ShardCalls[Method]>;

/** The shard. */
export interface WalkHost {
  readonly engine: Engine;
  readonly own: OwnRange;
  /** Reads records, and answers once what was read is durable. */
  read<T>(placement: Placement, read: () => T | Promise<T>): Promise<T>;
  /** Before records are read. */
  prepareRead(placement: Placement): Promise<void>;
}

/** Of one shard; what the methods do is described in `ShardCalls`. */
export class Walks {
  /** Changes where the shard adopts a range. */
  order: TableOrder;
  /** When a listing last asked for a part that it goes on with later, ms since the epoch; -Infinity for never. */
  listedAtMs = -Infinity;
  readonly #host: WalkHost;

  constructor(order: TableOrder, host: WalkHost) {
    this.order = order;
    this.#host = host;
  }

  async page(...asked: Asked<"page">): Promise<Uint8Array> {
    const [placement, query, after, bytesMax, recordsMax] = asked;
    const { listing } = this.#host.engine;
    return await this.#walk(placement, () => listing.page(query, after, bytesMax, recordsMax));
  }

  async scan(...asked: Asked<"scan">): Promise<Uint8Array> {
    const [placement, query, after, recordsMax, isBounded = false] = asked;
    const { scan } = this.#host.engine;
    // To find the first keys of very many records takes a walk over all of them, for each page.
    if (isBounded && !scan.isOrdered)
      return await this.#host.read(placement, () => scan.unorderedPage());
    return await this.#walk(placement, () => scan.page(query, after, recordsMax));
  }

  /** @throws ThrottrError `listing_lost` when the table has another order than the cursor's */
  async rows(...asked: Asked<"rows">): Promise<ShardRows> {
    const [placement, query, hashes, place, recordsMax] = asked;
    return await this.#host.read(placement, () => {
      this.order.assertSame(hashes);
      const rows = this.#host.engine.scan.rowsFrom(query, place, recordsMax);
      return { hashes: this.order.name, ...rows };
    });
  }

  async exportPage(...asked: Asked<"exportPage">): Promise<Uint8Array> {
    const [placement, query, after, recordsMax, bytesMax] = asked;
    const { exporting } = this.#host.engine;
    return await this.#walk(placement, () => exporting.page(query, after, recordsMax, bytesMax));
  }

  async exportLeases(...asked: Asked<"exportLeases">): Promise<Uint8Array> {
    const [placement, query, after, leasesMax, bytesMax] = asked;
    const { leasePages } = this.#host.engine;
    return await this.#walk(placement, () => leasePages.page(query, after, leasesMax, bytesMax));
  }

  async remove(...asked: Asked<"remove">): Promise<ShardRemoval> {
    const [placement, query, hashes, cursor] = asked;
    // A removal of millions of records is one call after the other: others have a turn between two.
    if (cursor > 0) await turn();
    return await this.#host.read(placement, () => {
      const from = this.order.cursorIn(hashes, cursor);
      return { hashes: this.order.name, ...this.#host.engine.remove(query, from) };
    });
  }

  async plan(...asked: Asked<"plan">): Promise<ShardPlan & { cursor: number | null }> {
    const [placement, hashes, query, cursor] = asked;
    if (cursor > 0) await turn();
    const { asked: present, hasGiven } = this.#since(placement, cursor > 0);
    await this.#host.prepareRead(present);
    this.#host.own.assertStill(present);
    this.order.assertSame(hashes);
    const plan = this.#host.engine.listing.plan({ ...query, hasGiven }, cursor);
    // No flush: a plan says where fragments begin, and none of what is in them.
    return { hashes: this.order.name, ...plan };
  }

  /** @throws ThrottrError `listing_lost` when the table has another order than the plan was made in */
  async fragments(...asked: Asked<"fragments">): Promise<Uint8Array> {
    const [placement, hashes, query, parts, to, firstIndex] = asked;
    const { listing, ownership } = this.#host.engine;
    const { asked: present, hasGiven } = this.#since(placement, true);
    return await this.#host.read(present, async () => {
      this.order.assertSame(hashes);
      // The shard may split while this goes on.
      const all = { ...query, hasGiven: hasGiven || !ownership.isForgetting };
      const answer = await inTurns(listing.fragments(all, parts, to, firstIndex));
      this.#host.own.assertStill(this.#since(placement, true).asked);
      return answer;
    });
  }

  /**
   * Begins again where the object has restarted, as the order of its table has changed: clients may see a name twice.
   */
  async dump(...asked: Asked<"dump">): Promise<ShardDump> {
    const [placement, hashes, cursor, bytesMax] = asked;
    const { asked: present, hasGiven } = this.#since(placement, cursor > 0);
    return await this.#host.read(present, () => {
      const from = this.order.cursorIn(hashes, cursor);
      const pages = this.#host.engine.semaphorePages;
      const page = pages.dump(from, bytesMax, presentMs(), hasGiven);
      return { hashes: this.order.name, ...page };
    });
  }

  /**
   * What has begun before the last split of the shard goes on over all that it had then, as long as it still has it.
   *
   * @returns the placement that is in force, and whether records count that were given away
   */
  #since(asked: Placement, hasBegun: boolean): { asked: Placement; hasGiven: boolean } {
    const { own } = this.#host;
    this.listedAtMs = presentMs();
    if (!hasBegun || !own.wasOf(asked)) return { asked, hasGiven: false };
    return { asked: { ...asked, range: own.ranges.range }, hasGiven: true };
  }

  /** A walk of several steps. */
  async #walk<T>(placement: Placement, begin: () => Steps<T>): Promise<T> {
    return await this.#host.read(placement, async () => {
      const answer = await inTurns(begin());
      this.#host.own.assertStill(placement);
      return answer;
    });
  }
}
