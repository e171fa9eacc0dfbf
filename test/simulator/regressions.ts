/**
 * Runs that have found something, one line for each: what it was, and the plan that found it. They are played with every change. A
 * plan means another run when the simulator changes, so each finding has a test of its own, too.
 */

export interface Regression {
  readonly found: string;
  /** As `npm run simulate` prints it behind `--plan`. */
  readonly plan: string;
}

export const REGRESSIONS: readonly Regression[] = [];
