/** Pages of hundreds of objects: what it takes to merge them. */
import { expect, it, vi } from "vitest";
import { Merge } from "../../src/dispatch/merge.ts";
import type * as bytes from "../../src/wire/bytes.ts";
import { PageWriter } from "../../src/wire/page.ts";
import { bytesOf } from "../support/frames/index.ts";

const compared = vi.hoisted(() => ({ keys: 0 }));

vi.mock(import("../../src/wire/bytes.ts"), async (importOriginal) => {
  const original: typeof bytes = await importOriginal();
  const compareBytes: typeof original.compareBytes = (...keys) => {
    compared.keys++;
    return original.compareBytes(...keys);
  };
  return { ...original, compareBytes };
});

it("a row of hundreds of objects takes a few comparisons, however many they are", async () => {
  const [objects, rows] = [512, 8];
  const keys: string[] = [];
  const pages = Array.from({ length: objects }, (_, object) => {
    const own = Array.from({ length: rows }, (_, row) => String(1e6 + row * 1000 + object));
    const page = new PageWriter(0, rows);
    for (const key of own) page.add(bytesOf(key), 0, key.length);
    keys.push(...own);
    return page.take(true);
  });
  const merge = await Merge.open(pages.map((page) => async () => await Promise.resolve(page)));
  const visited: string[] = [];
  await merge.forEach(([entry]) => {
    visited.push(new TextDecoder().decode(entry!.key()));
    return "next";
  });
  expect(visited).toEqual(keys.toSorted());
  expect(compared.keys).toBeLessThan(16 * visited.length);
});
