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
import { check, mergeScans, queryOf, readScan, writeMerged } from "./scans.ts";
import type { ShardGroup } from "./shard-group.ts";
import { SEMAPHORE_LIST_PAGE_BYTES } from "../engine/sizes.ts";

/**
 * Writes the answer to a SEMAPHORES: a page of semaphores of all shards, in the order of their names.
 *
 * @throws Refusal
 */
export async function semaphores(
  shards: ShardGroup,
  frame: Uint8Array,
  access: Access,
  out: ByteWriter,
): Promise<void> {
  const { prefix, limit, after } = readScan(frame, SEMAPHORE_NAME_BYTES_MAX);
  const query = queryOf(prefix, Keyspace.semaphores, access);
  const merge = await mergeScans(shards, query, limit, after);
  await writeMerged(
    merge,
    out,
    limit,
    SEMAPHORE_LIST_PAGE_BYTES,
    ({ bytes, entryAt, keyAt, keyLength }) => {
      out.copy(bytes, entryAt, keyAt + keyLength);
    },
  );
}

/**
 * Writes the answer to a HOLDERS, whose name the access allows: a page of the holders of one semaphore.
 *
 * @throws Refusal
 */
export async function holders(
  shards: ShardGroup,
  frame: Uint8Array,
  _: Access,
  out: ByteWriter,
): Promise<void> {
  const { prefix: name, limit, after } = readScan(frame, HOLDER_CURSOR_BYTES);
  check(name.length > 0, "name", "1 to 255 bytes", 0);
  const isHolder = after === null || after.length === HOLDER_CURSOR_BYTES;
  check(isHolder, "after", `a holder of ${HOLDER_CURSOR_BYTES} bytes`, after?.length ?? 0);
  // The name was checked as a whole: a prefix of the token's would be compared with holders, which have none.
  const query = { keyspace: Keyspace.holdings, prefix: name, prefixes: [] };
  const page = new PageReader(
    await shards.askOwner(Keyspace.semaphores, name, async ({ placement, stub }) => {
      return await stub().scan(placement, query, after, limit);
    }),
  );
  out.u8(page.isLast ? 1 : 0);
  while (page.next()) out.copy(page.bytes, page.rowAt, page.keyAt + page.keyLength);
}
