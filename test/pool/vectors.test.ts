/** The recorded exchanges over every door. */
import { reset } from "cloudflare:test";
import { afterEach, describe, expect, inject, it } from "vitest";
import { DOORS, type Door } from "./doors.ts";
import { hex, unhex } from "../support/frames.ts";

interface Exchange {
  size: string;
  scenario: string;
  step: number;
  conn: string;
  name: string;
  request_hex: string;
  response_hex: string;
  volatile: [offset: number, length: number, what: string][];
  sleep_before_ms?: number;
}

/** Scenarios that use requests which this release does not have. Any other scenario must pass. */
const NOT_YET: Readonly<Record<string, string>> = {
  pubsub: "SUBSCRIBE, UNSUBSCRIBE, PUBLISH, CHANNEL, WHOAMI",
  pipeline_outstanding_1000: "WHOAMI",
};

/** Steps that use such requests, within scenarios that otherwise pass. */
const TYPES_NOT_YET = new Set([
  "07",
  "08",
  "09",
  "10",
  "11",
  "12",
  "13",
  "14",
  "15",
  "16",
  "17",
  "18",
]);

const TTL_SLACK = 3;

const scenarios = Map.groupBy(
  inject("throttrVectors")
    .split("\n")
    .filter((line) => line !== "")
    .map((line) => JSON.parse(line) as Exchange),
  ({ size, scenario }) => `${size} ${scenario}`,
);

afterEach(async () => {
  await reset();
});

it("names the scenarios that it leaves out", () => {
  const left = [...scenarios].filter(([, steps]) => steps[0]!.scenario in NOT_YET);
  for (const [title, steps] of left) {
    console.info(`left out: ${title}, needs ${NOT_YET[steps[0]!.scenario]}`);
  }
  expect(scenarios.size).toBeGreaterThan(left.length);
});

describe.each(Object.entries(DOORS))("vectors over %s", (doorName, open) => {
  for (const [title, steps] of scenarios) {
    const { size, scenario } = steps[0]!;
    if (scenario in NOT_YET) {
      it.skip(`${title}: needs ${NOT_YET[scenario]}`, () => {});
      continue;
    }
    // A body of HTTP must end where a frame ends.
    if (scenario === "framing" && doorName === "HTTP") {
      it.skip(`${title}: cuts frames, which a body can't`, () => {});
      continue;
    }
    it(title, async (context) => {
      const door = await open("7.3", size);
      for (const step of steps) {
        // Inside the framing scenario a chunk may begin in the middle of a frame.
        if (scenario !== "framing" && TYPES_NOT_YET.has(step.request_hex.slice(0, 2))) {
          await context.annotate(`step ${step.step} left out: ${step.name}`);
          continue;
        }
        await expectStep(door, step);
      }
      await door.close();
    });
  }
});

async function expectStep(door: Door, step: Exchange): Promise<void> {
  if (step.sleep_before_ms !== undefined) await scheduler.wait(step.sleep_before_ms);
  const expected = unhex(step.response_hex);
  const reply = await door.exchange(unhex(step.request_hex), expected.length);
  const masked = reply.slice();
  for (const [offset, length, what] of step.volatile) {
    if (what === "ttl") {
      const difference = uint(reply, offset, length) - uint(expected, offset, length);
      expect(Math.abs(difference), `${step.name}: ttl`).toBeLessThanOrEqual(TTL_SLACK);
    }
    masked.set(expected.subarray(offset, offset + length), offset);
  }
  expect(hex(masked), `step ${step.step}: ${step.name}`).toBe(step.response_hex);
}

function uint(bytes: Uint8Array, at: number, width: number): number {
  let value = 0;
  for (let i = width - 1; i >= 0; i--) value = value * 256 + (bytes[at + i] ?? 0);
  return value;
}
