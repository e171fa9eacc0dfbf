/** Pages over a binding: their rows become objects, which have to fit the call together. */
import { env } from "cloudflare:workers";
import { describe, expect, it } from "vitest";
import { OPEN_ACCESS } from "../../src/base/access.ts";
import type { Environment } from "../../src/base/environment.ts";
import { EXPORT_PAGE_HEADER_BYTES } from "../../src/engine/export.ts";
import { RPC_REPLY_BYTES_MAX } from "../../src/engine/sizes.ts";
import { ByteWriter } from "../../src/wire/bytes.ts";
import {
  EXPORT_ROW_BYTES,
  HOLDER_ROW_BYTES,
  SCAN_RECORDS_MAX,
  SCAN_ROW_BYTES,
  SEMAPHORE_ROW_BYTES,
} from "../../src/wire/edge/command.ts";
import type { Operation } from "../../src/wire/edge/operation.ts";
import * as operations from "../../src/wire/edge/operations.ts";
import { messageOf } from "../../src/wire/edge/operation.ts";
import { PageWriter } from "../../src/wire/page.ts";
import { WHOLE } from "../../src/wire/range.ts";
import { callerOf, type Caller } from "../../src/worker/caller.ts";
import { exchange, execute } from "../../src/worker/execute.ts";

/** Rows of each page. */
const ROWS = SCAN_RECORDS_MAX;
const NAME_BYTES = 17;

/** A page whose rows are zeros, which some fields make valid, and whose keys have `NAME_BYTES`. */
function pageOf(rowBytes: number, version: 1 | 2): Uint8Array {
  const page = new PageWriter(rowBytes, ROWS, version);
  for (let row = 0; row < ROWS; row++) page.add(new Uint8Array(NAME_BYTES).fill(1), 0, NAME_BYTES);
  return page.take(true);
}

/** A page of an export: buffers or leases, whose values have 4 bytes. */
function exported(kind: number, keyBytes: number): Uint8Array {
  const out = new ByteWriter();
  out.reserve(EXPORT_PAGE_HEADER_BYTES);
  out.bytes[0] = 1;
  out.view.setUint16(1, ROWS, true);
  for (let row = 0; row < ROWS; row++) {
    const at = out.reserve(EXPORT_ROW_BYTES + keyBytes + 4);
    out.view.setUint16(at, keyBytes, true);
    out.view.setUint8(at + 2, kind);
    out.view.setUint8(at + 3, 3);
    out.view.setUint32(at + EXPORT_ROW_BYTES - 4, 4, true);
  }
  return out.take();
}

/** A caller of a namespace with one shard, which gives the same page whenever it is asked. */
function callerOfPages(namespace: string): Caller {
  const shard = {
    ranges: async () => ({ shards: 1, range: WHOLE, begins: [] }),
    scan: async (_: unknown, { keyspace }: { keyspace: number }) => {
      if (keyspace === 0) return pageOf(SCAN_ROW_BYTES - 1, 1);
      return keyspace === 3 ? pageOf(SEMAPHORE_ROW_BYTES - 2, 2) : pageOf(HOLDER_ROW_BYTES - 17, 1);
    },
    exportPage: async () => exported(2, NAME_BYTES),
    exportLeases: async () => exported(3, 16 + NAME_BYTES),
  };
  const doors = { ...env, SHARD: { getByName: () => shard } } as unknown as Environment;
  const access = { ...OPEN_ACCESS, namespace };
  return callerOf(doors, { waitUntil: () => {} }, access);
}

const PAGES: readonly [name: string, page: Operation<unknown>, rowBytes: number][] = [
  ["list", operations.list(), SCAN_ROW_BYTES + NAME_BYTES],
  ["semaphores", operations.semaphores(), SEMAPHORE_ROW_BYTES + NAME_BYTES],
  ["holders", operations.holders("a"), HOLDER_ROW_BYTES],
  ["exportPage", operations.exportPage(), EXPORT_ROW_BYTES + NAME_BYTES + 4],
  ["exportLeases", operations.exportLeases(), EXPORT_ROW_BYTES + 16 + NAME_BYTES + 4],
];

describe("pages of one batch over a binding", () => {
  it.each(PAGES)(
    "rows of %s count more than their bytes, as objects",
    async (name, page, bytes) => {
      const caller = callerOfPages(`rows-${name}`);
      const most = Math.floor(RPC_REPLY_BYTES_MAX / ((bytes + 64) * ROWS + 8));
      const batch = (pages: number) =>
        execute(
          caller,
          Array.from({ length: pages }, () => page),
        );
      expect(await batch(most)).toHaveLength(most);
      await expect(batch(most + 1)).rejects.toMatchObject({ code: "reply_too_large" });
    },
  );

  it("replies to frames stay bytes, so their rows count nothing beside them", async () => {
    const frames = messageOf(Array.from({ length: 400 }, () => operations.list()));
    const replies = await exchange(callerOfPages("rows-frames"), frames);
    expect(replies.length).toBeGreaterThan(400 * ROWS * SCAN_ROW_BYTES);
  });
});
