/** Calls to objects: when arguments are copied, in which order they arrive, and what is left of a stub after an error. */
import { tell, type Scenario } from "../lab.ts";

export const stubs: readonly Scenario[] = [
  {
    title:
      "arguments and results are copied when the call is made and when the method has returned",
    phases: [
      async (lab) => {
        const writer = lab.stub("Writer");
        await writer.prepare();
        const { count, bytes } = await writer.passAndChange();
        lab.note("caller", `gets ${count} ${bytes.join()} of ${bytes.buffer.byteLength}`);
      },
    ],
    expected: {
      ear: ["takes 1 2,3 of 4"],
      writer: ["gets back 1 2,3"],
      caller: ["gets 1 2,3 of 4"],
    },
  },
  {
    title: "calls on one stub arrive in their order, whether they wait for a row or not",
    phases: [
      async (lab) => {
        const writer = lab.stub("Writer");
        await writer.prepare();
        await writer.sendAroundRow();
      },
    ],
    expected: {
      ear: ["before the row", "behind the row", "last"],
    },
  },
  {
    title:
      "calls on each of two stubs of an object arrive in their order, also where one of them throws",
    phases: [
      async (lab) => {
        const [one, two] = [lab.stub("Ear"), lab.stub("Ear")];
        const calls = [0, 1, 2, 3].flatMap((i) => [
          one.hearAs("by one", `${i}`),
          tell(lab, "failing", one.throwError("built in")),
          two.hearAs("by two", `${i}`),
        ]);
        await Promise.all(calls);
      },
    ],
    expected: {
      "by one": ["0", "1", "2", "3"],
      "by two": ["0", "1", "2", "3"],
      failing: Array.from({ length: 4 }, () => "RangeError: too far (remote)"),
    },
  },
  {
    title:
      "calls on another stub of an object that was reset fail, and none of them reaches the new instance",
    phases: [
      async (lab) => {
        const [one, two] = [lab.stub("Ear"), lab.stub("Ear")];
        await Promise.all([one.hear("first"), two.hearAs("by two", "first")]);
        await tell(lab, "aborting", one.abort("on purpose"));
        const fresh = lab.stub("Ear");
        await Promise.all([
          tell(lab, "two", two.hear("by a broken stub")),
          fresh.hear("second"),
          tell(lab, "two", two.hear("by a broken stub")),
          fresh.hear("third"),
        ]);
      },
    ],
    expected: {
      ear: ["first", "second", "third"],
      "by two": ["first"],
      aborting: ["Error: on purpose (durableObjectReset)"],
      two: ["Error: on purpose (durableObjectReset)", "Error: on purpose (durableObjectReset)"],
    },
  },
  {
    title: "calls wait for an object that is still starting, and keep their order",
    phases: [
      async (lab) => {
        const starter = lab.stub("SlowStarter");
        await Promise.all(["one", "two", "three"].map((line) => starter.call(line)));
      },
    ],
    expected: {
      ear: ["from the constructor"],
      starter: ["one, ready", "two, ready", "three, ready"],
    },
  },
  {
    title:
      "calls to an object that can't start fail with the error of its constructor, and a new stub tries again",
    phases: [
      async (lab) => {
        const starter = lab.stub("FaultyStarter");
        await Promise.all([
          tell(lab, "one", starter.call("one")),
          tell(lab, "two", starter.call("two")),
        ]);
        await tell(lab, "same stub", starter.call("three"));
        await tell(lab, "new stub", lab.stub("FaultyStarter").call("four"));
      },
    ],
    expected: {
      starter: ["can't start", "can't start"],
      one: ["RangeError: no start (durableObjectReset)"],
      two: ["RangeError: no start (durableObjectReset)"],
      "same stub": ["RangeError: no start (durableObjectReset)"],
      "new stub": ["RangeError: no start (durableObjectReset)"],
    },
  },
  {
    title: "a constructor that throws runs again for each new stub",
    phases: [
      async (lab) => {
        const starter = lab.stub("ThrowingStarter");
        await tell(lab, "caller", starter.call("one"));
        await tell(lab, "same stub", starter.call("two"));
        await tell(lab, "new stub", lab.stub("ThrowingStarter").call("three"));
      },
    ],
    expected: {
      starter: ["throws", "throws"],
      caller: ["RangeError: no start (durableObjectReset)"],
      "same stub": ["RangeError: no start (durableObjectReset)"],
      "new stub": ["RangeError: no start (durableObjectReset)"],
    },
  },
  {
    title:
      "an error that a method throws reaches the caller with its name, and the stub stays whole",
    phases: [
      async (lab) => {
        const ear = lab.stub("Ear");
        await tell(lab, "caller", ear.throwError("built in"));
        await tell(lab, "caller", ear.throwError("of its own"));
        await tell(lab, "caller", ear.throwError("text"));
        await tell(lab, "caller", ear.hear("afterwards"));
      },
    ],
    expected: {
      caller: [
        "RangeError: too far (remote)",
        "FarError: too far (remote)",
        "Error: too far (remote)",
        "heard afterwards",
      ],
      ear: ["afterwards"],
    },
  },
  {
    title: "an error of a class of its own keeps its fields, and loses its class",
    phases: [
      async (lab) => {
        const error: unknown = await lab
          .stub("Ear")
          .throwError("of its own")
          .catch((error: unknown) => error);
        if (!(error instanceof Error)) throw new Error("no error");
        lab.note("caller", `${error.constructor.name}, code ${String(Reflect.get(error, "code"))}`);
      },
    ],
    expected: { caller: ["Error, code far"] },
  },
  {
    title:
      "all stubs that were used before a reset stay broken, and a new one reaches a new instance",
    phases: [
      async (lab) => {
        const [one, two, unused] = [lab.stub("Ear"), lab.stub("Ear"), lab.stub("Ear")];
        await one.hear("first");
        await two.hear("second");
        const hanging = [tell(lab, "one", one.hang()), tell(lab, "two", two.hang())];
        await lab.until("ear", "hangs", 2);
        await tell(lab, "aborting", one.abort("on purpose"));
        await Promise.all(hanging);
        await tell(lab, "one", one.hear("by a used stub"));
        await tell(lab, "two", two.hear("by another used stub"));
        await tell(lab, "unused", unused.hear("by an unused stub"));
        await tell(lab, "new", lab.stub("Ear").hear("by a new stub"));
      },
    ],
    expected: {
      ear: ["first", "second", "hangs", "hangs", "by an unused stub", "by a new stub"],
      one: ["Error: on purpose (durableObjectReset)", "Error: on purpose (durableObjectReset)"],
      two: ["Error: on purpose (durableObjectReset)", "Error: on purpose (durableObjectReset)"],
      aborting: ["Error: on purpose (durableObjectReset)"],
      unused: ["heard by an unused stub"],
      new: ["heard by a new stub"],
    },
  },
  {
    title:
      "calls on a stub behind one that resets the object fail with it, and are never delivered",
    phases: [
      async (lab) => {
        const ear = lab.stub("Ear");
        await ear.hear("first");
        const calls = [ear.abort("on purpose"), ear.hear("behind"), ear.hear("last")];
        await Promise.all(calls.map(async (call, i) => await tell(lab, `call ${i}`, call)));
      },
    ],
    expected: {
      ear: ["first"],
      "call 0": ["Error: on purpose (durableObjectReset)"],
      "call 1": ["Error: on purpose (durableObjectReset)"],
      "call 2": ["Error: on purpose (durableObjectReset)"],
    },
  },
  {
    title: "a call goes on in the callee when its caller was reset, and its answer is lost",
    phases: [
      async (lab) => {
        await tell(lab, "caller", lab.stub("Writer").abortWhileCalling());
        await lab.wait(100);
      },
    ],
    expected: {
      ear: ["slow", "slow is over"],
      caller: ["Error: while a call is on its way (durableObjectReset)"],
    },
  },
];
