/** Which of an object's awaits let other calls in, and what is delivered while it blocks. */
import { tell, type Lab, type Scenario } from "../lab.ts";
import type { Held } from "../probes/calls.ts";

const OPEN: readonly Held[] = ["sync", "sync of a row", "timer", "wait(0)", "rpc", "fetch"];
const CLOSED: readonly Held[] = [
  "nothing",
  "microtasks",
  "getAlarm",
  "setAlarm",
  "deleteAlarm",
  "block",
];

/** Ends the Ear's hold when the calls that were made before have reached their object. */
async function release(lab: Lab): Promise<void> {
  await lab.wait(20);
  await lab.stub("Ear").release();
}

/** Calls gather while the holder blocks; it goes on before they are delivered, and awaits `what`. */
function holding(title: string, what: Held, expected: readonly string[]): Scenario {
  return {
    title,
    phases: [
      async (lab) => {
        const holder = lab.stub("Holder");
        const held = holder.hold(what);
        await lab.until("ear", "holds");
        const calls = [holder.poke("poked"), lab.stub("Holder").poke("poked")];
        await release(lab);
        await Promise.all([held, ...calls]);
      },
    ],
    expected: {
      holder: expected,
      ear: ["holds", ...(what === "rpc" ? ["rpc"] : what === "fetch" ? ["fetch /"] : [])],
    },
  };
}

export const inputGate: readonly Scenario[] = [
  ...OPEN.map((what) =>
    holding(`calls are delivered while an object awaits: ${what}`, what, [
      `awaits ${what}`,
      "poked",
      "poked",
      "goes on",
    ]),
  ),
  ...CLOSED.map((what) =>
    holding(`no call is delivered while an object awaits: ${what}`, what, [
      `awaits ${what}`,
      "goes on",
      "poked",
      "poked",
    ]),
  ),
  {
    title: "only what blockConcurrencyWhile has begun itself is delivered before it ends",
    phases: [async (lab) => await tell(lab, "caller", lab.stub("Holder").blockWithEvents())],
    expected: {
      ear: ["from outside", "from inside"],
      "call from inside": ["is delivered within the block"],
      "timer from outside": ["is delivered behind the block"],
      "call from outside": ["is delivered behind the block"],
      caller: ["undefined"],
    },
  },
  {
    title:
      "an error within blockConcurrencyWhile resets the object, and its caller never catches it there",
    phases: [
      async (lab) => {
        const holder = lab.stub("Holder");
        await tell(lab, "caller", holder.throwInBlock());
        await tell(lab, "same stub", holder.poke("poked by the same stub"));
        await tell(lab, "new stub", lab.stub("Holder").poke("poked by a new stub"));
      },
    ],
    expected: {
      caller: ["Error: within the block (durableObjectReset)"],
      "same stub": ["Error: within the block (durableObjectReset)"],
      holder: ["poked by a new stub"],
      "new stub": ["undefined"],
    },
  },
  {
    title: "all calls that are ready are delivered within one scheduler.wait(0)",
    phases: [
      async (lab) => {
        const holder = lab.stub("Holder");
        const yielding = holder.yieldOften();
        await lab.until("ear", "holds");
        const calls = Array.from({ length: 6 }, (_, i) => holder.poke(`poked ${i}`));
        await release(lab);
        await Promise.all([yielding, ...calls]);
      },
    ],
    expected: {
      ear: ["holds"],
      holder: [
        "yields 0",
        "poked 0",
        "poked 1",
        "poked 2",
        "poked 3",
        "poked 4",
        "poked 5",
        "yields 1",
        "yields 2",
        "goes on",
      ],
    },
  },
  {
    title:
      "microtasks come before timers, and timers of one time in the order in which they were set",
    phases: [async (lab) => await lab.stub("Holder").wait0BesideTimers()],
    expected: {
      holder: ["microtask", "timeout 0", "wait 0", "timeout 20"],
    },
  },
];
