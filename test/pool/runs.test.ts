/** The runs of a message that comes whole. */
import { expect, it, vi } from "vitest";
import { OPEN_ACCESS } from "../../src/base/access.ts";
import { findRuns } from "../../src/worker/runs.ts";
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
