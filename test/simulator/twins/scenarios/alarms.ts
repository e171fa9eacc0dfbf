/** Alarms: when they ring, what the storage says meanwhile, and how they are repeated. */
import { COMMIT_FAILED, tell, type Lab, type Scenario } from "../lab.ts";
import type { BellCalls, Ringing } from "../probes/calls.ts";

/** Sets an alarm that is due at once. */
function ringing(
  title: string,
  how: Ringing,
  expected: readonly string[],
  meanwhile: (lab: Lab, bell: BellCalls) => Promise<void>,
  state?: string,
): Scenario {
  return {
    title,
    phases: [
      async (lab) => {
        const bell = lab.stub("Bell");
        await bell.set(how, 20);
        await meanwhile(lab, bell);
        await lab.wait(100);
        await tell(lab, "afterwards", lab.stub("Bell").state());
      },
    ],
    expected: {
      bell: ["starts: no alarm", "sets it: an alarm", ...expected],
      ...(state === undefined ? {} : { meanwhile: [state] }),
      afterwards: ["no alarm"],
    },
  };
}

const FIRST = "rings 1, no retry, ready: no alarm";
const RUNG = "has rung: no alarm";

export const alarms: readonly Scenario[] = [
  ringing("an alarm is gone from the storage when it rings", "end", [FIRST, RUNG], async (lab) => {
    await lab.until("bell", RUNG);
  }),
  ringing(
    "calls are delivered while an alarm rings, and see no alarm",
    "wait",
    [FIRST, RUNG],
    async (lab, bell) => {
      await lab.until("bell", FIRST);
      lab.note("meanwhile", await bell.state());
      await lab.until("bell", RUNG);
    },
    "no alarm",
  ),
  ringing(
    "an alarm that is set while one rings is kept, and rings when that has ended",
    "wait",
    [FIRST, "has rung: an alarm", "rings 2, no retry, ready: no alarm", RUNG],
    async (lab, bell) => {
      await lab.until("bell", FIRST);
      await bell.reset(0);
      lab.note("meanwhile", await bell.state());
      await lab.until("bell", RUNG);
    },
    "an alarm",
  ),
  ringing(
    "an alarm that sets itself again rings again",
    "set once",
    [FIRST, "has rung: an alarm", "rings 2, no retry, ready: no alarm", RUNG],
    async (lab) => await lab.until("bell", RUNG),
  ),
  ringing(
    "an alarm that throws rings again after about two seconds, as a retry, and what it wrote stays",
    "throw once",
    [FIRST, "rings 2, retry 1, ready: no alarm", RUNG],
    async (lab, bell) => {
      await lab.until("bell", FIRST);
      await lab.wait(200);
      lab.note("meanwhile", await bell.state());
      await lab.until("bell", RUNG);
    },
    "an alarm",
  ),
  ringing(
    "an alarm that sets another and then throws rings at that time, and not as a retry",
    "set and throw once",
    [FIRST, "rings 2, no retry, ready: no alarm", RUNG],
    async (lab) => await lab.until("bell", RUNG),
  ),
  ringing(
    "an alarm whose object is reset while it rings rings again, after the constructor",
    "abort once",
    [FIRST, "starts: an alarm", "rings 2, retry 1, ready: no alarm", RUNG],
    async (lab) => await lab.until("bell", RUNG),
  ),
  ringing(
    "the constructor of an evicted object runs before its alarm rings, and still sees it",
    "end",
    ["starts: an alarm", FIRST, RUNG],
    async (lab) => {
      await lab.evict("Bell");
      await lab.until("bell", RUNG);
    },
  ),
  ringing("an alarm may delete itself while it rings", "delete", [FIRST, RUNG], async (lab) => {
    await lab.until("bell", RUNG);
  }),
  ringing(
    "deleteAll while an alarm rings leaves no alarm and no retry",
    "deleteAll",
    [FIRST, RUNG],
    async (lab) => await lab.until("bell", RUNG),
  ),
  ringing(
    "deleteAll deletes the alarm",
    "end",
    [],
    async (lab, bell) => lab.note("meanwhile", await bell.deleteAll()),
    "no alarm",
  ),
  {
    title: "an alarm in the past rings at once",
    phases: [
      async (lab) => {
        await lab.stub("Bell").set("end", -1000);
        await lab.until("bell", RUNG);
      },
    ],
    expected: { bell: ["starts: no alarm", "sets it: an alarm", FIRST, RUNG] },
  },
  {
    title: "an alarm that was set in a turn whose commit fails is not set",
    phases: [
      async (lab) => {
        await tell(lab, "caller", lab.stub("Bell").setDoomed(20));
        await lab.wait(100);
        await tell(lab, "afterwards", lab.stub("Bell").state());
      },
    ],
    expected: {
      bell: ["starts: no alarm", "sets it: an alarm", "starts: no alarm"],
      caller: [COMMIT_FAILED],
      afterwards: ["no alarm"],
    },
  },
];
