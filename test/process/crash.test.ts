/** A real server process, killed under load: three rounds of what `npm run crash-test` does, for each way to run it. */
import { expect, inject, it } from "vitest";
import { crashRounds } from "../../scripts/crash/rounds.ts";

it.for([
  ["the server of npm start", { kind: "start", shards: 4 }],
  ["the packaged server", { kind: "serve", shards: 1 }],
] as const)(
  "%s, killed under load, loses no acknowledged write, and invents none",
  async ([, server], { annotate }) => {
    const seed = inject("seed");
    await annotate(`seed ${seed}`);
    const totals = await crashRounds(3, seed, console.log, server);
    expect(totals.acknowledgedWrites).toBeGreaterThan(0);
    expect(totals.verifiedKeys).toBeGreaterThan(0);
  },
);
