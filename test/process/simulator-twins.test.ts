/** What the simulator takes for granted of the platform, shown on workerd: each scenario's transcript is that which is written down. */
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { scenarios } from "../simulator/twins/scenarios/index.ts";
import { WorkerdLab } from "../support/process/workerd-lab.ts";

let lab: WorkerdLab;

beforeAll(async () => {
  lab = await WorkerdLab.start();
});

afterAll(async () => {
  await lab.close();
});

describe("workerd", () => {
  it.for(scenarios.map((scenario, number) => ({ ...scenario, number })))(
    "$title",
    async ({ number, phases, expected }) => {
      expect(await lab.run(number, phases.length)).toEqual(expected);
    },
  );
});
