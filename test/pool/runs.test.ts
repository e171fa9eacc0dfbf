/** The runs of a message that comes whole. */
import { expect, it, vi } from "vitest";
import { OPEN_ACCESS } from "../../src/base/access.ts";
import { findRuns, runsOfOperations } from "../../src/worker/runs.ts";
import * as operations from "../../src/wire/edge/operations.ts";
import { protocolByName } from "../../src/wire/throttr/protocol.ts";

it("a message with too many runs is refused before all of them are found", () => {
  const body = new Uint8Array(1 << 20).fill(0x08);
  const parts = vi.spyOn(Uint8Array.prototype, "subarray");
  expect(() => findRuns(protocolByName("7.3", "uint8")!, body, 1 << 20, OPEN_ACCESS)).toThrow(
    expect.objectContaining({ code: "runs_max" }),
  );
  expect(parts.mock.calls.length).toBeLessThan(600);
  parts.mockRestore();
});

it("operations of more than 24 MiB together are refused: one shard may get all of them in one call", () => {
  const frameBytesMax = 1 << 20;
  const full = { ...operations.set("a", "", { ttlMs: 1 }), frame: new Uint8Array(frameBytesMax) };
  const batch = Array.from({ length: 24 }, () => full);
  expect(runsOfOperations(batch, frameBytesMax)).toHaveLength(1);
  const one = operations.purge("a");
  expect(() => runsOfOperations([...batch, one], frameBytesMax)).toThrow(
    expect.objectContaining({ code: "batch_too_large" }),
  );
});
