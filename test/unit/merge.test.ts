/** Merge: pages of several objects become one sequence in the order of keys. */
import fc from "fast-check";
import { expect, inject, it } from "vitest";
import { ListingOutgrown, Merge, pageBytesOf, type PageSource } from "../../src/dispatch/merge.ts";
import { PageWriter } from "../../src/wire/page.ts";
import { bytesOf } from "../support/frames/index.ts";
import { runs } from "../support/runs.ts";

const seed = inject("seed");

interface Asked {
  readonly object: number;
  readonly after: string | null;
  readonly isFirst: boolean;
}

const textOf = (bytes: Uint8Array): string => String.fromCharCode(...bytes);

function pageOf(keys: readonly string[], isLast: boolean, total = keys.length): Uint8Array {
  const page = new PageWriter(0, total);
  for (const key of keys) page.add(bytesOf(key), 0, key.length);
  return page.take(isLast);
}

/** Objects with keys in order, which give pages of so many. */
function sourcesOf(
  objects: readonly (readonly string[])[],
  pageKeys: number,
): { sources: PageSource[]; asked: Asked[] } {
  const asked: Asked[] = [];
  const sources = objects.map((keys, object): PageSource => (after, isFirst) => {
    asked.push({ object, after: after === null ? null : textOf(after), isFirst });
    const from = after === null ? 0 : keys.findIndex((key) => key > textOf(after));
    const left = from < 0 ? [] : keys.slice(from);
    return Promise.resolve(pageOf(left.slice(0, pageKeys), left.length <= pageKeys, keys.length));
  });
  return { sources, asked };
}

/** Keys as they are visited, each with the number of objects that have it. */
async function visited(merge: Merge, limit = Infinity): Promise<[key: string, count: number][]> {
  const seen: [string, number][] = [];
  await merge.forEach((entries) => {
    seen.push([textOf(entries[0]!.key()), entries.length]);
    return seen.length < limit ? "next" : "end";
  });
  return seen;
}

const keys = fc
  .uniqueArray(fc.string({ unit: fc.constantFrom("a", "b", "\xff"), maxLength: 4 }))
  .map((keys) => keys.toSorted());

it("a merge visits each key once and in order, with the entries of all objects that have it", async () => {
  const property = fc.asyncProperty(
    fc.array(keys, { maxLength: 5 }),
    fc.integer({ min: 1, max: 5 }),
    async (objects, pageKeys) => {
      const merge = new Merge(sourcesOf(objects, pageKeys).sources);
      await merge.open();
      const all = objects.flat();
      const expected = [...new Set(all)]
        .toSorted()
        .map((key) => [key, all.filter((other) => other === key).length]);
      expect(merge.total).toBe(all.length);
      expect(await visited(merge)).toEqual(expected);
    },
  );
  await fc.assert(property, { seed, numRuns: runs(200) });
});

it("a merge asks an object for the page behind its last key, once that page is used up", async () => {
  const { sources, asked } = sourcesOf(
    [
      ["a", "b", "e"],
      ["c", "d"],
    ],
    2,
  );
  const merge = new Merge(sources);
  await merge.open();
  const events: string[] = [];
  await merge.forEach(([entry]) => {
    events.push(`${textOf(entry!.key())} after ${asked.length} calls`);
    return "next";
  });
  expect(events).toEqual(
    ["a after 2", "b after 2", "c after 3", "d after 3", "e after 3"].map(
      (text) => `${text} calls`,
    ),
  );
  expect(asked).toEqual([
    { object: 0, after: null, isFirst: true },
    { object: 1, after: null, isFirst: true },
    { object: 0, after: "b", isFirst: false },
  ]);
});

it("a merge ends where a visit returns false", async () => {
  const merge = new Merge(sourcesOf([["a", "b", "c"]], 2).sources);
  await merge.open();
  expect(await visited(merge, 2)).toEqual([
    ["a", 1],
    ["b", 1],
  ]);
});

it("a merge begins again without a call only when all rows were in the first pages", async () => {
  const whole = sourcesOf([["a"], ["b"]], 2);
  const merge = new Merge(whole.sources);
  for (let i = 0; i < 3; i++) {
    await merge.open();
    expect(await visited(merge)).toEqual([
      ["a", 1],
      ["b", 1],
    ]);
  }
  expect(whole.asked).toHaveLength(2);
  const parts = sourcesOf([["a", "b"], ["c"]], 1);
  const longer = new Merge(parts.sources);
  await longer.open();
  await longer.open();
  expect(parts.asked.map(({ isFirst }) => isFirst)).toEqual([true, true, false, false]);
});

it("a merge waits for what a visit returns before it visits the next key", async () => {
  const { sources } = sourcesOf([["a", "b"], ["c"]], 1);
  const merge = new Merge(sources);
  await merge.open();
  const events: string[] = [];
  await merge.forEach(async ([entry]) => {
    const key = textOf(entry!.key());
    events.push(`${key} begins`);
    await new Promise((resolve) => setImmediate(resolve));
    events.push(`${key} ends`);
  });
  expect(events).toEqual(["a", "b", "c"].flatMap((key) => [`${key} begins`, `${key} ends`]));
});

it("a merge says when an object has too much at first, and fails when it has so later", async () => {
  const tooMuch = (): Promise<Uint8Array> => Promise.resolve(pageOf([], false, 1_000_000));
  const merge = new Merge([tooMuch, ...sourcesOf([["a"]], 1).sources]);
  await merge.open();
  expect(merge.hasTooMuch).toBe(true);
  await expect(merge.open()).rejects.toThrow(ListingOutgrown);

  const empty = new Merge([() => Promise.resolve(pageOf([], true))]);
  await empty.open();
  expect(empty.hasTooMuch).toBe(false);

  const grows: PageSource = async (after) =>
    await (after === null ? pageOf(["a"], false) : tooMuch());
  const later = new Merge([grows]);
  await later.open();
  expect(later.hasTooMuch).toBe(false);
  await expect(visited(later)).rejects.toThrow(ListingOutgrown);
});

it("objects that are asked at once share 256 KiB of pages, at least 4 KiB each", () => {
  expect([0, 1, 4, 64, 128].map(pageBytesOf)).toEqual([262_144, 262_144, 65_536, 4096, 4096]);
});
