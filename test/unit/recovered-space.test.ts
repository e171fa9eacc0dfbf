/** The memory of a shard after a start: rows are read whatever the budget, into tables with room to spare. */
import { expect, it } from "vitest";
import { Engine } from "../../src/engine/engine.ts";
import { imagesOf } from "../support/commands/disk.ts";
import { batchIn, EDGE, FOREVER, set } from "../support/frames/index.ts";

const NOW_MS = 1_700_000_000_000;
const MIB = 1 << 20;

const engineOf = (): Engine =>
  new Engine({ hashKey: { low: 1, high: 2 }, bytesMax: MIB, isCounting: true });

/** Fills an engine with values of one size, and then with smaller and smaller ones, until it refuses the smallest. */
function filled(valueBytes: number): Engine {
  const engine = engineOf();
  for (let [i, bytes] = [0, valueBytes]; bytes >= 32; i++) {
    const { refusedForSpace } = engine.figures;
    const frames = [set(`k${i}`, new Uint8Array(bytes), FOREVER)];
    engine.apply(batchIn([{ protocol: EDGE, frames }]), NOW_MS);
    if (engine.figures.refusedForSpace > refusedForSpace) bytes >>= 1;
  }
  return engine;
}

it.each([1000, 10_000, 30_000, 100_000])(
  "a start takes no more memory than the shard may have, with values of %i bytes",
  (valueBytes) => {
    const engine = filled(valueBytes);
    expect(engine.figures.bytes).toBeLessThanOrEqual(MIB);
    const started = engineOf();
    started.advance(NOW_MS);
    const { rows } = engine.snapshotStep(0, 16 * MIB, 1_900_000);
    for (const row of rows) started.restore(row);
    started.endRestore();
    expect(started.figures.bytes).toBeLessThanOrEqual(MIB);
    expect(imagesOf(started)).toEqual(imagesOf(engine));
  },
);
