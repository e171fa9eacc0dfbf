/**
 * The client over a connection, against a server that answers in any pieces, pushes at any time and ends
 * at any point: whatever happens, a call is settled once and with its own result, nothing that may have
 * been applied is sent again, and subscriptions come back.
 */
import fc from "fast-check";
import { expect, inject, it } from "vitest";
import { scripts, Simulation } from "../support/client/simulation.ts";
import { runs } from "../support/runs.ts";

const seed = inject("seed");

it("every simulated call is settled once, with its own result, and none is applied twice", async () => {
  await fc.assert(
    fc.asyncProperty(
      scripts,
      fc.infiniteStream(fc.double({ min: 0, max: 0.999, noNaN: true })),
      async (script, randoms) => {
        const simulation = new Simulation(() => randoms.next().value ?? 0.5);
        await simulation.run(script);
        expect(simulation.faults).toEqual([]);
      },
    ),
    { seed, numRuns: runs(2000) },
  );
});
