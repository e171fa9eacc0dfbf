/** How long a shard waits that asks whether the range that it adopts is in force. */
import { afterEach, expect, it, vi } from "vitest";
import type { Verdict } from "../../src/base/calls/splits.ts";
import { SPLIT_WAIT_MS } from "../../src/engine/sizes.ts";
import { Adoption, type AdoptionHost } from "../../src/objects/shard/adoption.ts";
import { environmentOf } from "../support/pool/other-shard.ts";

afterEach(() => {
  vi.useRealTimers();
  vi.restoreAllMocks();
});

it("calls for a range that is adopted are refused where the other shard does not answer for a minute, and later ones ask again", async () => {
  vi.useFakeTimers();
  vi.spyOn(console, "warn").mockReturnValue();
  let calls = 0;
  const verdictOn = async (): Promise<{ verdict: Verdict; nowMs: number }> => {
    if (++calls === 1) await new Promise<never>(() => {});
    return { verdict: "copying", nowMs: 0 };
  };
  const split = { range: { from: 2 ** 31, to: 0 }, parent: 0, attempt: 3, isActive: false };
  const host = { name: "n/80000000", journal: { split, placement: { shards: 1, fingerprint: 1 } } };
  const adoption = new Adoption(environmentOf({ verdictOn }), host as unknown as AdoptionHost);
  const failures = [adoption.ask(), adoption.ask()].map(async (asked) => await asked.catch(String));
  await vi.advanceTimersByTimeAsync(SPLIT_WAIT_MS);
  for (const failure of await Promise.all(failures)) expect(failure).toContain("shards_unsettled");
  await adoption.ask();
  expect(calls).toBe(2);
});
