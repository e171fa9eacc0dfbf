/** How many inputs a property is tried with. */
import { inject } from "vitest";

/**
 * All of them with `RUNS=1`, as in CI; a quarter by default, so that the tests of a change take seconds.
 * The seed differs from run to run, so that the inputs do, too.
 */
export const runs = (all: number): number => Math.ceil(all * inject("runs"));
