/**
 * SEMAPHORES and HOLDERS: which semaphores there are, over all shards, and who holds one of them.
 *
 * Both are pages in the order of names or holders. HOLDERS concerns one shard, and is here all the same: it looks at all
 * that the shard holds, so it takes a run of its own.
 */
import type { ByteWriter } from "../wire/bytes.ts";
import { HOLDER_CURSOR_BYTES, SEMAPHORE_NAME_BYTES_MAX } from "../wire/edge/command.ts";
import { Keyspace } from "../wire/keyspace.ts";
import { PageReader } from "../wire/page.ts";
import type { Access } from "../base/access.ts";
import { writeReply, mergeScans, queryOf, readScan, writeMerged, type ScanParts } from "./scans.ts";
import type { ShardGroup } from "./shard-group.ts";
import { Refusal } from "../engine/refusal.ts";

/** At which a page of semaphores ends, for names may have 65,535 bytes; the one that crosses it is on it. */
const PAGE_BYTES = 1 << 20;

export class SemaphoreScans {
  readonly #shards: ShardGroup;

  constructor(shards: ShardGroup) {
    this.#shards = shards;
  }

  /** Answers a SEMAPHORES. */
  async semaphores(frame: Uint8Array, access: Access): Promise<Uint8Array> {
    return await writeReply(async (out) => {
      await this.#semaphores(readScan(frame, SEMAPHORE_NAME_BYTES_MAX), access, out);
    });
  }

  /** Answers a HOLDERS, whose name the access allows. */
  async holders(frame: Uint8Array): Promise<Uint8Array> {
    return await writeReply(
      async (out) => await this.#holders(readScan(frame, HOLDER_CURSOR_BYTES), out),
    );
  }

  async #semaphores(
    { prefix, limit, after }: ScanParts,
    access: Access,
    out: ByteWriter,
  ): Promise<void> {
    const query = queryOf(prefix, Keyspace.semaphores, access);
    const merge = mergeScans(this.#shards, query, limit, after);
    await merge.open();
    await writeMerged(merge, out, limit, PAGE_BYTES, ({ bytes, entryAt, keyAt, keyLength }) => {
      out.copy(bytes, entryAt, keyAt + keyLength);
    });
  }

  async #holders({ prefix: name, limit, after }: ScanParts, out: ByteWriter): Promise<void> {
    if (name.length === 0) throw new Refusal("name_invalid: expected 1 to 255 bytes, got 0");
    if (after !== null && after.length !== HOLDER_CURSOR_BYTES) {
      throw new Refusal(
        `after_invalid: expected a holder of ${HOLDER_CURSOR_BYTES} bytes, got ${after.length}`,
      );
    }
    const shard = this.#shards.stub(this.#shards.indexOf(Keyspace.semaphores, name));
    const query = { keyspace: Keyspace.holdings, prefix: name, prefixes: [] };
    const page = new PageReader(await shard.scan(this.#shards.placement, query, after, limit));
    out.u8(page.isLast ? 1 : 0);
    while (page.next()) out.copy(page.bytes, page.rowAt, page.keyAt + page.keyLength);
  }
}
