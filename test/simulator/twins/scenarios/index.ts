/** All scenarios. */
import type { Scenario } from "../lab.ts";
import { alarms } from "./alarms.ts";
import { inputGate } from "./input-gate.ts";
import { lives } from "./lives.ts";
import { outputGate } from "./output-gate.ts";
import { sockets } from "./sockets.ts";
import { stubs } from "./stubs.ts";
import { visits } from "./visits.ts";

export const scenarios: readonly Scenario[] = [
  ...outputGate,
  ...inputGate,
  ...stubs,
  ...lives,
  ...alarms,
  ...sockets,
  ...visits,
];
