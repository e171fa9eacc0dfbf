/** Calls that their client gives up. */
import { expect, it } from "vitest";
import { History, Moments } from "../../simulator/checks/history.ts";
import { VirtualTime } from "../../simulator/kernel/virtual-time.ts";
import { giveUp, SETTLED_MS } from "../../simulator/workloads/give-up.ts";

it("a call that was given up may take effect until nothing is left of its request", () => {
  const time = new VirtualTime(() => {});
  const history = new History<string, never>(new Moments(() => time.nowMs));
  const call = history.begin({ client: 1, door: "http", connection: null, operation: "a write" });
  const startMs = time.nowMs;
  giveUp({ time }, history, call);
  expect(call).toMatchObject({ outcome: "unknown", ended: { ms: startMs }, settled: null });
  time.runUntil(startMs + SETTLED_MS - 1);
  expect(call.settled).toBeNull();
  time.runUntil(startMs + SETTLED_MS + 1);
  expect(call.settled!.ms).toBe(startMs + SETTLED_MS);
});
