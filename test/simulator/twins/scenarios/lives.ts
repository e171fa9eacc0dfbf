/** Ends of an object: abort, a killed process, eviction; and what is left of its storage. */
import { tell, type Scenario } from "../lab.ts";

export const lives: readonly Scenario[] = [
  {
    title:
      "ctx.abort ends the turn at once: no line behind it runs, nothing of it is written, sent or goes on",
    phases: [
      async (lab) => {
        const writer = lab.stub("Writer");
        await writer.prepare();
        await tell(lab, "caller", writer.abortWithinTurn("on purpose"));
        await lab.wait(50);
        lab.note("rows", await lab.stub("Writer").rows());
      },
    ],
    expected: {
      caller: ["Error: on purpose (durableObjectReset)"],
      rows: [""],
    },
  },
  {
    title: "an abort takes back what its own turn has written, and nothing of the turns before",
    phases: [
      async (lab) => {
        const writer = lab.stub("Writer");
        await writer.prepare();
        await tell(lab, "caller", writer.abortAfterTurns("on purpose"));
        lab.note("rows", await lab.stub("Writer").rows());
      },
    ],
    expected: {
      caller: ["Error: on purpose (durableObjectReset)"],
      rows: ["first, second, with the second"],
    },
  },
  {
    title:
      "a process that is killed within a turn leaves what was synced, and nothing of that turn",
    phases: [
      async (lab) => {
        const writer = lab.stub("Writer");
        await writer.prepare();
        await writer.dieWithinTurn();
      },
      async (lab) => lab.note("rows", await lab.stub("Writer").rows()),
    ],
    expected: {
      rows: ["synced"],
    },
  },
  {
    title:
      "calls in flight fail when all objects are aborted, and a new stub reaches a new instance",
    phases: [
      async (lab) => {
        const ear = lab.stub("Ear");
        const hanging = tell(lab, "caller", ear.hang());
        await lab.until("ear", "hangs");
        await lab.abortAll();
        await hanging;
        await tell(lab, "same stub", ear.hear("by the same stub"));
        await tell(lab, "new stub", lab.stub("Ear").hear("by a new stub"));
      },
    ],
    expected: {
      ear: ["hangs", "by a new stub"],
      caller: ["Error: Application called abortAllDurableObjects()."],
      "same stub": ["Error: Application called abortAllDurableObjects()."],
      "new stub": ["heard by a new stub"],
    },
  },
  {
    title: "an eviction waits for calls, and stubs reach the new instance",
    phases: [
      async (lab) => {
        const ear = lab.stub("Ear");
        const call = tell(lab, "caller", ear.hearSlowly("slow"));
        await lab.until("ear", "slow");
        await lab.evict("Ear");
        lab.note("ear", "is evicted");
        await call;
        await tell(lab, "same stub", ear.hear("by the same stub"));
      },
    ],
    expected: {
      ear: ["slow", "slow is over", "is evicted", "by the same stub"],
      caller: ["heard slow"],
      "same stub": ["heard by the same stub"],
    },
  },
  {
    title: "an eviction waits for timers",
    phases: [
      async (lab) => {
        const host = lab.stub("Host");
        await host.startTimers();
        await lab.evict("Host");
        lab.note("host", "is evicted");
        await host.socketCount();
      },
    ],
    expected: {
      host: ["starts with no sockets", "timer", "is evicted", "starts with no sockets"],
      wait: ["settles"],
    },
  },
  {
    title: "an eviction waits for what an object holds by waitUntil",
    phases: [
      async (lab) => {
        const host = lab.stub("Host");
        await host.holdByWaitUntil();
        await lab.evict("Host");
        lab.note("host", "is evicted");
        await host.socketCount();
      },
    ],
    expected: {
      host: [
        "starts with no sockets",
        "goes on in waitUntil",
        "is evicted",
        "starts with no sockets",
      ],
    },
  },
  {
    title: "deleteAll removes tables and keys at once, and new ones can be made",
    phases: [
      async (lab) => {
        const writer = lab.stub("Writer");
        await writer.prepare();
        await tell(lab, "caller", writer.deleteAll());
      },
    ],
    expected: {
      writer: ["has 0 tables, and undefined"],
      caller: ["new"],
    },
  },
];
