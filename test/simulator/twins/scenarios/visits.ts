/** Clients that go before they are answered, and clients whose frames are broken. */
import type { Lab, Scenario } from "../lab.ts";
import type { Visit } from "../probes/calls.ts";

/** The last thing that the door or its client does before the client goes. */
const STEP_MS = 20;
/** Longer than the door works. */
const A_WHILE_MS = 250;

/** A client visits, and goes while the door works. */
async function visitAndLeave(lab: Lab, what: Visit): Promise<void> {
  lab.visit(what);
  await lab.until("door", `begins ${what.split(" in ")[0]!}`);
  await lab.wait(STEP_MS);
  lab.leave();
  await lab.wait(A_WHILE_MS);
}

async function openSocket(lab: Lab): Promise<void> {
  lab.visit("socket");
  await lab.until("host", "starts with no sockets");
  await lab.wait(STEP_MS);
}

async function noteSockets(lab: Lab): Promise<void> {
  await lab.wait(A_WHILE_MS);
  lab.note("host", `${await lab.stub("Host").socketCount()} sockets`);
}

const FAILS =
  "socket fails: Error: WebSocket protocol error; protocolError.statusCode = 1002; " +
  "protocolError.description = Unknown opcode 3, attachment 1, state 2, 1 sockets";

export const visits: readonly Scenario[] = [
  {
    title: "code of a request whose client has gone never goes on from where it waits",
    phases: [(lab) => visitAndLeave(lab, "wait")],
    expected: { door: ["begins wait"] },
  },
  {
    title: "waitUntil lets the code of a request whose client has gone go on, with its calls",
    phases: [(lab) => visitAndLeave(lab, "wait in waitUntil")],
    expected: { door: ["begins wait", "goes on", "finally"], ear: ["afterwards"] },
  },
  {
    title: "a call of a request whose client has gone goes on in the object",
    phases: [
      async (lab) => {
        lab.visit("call");
        await lab.until("ear", "slow");
        lab.leave();
        await lab.wait(A_WHILE_MS);
      },
    ],
    expected: { door: ["begins call"], ear: ["slow", "slow is over"] },
  },
  {
    title: "a call in waitUntil is answered though the client of its request has gone",
    phases: [(lab) => visitAndLeave(lab, "call in waitUntil")],
    expected: {
      door: ["begins call", "goes on", "finally"],
      ear: ["slow", "slow is over", "afterwards"],
    },
  },
  {
    title: "the signal of a request says that its client has gone, in its last event",
    phases: [(lab) => visitAndLeave(lab, "signal")],
    expected: { door: ["begins signal", "hears the signal", "microtask"] },
  },
  {
    title: "waitUntil lets the code of a request go on behind its signal",
    phases: [(lab) => visitAndLeave(lab, "signal in waitUntil")],
    expected: {
      door: ["begins signal", "hears the signal", "microtask", "goes on", "finally"],
      ear: ["afterwards"],
    },
  },
  {
    title: "code that reads the body of a client that has gone never goes on",
    phases: [(lab) => visitAndLeave(lab, "body")],
    expected: { door: ["begins body", "reads"] },
  },
  {
    title: "within waitUntil, reading the body of a client that has gone fails",
    phases: [(lab) => visitAndLeave(lab, "body in waitUntil")],
    expected: {
      door: ["begins body", "reads", "body fails", "goes on", "finally"],
      ear: ["afterwards"],
    },
  },
  {
    title: "the body of an answer is cancelled when its client has gone",
    phases: [(lab) => visitAndLeave(lab, "stream")],
    expected: { door: ["begins stream", "piece 1", "is cancelled"] },
  },
  {
    title: "what a request has begun ends with its answer",
    phases: [
      async (lab) => {
        lab.visit("answer");
        await lab.until("door", "begins answer");
        await lab.wait(A_WHILE_MS);
      },
    ],
    expected: { door: ["begins answer"] },
  },
  {
    title: "what waitUntil holds goes on behind the answer of its request",
    phases: [
      async (lab) => {
        lab.visit("answer in waitUntil");
        await lab.until("door", "begins answer");
        await lab.wait(A_WHILE_MS);
      },
    ],
    expected: { door: ["begins answer", "goes on", "finally"], ear: ["afterwards"] },
  },
  {
    title: "a client that resets the connection of its WebSocket causes a close, and not an error",
    phases: [
      async (lab) => {
        await openSocket(lab);
        lab.leave();
        await noteSockets(lab);
      },
    ],
    expected: {
      host: [
        "starts with no sockets",
        "closed 1006 WebSocket disconnected without sending Close frame. unclean, attachment 1, state 2, 1 sockets",
        "0 sockets",
      ],
    },
  },
  {
    title: "a broken frame of a client causes an error of its socket, and no close behind it",
    phases: [
      async (lab) => {
        await openSocket(lab);
        lab.breakFrame();
        await noteSockets(lab);
      },
    ],
    expected: { host: ["starts with no sockets", FAILS, "0 sockets"] },
  },
  {
    title: "a broken frame wakes the object whose socket it ends",
    phases: [
      async (lab) => {
        await openSocket(lab);
        await lab.evict("Host");
        lab.breakFrame();
        await noteSockets(lab);
      },
    ],
    expected: {
      host: ["starts with no sockets", "starts with attachment 1", FAILS, "0 sockets"],
    },
  },
];
