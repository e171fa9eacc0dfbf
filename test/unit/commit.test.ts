/** Commits: what changes more than once in one of them comes back as it was left. */
import fc from "fast-check";
import { expect, inject, it } from "vitest";
import { Engine } from "../../src/engine/engine.ts";
import { protocolByName } from "../../src/wire/throttr/protocol.ts";
import { imagesOf } from "../support/commands/disk.ts";
import {
  batchIn,
  bytesOf,
  EDGE,
  FOREVER,
  increment,
  pairFrame,
  set,
} from "../support/frames/index.ts";
import { runs } from "../support/runs.ts";

const seed = inject("seed");
const NOW_MS = 1_700_000_000_000;
const PAIRS = protocolByName("2", undefined)!;

const engineOf = (): Engine =>
  new Engine({ hashKey: { low: seed, high: 1 }, bytesMax: 64 << 20, isCounting: true });

const resource = fc.constantFrom("", "a", "b", "c".repeat(40));
const quota = fc.oneof(
  fc.bigInt({ min: 0n, max: 300n }),
  fc.bigInt({ min: 0n, max: 2n ** 64n - 1n }),
);
const change = fc.oneof(
  fc
    .tuple(resource, quota)
    .map(([name, quota]) =>
      pairFrame(1, { type: "insert", pair: ["p", name], quota, ttlType: 2, ttl: 1000n }),
    )
    .map((frame) => ({ protocol: PAIRS, frames: [frame] })),
  resource.map((name) => ({ protocol: EDGE, frames: [increment(name, 1n, FOREVER)] })),
  fc.tuple(resource, fc.nat(50)).map(([name, length]) => ({
    protocol: EDGE,
    frames: [set(`buffer:${name}`, bytesOf("v".repeat(length)), FOREVER)],
  })),
);

it("a commit holds what it changed as it was left: counters reset, buffers set, and all other records", () => {
  const property = fc.property(
    fc.array(fc.array(change, { maxLength: 12 }), { maxLength: 6 }),
    (commits) => {
      const engine = engineOf();
      const replayed = engineOf();
      replayed.advance(NOW_MS);
      for (const changes of commits) {
        engine.apply(batchIn(changes), NOW_MS);
        if (!engine.isDirty) continue;
        for (const row of engine.takeCommit(1_900_000)) replayed.restore(row.slice());
        expect(imagesOf(replayed)).toEqual(imagesOf(engine));
      }
    },
  );
  fc.assert(property, { seed, numRuns: runs(500) });
});
