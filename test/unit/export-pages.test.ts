/** Pages of an export: the first rows of all shards, in bounded memory. */
import fc from "fast-check";
import { expect, it, vi } from "vitest";
import { ExportPages } from "../../src/dispatch/export-pages.ts";
import { EXPORT_PAGE_HEADER_BYTES } from "../../src/engine/export.ts";
import { ByteWriter } from "../../src/wire/bytes.ts";
import { EXPORT_ROW_BYTES } from "../../src/wire/edge/command.ts";
import { bytesOf } from "../support/frames/index.ts";

/** Pages of a few rows are merged before all have come. */
vi.mock(import("../../src/engine/sizes.ts"), async (importOriginal) => ({
  ...(await importOriginal()),
  EXPORT_PAGES_BYTES: 100,
}));

const rowBytes = (key: string): number => EXPORT_ROW_BYTES + key.length + 1;

function pageOf(keys: readonly string[], isLast: boolean): Uint8Array {
  const out = new ByteWriter();
  out.u8(isLast ? 1 : 0);
  out.u16(keys.length);
  for (const key of keys) {
    const at = out.reserve(EXPORT_ROW_BYTES);
    out.view.setUint16(at, key.length, true);
    out.view.setUint32(at + EXPORT_ROW_BYTES - 4, 1, true);
    out.copy(bytesOf(key));
    out.u8(7);
  }
  return out.take();
}

const shard = fc.record({
  keys: fc.integer({ min: 0, max: 8 }),
  isLast: fc.boolean(),
});

it("a page has the first rows of all shards up to the key at which one of them ends, however many pages come", () => {
  const property = fc.property(
    fc.array(shard, { minLength: 1, maxLength: 40 }),
    fc.integer({ min: 1, max: 60 }),
    fc.integer({ min: 1, max: 1500 }),
    (shards, countMax, bytesMax) => {
      const pages = new ExportPages(countMax, bytesMax);
      const all: string[] = [];
      const ends: string[] = [];
      shards.forEach(({ keys, isLast }, i) => {
        const own = Array.from({ length: keys }, (_, row) => `${(row * 37 + i * 11) % 90}:${i}`);
        own.sort();
        pages.add(pageOf(own, isLast || keys === 0));
        all.push(...own);
        if (!isLast && keys > 0) ends.push(own.at(-1)!);
      });
      const [end] = ends.toSorted();
      const whole = all.toSorted().filter((key) => end === undefined || key <= end);
      const expected: string[] = [];
      let bytes = 0;
      for (const key of whole.slice(0, countMax)) {
        bytes += rowBytes(key);
        if (expected.length > 0 && bytes > bytesMax) break;
        expected.push(key);
      }
      const { rows, count, isLast } = pages.merged();
      if (shards.length === 1) return;
      expect(rows).toEqual(pageOf(expected, false).subarray(EXPORT_PAGE_HEADER_BYTES));
      expect(count).toBe(expected.length);
      expect(isLast).toBe(end === undefined && expected.length === all.length);
    },
  );
  fc.assert(property, { numRuns: 500 });
});
