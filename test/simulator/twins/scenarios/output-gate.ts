/** What waits for a row to be on disk, and what comes of it when the commit fails. */
import { COMMIT_FAILED, CUT, tell, type Lab, type Scenario } from "../lab.ts";
import type { WriterCalls } from "../probes/calls.ts";

/** Enough for what must not happen to happen. */
const A_WHILE_MS = 100;

async function preparedWriter(lab: Lab): Promise<WriterCalls> {
  const writer = lab.stub("Writer");
  await writer.prepare();
  return writer;
}

export const outputGate: readonly Scenario[] = [
  {
    title: "a reply waits for the commit of its row, and becomes an error when that fails",
    phases: [
      async (lab) => {
        const writer = await preparedWriter(lab);
        await tell(lab, "caller", writer.doom());
      },
    ],
    expected: { writer: ["writes"], caller: [COMMIT_FAILED] },
  },
  {
    title: "the error of a method waits for the commit of its row, and is replaced by the commit's",
    phases: [
      async (lab) => {
        const writer = await preparedWriter(lab);
        await tell(lab, "caller", writer.doomAndThrow());
      },
    ],
    expected: { writer: ["throws"], caller: [COMMIT_FAILED] },
  },
  {
    title: "a call that was answered before the row keeps its answer when the commit fails",
    phases: [
      async (lab) => {
        const writer = await preparedWriter(lab);
        await Promise.all([tell(lab, "read", writer.read()), tell(lab, "doom", writer.doom())]);
      },
    ],
    expected: { writer: ["reads", "writes"], read: ["read"], doom: [COMMIT_FAILED] },
  },
  {
    title:
      "all calls that wait for an object get the error of its failed commit, and only new stubs reach it again",
    phases: [
      async (lab) => {
        const writer = await preparedWriter(lab);
        const hanging = tell(lab, "hanging", lab.stub("Writer").hang());
        await lab.until("writer", "hangs");
        await Promise.all([hanging, tell(lab, "dooming", writer.doom())]);
        await tell(lab, "same stub", writer.read());
        await tell(lab, "new stub", lab.stub("Writer").read());
      },
    ],
    expected: {
      writer: ["hangs", "writes", "reads"],
      hanging: [COMMIT_FAILED],
      dooming: [COMMIT_FAILED],
      "same stub": [COMMIT_FAILED],
      "new stub": ["read"],
    },
  },
  {
    title: "RPC, fetch and socket messages that follow a row never leave when its commit fails",
    phases: [
      async (lab) => {
        const writer = await preparedWriter(lab);
        await tell(lab, "caller", writer.sendBehindDoomedRow());
        await lab.wait(A_WHILE_MS);
        lab.note("rows", await lab.stub("Writer").rows());
      },
    ],
    expected: {
      "ear's socket": ["in an earlier turn"],
      writer: ["sends"],
      caller: [COMMIT_FAILED],
      rows: [""],
    },
  },
  {
    title:
      "RPC and fetch that come before a row in its event never leave when its commit fails; socket messages do",
    phases: [
      async (lab) => {
        const writer = await preparedWriter(lab);
        await tell(lab, "caller", writer.sendBeforeDoomedRow());
        await lab.wait(A_WHILE_MS);
      },
    ],
    expected: {
      "ear's socket": ["before the row"],
      writer: ["sends"],
      caller: [COMMIT_FAILED],
    },
  },
  {
    title: "no sync, timer, call or waitUntil of an object settles after its commit has failed",
    phases: [
      async (lab) => {
        const writer = await preparedWriter(lab);
        await tell(lab, "caller", writer.waitBehindDoomedRow());
        await lab.wait(A_WHILE_MS);
      },
    ],
    expected: {
      ear: ["slow", "slow is over"],
      microtask: ["settles"],
      getAlarm: ["settles"],
      caller: [COMMIT_FAILED],
    },
  },
  {
    title: "what was synced stays when a later commit fails",
    phases: [
      async (lab) => {
        const writer = await preparedWriter(lab);
        await tell(lab, "caller", writer.syncThenDoom());
        lab.note("rows", await lab.stub("Writer").rows());
      },
    ],
    expected: {
      caller: [COMMIT_FAILED],
      rows: ["synced"],
    },
  },
  {
    title:
      "a socket message that follows a row never leaves when its commit fails, and the socket is cut",
    phases: [
      async (lab) => {
        await lab.stub("Host").prepare();
        const socket = await lab.connect("Host", "/", "client");
        socket.send("doom");
        await lab.until("client", CUT);
      },
    ],
    expected: {
      host: ["starts with no sockets", "doom, attachment 1"],
      client: [CUT],
    },
  },
];
