/** Data points for Analytics Engine, as the objects of a deployment that has bound a data set write them. */
import { evictAllDurableObjects, reset, runInDurableObject } from "cloudflare:test";
import { afterEach, describe, expect, it, vi } from "vitest";
import type { Dataset } from "../../src/base/data-points.ts";
import { VERSION } from "../../src/base/version.ts";
import { openSocket, post } from "../support/pool/doors.ts";
import { hubStub } from "../support/pool/hubs.ts";
import { bytesOfHex } from "../support/pool/reading.ts";
import { bearerOf } from "../support/pool/tokens.ts";

type Point = Parameters<Dataset["writeDataPoint"]>[0];

const PATH = "/throttr/7.3/uint16";
const REQUESTS = 0;
const READ_BYTES = 1;
const ROWS = 10;
const CONNECTIONS = 13;

afterEach(async () => {
  await reset();
});

/** Runs with a data set that keeps its points, bound in all objects. */
async function withDataset(run: (written: Point[]) => Promise<void>): Promise<void> {
  const written: Point[] = [];
  const dataset: Dataset = { writeDataPoint: (point) => written.push(point) };
  const environment = await runInDurableObject(hubStub(0, "data-points"), (hub) => {
    return (hub as unknown as { env: { ANALYTICS?: Dataset } }).env;
  });
  environment.ANALYTICS = dataset;
  await evictAllDurableObjects();
  try {
    await run(written);
  } finally {
    delete environment.ANALYTICS;
    await evictAllDurableObjects();
  }
}

const of = (written: readonly Point[], kind: string): Point[] =>
  written.filter(({ blobs }) => blobs[1] === kind);
const sumAt = (points: readonly Point[], double: number): number =>
  points.reduce((sum, { doubles }) => sum + doubles[double]!, 0);

describe("with a data set bound", () => {
  it("every object writes a data point of what it counted, once", async () => {
    await withDataset(async (written) => {
      const ns = "points";
      const headers = await bearerOf({ ns });
      const socket = await openSocket(PATH, headers);
      await socket.exchange(bytesOfHex("18 18"), 34);
      const ask = async (fields: string): Promise<void> => {
        expect((await post("7.3", "uint16", bytesOfHex(fields), headers)).status).toBe(200);
      };
      for (let i = 0; i < 8; i++) await ask(`01 0500 06 1e00 01 6${i}`);
      await ask("13 01 0200 65 6869");
      await vi.waitFor(
        () => {
          expect(sumAt(of(written, "shard"), REQUESTS)).toBe(8);
          expect(sumAt(of(written, "hub"), REQUESTS)).toBe(2);
          expect(sumAt(of(written, "door"), REQUESTS)).toBe(1);
        },
        { timeout: 10_000, interval: 200 },
      );
      expect(sumAt(of(written, "shard"), READ_BYTES)).toBe(8 * 8);
      expect(sumAt(of(written, "shard"), ROWS)).toBeGreaterThanOrEqual(8);
      expect(of(written, "hub").at(-1)!.doubles[CONNECTIONS]).toBe(1);
      expect(of(written, "hub").at(-1)!.blobs).toEqual([ns, "hub", "XXX/0", VERSION]);
      expect(of(written, "door").at(-1)!.blobs).toEqual([ns, "door", "", VERSION]);
      expect(written.every(({ indexes }) => indexes[0] === ns)).toBe(true);
      await ask("02 01 60");
      await socket.exchange(bytesOfHex("18"), 17);
      await socket.close();
      // A Hub that has nobody left tells what it has not told yet, before another counts it.
      await vi.waitFor(() => expect(sumAt(of(written, "hub"), REQUESTS)).toBe(3), 10_000);
      await vi.waitFor(() => expect(sumAt(of(written, "shard"), REQUESTS)).toBe(9), 10_000);
      expect(sumAt(of(written, "door"), REQUESTS)).toBe(1);
    });
  });
});
