/** When the server executes a request, as far as this process knows: between two moments of its clock. */
import { ClockHistory } from "../../test/simulator/checks/clocks.ts";
import type { MsSpan } from "../../test/support/models/span.ts";

/** What the server's clock may differ from ours, in each direction. */
const CLOCK_SLACK_MS = 5000;

/** The clock of the server, which nothing sets during a run. */
const clocks = new ClockHistory();

/** From a time to another on our clock, seen from the server's. */
export function span(fromMs: number, toMs: number): MsSpan {
  return { fromMs: fromMs - CLOCK_SLACK_MS, toMs: toMs + CLOCK_SLACK_MS };
}

/** How much time of the server may have passed between two moments. */
export function elapsed(since: MsSpan, at: MsSpan): MsSpan {
  return clocks.elapsed("the server", since, at);
}
