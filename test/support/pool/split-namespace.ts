/** Shards as engines alone, which split when a test says so: for what walks all shards of a namespace. */
import { OPEN_ACCESS } from "../../../src/base/access.ts";
import type { ShardCalls } from "../../../src/base/calls/shard.ts";
import { type scan, writeReply } from "../../../src/dispatch/scans.ts";
import { ShardGroup } from "../../../src/dispatch/shard-group.ts";
import { ShardMap } from "../../../src/dispatch/shard-map.ts";
import type { Engine } from "../../../src/engine/engine.ts";
import type { ScanQuery } from "../../../src/engine/scan-query.ts";
import type { LeaseQuery } from "../../../src/engine/semaphores/lease-pages.ts";
import type { TablePlace, TableQuery } from "../../../src/engine/table-page.ts";
import type { Placement } from "../../../src/wire/batch.ts";
import { ThrottrError } from "../../../src/wire/edge/error.ts";
import type { ShardRanges } from "../../../src/wire/moved.ts";
import { initialRange, isIn, isSameRange, type Range } from "../../../src/wire/range.ts";
import { finish } from "../engine/steps.ts";
import { bytesOf, commandReplies } from "../frames/index.ts";

/** One of the shards. */
export interface SplitShard {
  readonly range: Range;
  readonly engine: Engine;
}

/** Shards that split when a test calls `split`, and refuse what is for another range. */
export class SplitNamespace {
  readonly map = new ShardMap("default", 1, "");
  readonly group: ShardGroup;
  /** What happens before each call of a shard: another one may split it. */
  before: () => void = () => {};
  calls = 0;
  /** Called with the number of records, and of their bytes, that a shard is asked to export. */
  onExport: (recordsMax: number, bytesMax: number) => void = () => {};
  /** The most calls for a page of an export that were under way at a time. */
  exportsAtOnce = 0;
  #exports = 0;
  /** Called with the number of rows in the order of its table that a shard is asked for. */
  onRows: (recordsMax: number) => void = () => {};
  #shards: SplitShard[];
  readonly #initial: number;
  readonly #engineOf: (isOwn: (keyspace: number, key: string) => boolean) => Engine;

  /** @param engineOf makes the engine of a shard, of what is its own */
  constructor(
    initial: number,
    engineOf: (isOwn: (keyspace: number, key: string) => boolean) => Engine,
  ) {
    this.#initial = initial;
    this.#engineOf = engineOf;
    this.#shards = Array.from({ length: initial }, (_, index) =>
      this.#shardOf(initialRange(index, initial)),
    );
    this.group = new ShardGroup(
      this.map,
      (from) => this.#stub(from) as unknown as DurableObjectStub<ShardCalls>,
    );
  }

  get count(): number {
    return this.#shards.length;
  }

  get engines(): readonly Engine[] {
    return this.#shards.map(({ engine }) => engine);
  }

  /** The engine that owns a key. */
  engineOf(keyspace: number, key: string): Engine {
    return this.#shards.find(({ range }) => isIn(range, this.#placeOf(keyspace, key)))!.engine;
  }

  split(at: number): void {
    const shard = this.#shards.find(({ range }) => isIn(range, at))!;
    if (shard.range.from === at) return;
    const parts = [
      { from: shard.range.from, to: at },
      { from: at, to: shard.range.to },
    ];
    this.#shards = this.#shards
      .filter((each) => each !== shard)
      .concat(parts.map((range) => this.#shardOf(range)));
  }

  async answer(write: typeof scan, frame: Uint8Array): Promise<Uint8Array> {
    const reply = await writeReply((out) => write(this.group, frame, OPEN_ACCESS, out));
    const { body, code } = commandReplies(reply)[0]!;
    if (code !== "") throw new Error(code);
    return body;
  }

  #shardOf(range: Range): SplitShard {
    return {
      range,
      engine: this.#engineOf((keyspace, key) => isIn(range, this.#placeOf(keyspace, key))),
    };
  }

  #placeOf(keyspace: number, key: string): number {
    const bytes = bytesOf(key);
    return this.map.hashOf(keyspace, bytes, 0, bytes.length);
  }

  #stub(from: number) {
    const owned = async ({ range }: Placement): Promise<SplitShard> => {
      await Promise.resolve();
      this.calls++;
      this.before();
      const shard = this.#shards.find((each) => each.range.from === from)!;
      if (isSameRange(shard.range, range!)) return shard;
      throw new ThrottrError("shard_moved", "another range");
    };
    return {
      ranges: async (): Promise<ShardRanges> => {
        await Promise.resolve();
        const { range } = this.#shards.find((each) => each.range.from === from)!;
        // What the others have given away is theirs to say.
        const begins = this.#shards.map((each) => each.range.from);
        return { shards: this.#initial, range, begins: begins.toSorted((a, b) => a - b) };
      },
      scan: async (
        placement: Placement,
        query: ScanQuery,
        after: Uint8Array | null,
        max: number,
        isBounded = false,
      ) => {
        const { scan: own } = (await owned(placement)).engine;
        return isBounded && !own.isOrdered
          ? own.unorderedPage()
          : finish(own.page(query, after, max));
      },
      rows: async (
        placement: Placement,
        query: TableQuery,
        _: unknown,
        place: TablePlace,
        max: number,
      ) => {
        const { engine } = await owned(placement);
        this.onRows(max);
        return { hashes: "one", ...engine.scan.rowsFrom(query, place, max) };
      },
      exportPage: async (
        placement: Placement,
        query: ScanQuery,
        after: Uint8Array | null,
        max: number,
        bytes: number,
      ) => {
        this.exportsAtOnce = Math.max(this.exportsAtOnce, ++this.#exports);
        try {
          const { engine } = await owned(placement);
          this.onExport(max, bytes);
          return finish(engine.exporting.page(query, after, max, bytes));
        } finally {
          this.#exports--;
        }
      },
      exportLeases: async (
        placement: Placement,
        query: LeaseQuery,
        after: Uint8Array | null,
        max: number,
        bytes: number,
      ) => finish((await owned(placement)).engine.leasePages.page(query, after, max, bytes)),
      remove: async (placement: Placement, query: ScanQuery, _: unknown, cursor: number) => {
        const { engine } = await owned(placement);
        return { hashes: "one", ...engine.scan.remove(query, cursor) };
      },
    };
  }
}
