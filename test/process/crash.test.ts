/** A real server process, killed under load: three rounds of what `npm run crash-test` does. */
import { expect, inject, it } from "vitest";
import { crashRounds } from "../../scripts/crash/rounds.ts";

it("a killed server loses no acknowledged write, and invents none", async ({ annotate }) => {
  const seed = inject("seed");
  await annotate(`seed ${seed}`);
  const { acknowledgedWrites, verifiedKeys } = await crashRounds(3, seed, console.log);
  expect(acknowledgedWrites).toBeGreaterThan(0);
  expect(verifiedKeys).toBeGreaterThan(0);
});
