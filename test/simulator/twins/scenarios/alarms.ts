/** Alarms: when they ring, what the storage says meanwhile, and how they are repeated. */
import { COMMIT_FAILED, tell, type Lab, type Scenario } from "../lab.ts";
import type { BellCalls, Ringing } from "../probes/calls.ts";

const FIRST = "rings 1, no retry, ready: no alarm";
const AGAIN = "rings 2, no retry, ready: no alarm";
const RETRY = "rings 2, retry 1, ready: no alarm";
const RUNG = "has rung: no alarm";

interface Plan {
  readonly title: string;
  /** What the alarm does when it rings. */
  readonly how: Ringing;
  /** 20 ms, where nothing need happen before it rings. */
  readonly delayMs?: number;
  /** What the bell notes after the alarm was set. */
  readonly expected: readonly string[];
  /** Runs once the alarm is set; the bell has rung by its end. */
  readonly meanwhile?: (lab: Lab, bell: BellCalls) => Promise<void>;
  /** What `meanwhile` notes. */
  readonly state?: string;
}

/** Sets an alarm, and looks whether it rings, and whether there is one afterwards. */
function ringing({ title, how, delayMs = 20, expected, meanwhile, state }: Plan): Scenario {
  return {
    title,
    phases: [
      async (lab) => {
        const bell = lab.stub("Bell");
        await bell.set(how, delayMs);
        await meanwhile?.(lab, bell);
        if (expected.includes(RUNG)) await lab.until("bell", RUNG);
        // What would ring once more does so by then.
        await lab.wait(delayMs + 80);
        await tell(lab, "afterwards", lab.stub("Bell").state());
      },
    ],
    expected: {
      bell: ["starts: no alarm", "sets it: an alarm", ...expected],
      ...(how === "wait" ? { ear: ["holds", ...(expected.includes(AGAIN) ? ["holds"] : [])] } : {}),
      ...(state === undefined ? {} : { meanwhile: [state] }),
      afterwards: ["no alarm"],
    },
  };
}

export const alarms: readonly Scenario[] = [
  ringing({
    title: "an alarm is gone from the storage when it rings",
    how: "end",
    expected: [FIRST, RUNG],
  }),
  ringing({
    title: "calls are delivered while an alarm rings, and see no alarm",
    how: "wait",
    expected: [FIRST, RUNG],
    meanwhile: async (lab, bell) => {
      await lab.until("ear", "holds");
      lab.note("meanwhile", await bell.state());
      await lab.stub("Ear").release();
    },
    state: "no alarm",
  }),
  ringing({
    title: "an alarm that is set while one rings is kept, and rings when that has ended",
    how: "wait",
    expected: [FIRST, "has rung: an alarm", AGAIN, RUNG],
    meanwhile: async (lab, bell) => {
      await lab.until("ear", "holds");
      await bell.reset(0);
      lab.note("meanwhile", await bell.state());
      // It is due, and would ring now if two alarms could ring at once.
      await lab.wait(50);
      await lab.stub("Ear").release();
    },
    state: "an alarm",
  }),
  ringing({
    title: "an alarm that sets itself again rings again",
    how: "set once",
    expected: [FIRST, "has rung: an alarm", AGAIN, RUNG],
  }),
  ringing({
    title:
      "an alarm that throws rings again after about two seconds, as a retry, and what it wrote stays",
    how: "throw once",
    expected: [FIRST, RETRY, RUNG],
    meanwhile: async (lab, bell) => {
      await lab.until("bell", FIRST);
      await lab.wait(200);
      lab.note("meanwhile", await bell.state());
    },
    state: "an alarm",
  }),
  ringing({
    title: "an alarm that sets another and then throws rings at that time, and not as a retry",
    how: "set and throw once",
    expected: [FIRST, AGAIN, RUNG],
  }),
  ringing({
    title: "an alarm whose object is reset while it rings rings again, after the constructor",
    how: "abort once",
    expected: [FIRST, "starts: an alarm", RETRY, RUNG],
  }),
  ringing({
    title: "an alarm whose commit fails rings again, after the constructor",
    how: "doom once",
    expected: [FIRST, "starts: an alarm", RETRY, RUNG],
  }),
  ringing({
    title: "the constructor of an evicted object runs before its alarm rings, and still sees it",
    how: "end",
    delayMs: 300,
    expected: ["starts: an alarm", FIRST, RUNG],
    meanwhile: async (lab) => await lab.evict("Bell"),
  }),
  ringing({
    title: "an alarm may delete itself while it rings",
    how: "delete",
    expected: [FIRST, RUNG],
  }),
  ringing({
    title: "deleteAll while an alarm rings leaves no alarm and no retry",
    how: "deleteAll",
    expected: [FIRST, RUNG],
  }),
  ringing({
    title: "deleteAll deletes the alarm",
    how: "end",
    delayMs: 300,
    expected: [],
    meanwhile: async (lab, bell) => lab.note("meanwhile", await bell.deleteAll()),
    state: "no alarm",
  }),
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
