/** WebSockets of objects: hibernation, attachments, closing, and what cuts them. */
import { CUT, tell, type Scenario } from "../lab.ts";

const CLOSED_BY_CLIENT = "closed 4001 by the client clean, attachment 1, state 2, 1 sockets";

export const sockets: readonly Scenario[] = [
  {
    title: "messages of a socket arrive in order, the next one also while a handler waits",
    phases: [
      async (lab) => {
        const socket = await lab.connect("Host", "/", "client");
        for (const message of ["one", "slow", "two"]) socket.send(message);
        await lab.until("client", "re slow");
      },
    ],
    expected: {
      host: [
        "starts with no sockets",
        "one, attachment 1",
        "slow, attachment 1",
        "two, attachment 1",
      ],
      client: ["re one", "re two", "re slow"],
    },
  },
  {
    title: "an attachment is copied when it is stored",
    phases: [
      async (lab) => {
        const socket = await lab.connect("Host", "/", "client");
        socket.send("attach");
        socket.send("last");
        await lab.until("client", "re last");
      },
    ],
    expected: {
      client: ["re attach", "re last"],
      host: ["starts with no sockets", "attach, attachment 1", "last, attachment 2"],
    },
  },
  {
    title: "an attachment of more than 16,384 bytes is refused, and the one before stays",
    phases: [
      async (lab) => {
        const socket = await lab.connect("Host", "/", "client");
        socket.send("attach too much");
        socket.send("last");
        await lab.until("client", "re last");
      },
    ],
    expected: {
      host: [
        "starts with no sockets",
        "attach too much, attachment 1",
        "Error",
        "last, attachment 1",
      ],
      client: ["re attach too much", "re last"],
    },
  },
  {
    title: "bytes arrive as bytes",
    phases: [
      async (lab) => {
        const socket = await lab.connect("Host", "/", "client");
        socket.send(new Uint8Array([1, 2, 3]).subarray(1));
        await lab.until("host", "2 bytes");
      },
    ],
    expected: { host: ["starts with no sockets", "2 bytes"] },
  },
  {
    title: "a client that has closed still receives what a handler sends that was waiting",
    phases: [
      async (lab) => {
        const socket = await lab.connect("Host", "/", "client");
        socket.send("slow");
        await lab.until("host", "slow, attachment 1");
        socket.close(4001, "by the client");
        await lab.until("client", "re slow");
        await lab.until("host", CLOSED_BY_CLIENT);
      },
    ],
    expected: {
      host: ["starts with no sockets", "slow, attachment 1", CLOSED_BY_CLIENT],
      client: ["re slow"],
    },
  },
  {
    title: "no message is delivered while blockConcurrencyWhile runs",
    phases: [
      async (lab) => {
        const socket = await lab.connect("Host", "/", "client");
        const plain = await lab.connect("Host", "/plain", "plain client");
        const blocking = lab.stub("Host").block();
        await lab.until("host", "blocks");
        socket.send("one");
        plain.send("two");
        await blocking;
        await lab.until("client", "re one");
        await lab.until("plain client", "re two");
      },
    ],
    expected: {
      client: ["re one"],
      host: ["starts with no sockets", "blocks", "block ends", "one, attachment 1"],
      "plain socket": ["two"],
      "plain client": ["re two"],
    },
  },
  {
    title: "a handler that throws harms neither its socket nor its object",
    phases: [
      async (lab) => {
        const socket = await lab.connect("Host", "/", "client");
        socket.send("throw");
        socket.send("last");
        await lab.until("client", "re last");
      },
    ],
    expected: {
      client: ["re last"],
      host: ["starts with no sockets", "throw, attachment 1", "last, attachment 1"],
    },
  },
  {
    title: "the automatic answer comes without the object, also where it is evicted",
    phases: [
      async (lab) => {
        const socket = await lab.connect("Host", "/", "client");
        await lab.evict("Host");
        socket.send("ping");
        await lab.until("client", "pong");
      },
    ],
    expected: {
      client: ["pong"],
      host: ["starts with no sockets"],
    },
  },
  {
    title: "a socket that its client closes is still listed in its handler, and not afterwards",
    phases: [
      async (lab) => {
        const socket = await lab.connect("Host", "/", "client");
        socket.close(4001, "by the client");
        await lab.until("host", CLOSED_BY_CLIENT);
        await lab.wait(50);
        lab.note("host", `${await lab.stub("Host").socketCount()} sockets`);
      },
    ],
    expected: {
      host: ["starts with no sockets", CLOSED_BY_CLIENT, "0 sockets"],
    },
  },
  {
    title: "an object that closes a socket gets its close event, and can't send any more",
    phases: [
      async (lab) => {
        const socket = await lab.connect("Host", "/", "client");
        socket.send("close");
        await lab.until("client", "close 4000 by the host clean");
        await lab.wait(50);
        lab.note("host", `${await lab.stub("Host").socketCount()} sockets`);
        lab.note("client", `state ${socket.readyState}`);
      },
    ],
    expected: {
      client: ["close 4000 by the host clean", "state 3"],
      host: [
        "starts with no sockets",
        "close, attachment 1",
        "state 2, 1 sockets",
        "TypeError: Can't call WebSocket send() after close().",
        "closed 4000 by the host clean, attachment 1, state 3, 1 sockets",
        "0 sockets",
      ],
    },
  },
  {
    title:
      "a hibernating socket outlives an eviction with its attachment, and its message wakes the object",
    phases: [
      async (lab) => {
        const socket = await lab.connect("Host", "/", "client");
        socket.send("attach");
        await lab.until("client", "re attach");
        await lab.evict("Host");
        lab.note("host", "is evicted");
        socket.send("last");
        await lab.until("client", "re last");
      },
    ],
    expected: {
      host: [
        "starts with no sockets",
        "attach, attachment 1",
        "is evicted",
        "starts with attachment 2",
        "last, attachment 2",
      ],
      client: ["re attach", "re last"],
    },
  },
  {
    title: "an object that wakes for another reason can send to its sleeping sockets",
    phases: [
      async (lab) => {
        await lab.connect("Host", "/", "client");
        await lab.evict("Host");
        await lab.stub("Host").push("pushed");
        await lab.until("client", "pushed");
      },
    ],
    expected: {
      client: ["pushed"],
      host: ["starts with no sockets", "starts with attachment 1"],
    },
  },
  {
    title: "a socket that closes while its object sleeps wakes it",
    phases: [
      async (lab) => {
        const socket = await lab.connect("Host", "/", "client");
        await lab.evict("Host");
        socket.close(4001, "asleep");
        await lab.until("host", "closed 4001 asleep clean, attachment 1, state 2, 1 sockets");
      },
    ],
    expected: {
      host: [
        "starts with no sockets",
        "starts with attachment 1",
        "closed 4001 asleep clean, attachment 1, state 2, 1 sockets",
      ],
    },
  },
  {
    title:
      "a socket that closes behind a message which wakes its object is open until the event of its close",
    phases: [
      async (lab) => {
        const socket = await lab.connect("Host", "/", "client");
        await lab.evict("Host");
        socket.send("last");
        socket.close(4001, "asleep");
        await lab.until("host", "closed 4001 asleep clean, attachment 1, state 2, 1 sockets");
        await lab.wait(50);
      },
    ],
    expected: {
      client: ["re last"],
      host: [
        "starts with no sockets",
        "starts with attachment 1",
        "last, attachment 1",
        "closed 4001 asleep clean, attachment 1, state 2, 1 sockets",
      ],
    },
  },
  {
    title: "an abort cuts all sockets of the object, without any close event there",
    phases: [
      async (lab) => {
        await lab.connect("Host", "/", "client");
        await lab.connect("Host", "/plain", "plain client");
        await tell(lab, "caller", lab.stub("Host").abort("on purpose"));
        await lab.until("client", CUT);
        await lab.until("plain client", CUT);
        lab.note("host", `${await lab.stub("Host").socketCount()} sockets`);
      },
    ],
    expected: {
      client: [CUT],
      host: ["starts with no sockets", "starts with no sockets", "0 sockets"],
      caller: ["Error: on purpose (durableObjectReset)"],
      "plain client": [CUT],
    },
  },
  {
    title: "messages behind one that aborts the object are lost",
    phases: [
      async (lab) => {
        const socket = await lab.connect("Host", "/", "client");
        socket.send("abort");
        socket.send("behind");
        await lab.until("client", CUT);
        lab.note("host", `${await lab.stub("Host").socketCount()} sockets`);
      },
    ],
    expected: {
      host: [
        "starts with no sockets",
        "abort, attachment 1",
        "starts with no sockets",
        "0 sockets",
      ],
      client: [CUT],
    },
  },
  {
    title: "a fault that aborts all objects cuts all their sockets",
    phases: [
      async (lab) => {
        await lab.connect("Host", "/", "client");
        await lab.connect("Host", "/plain", "plain client");
        await lab.abortAll();
        await lab.until("client", CUT);
        await lab.until("plain client", CUT);
        lab.note("host", `${await lab.stub("Host").socketCount()} sockets`);
      },
    ],
    expected: {
      host: ["starts with no sockets", "starts with no sockets", "0 sockets"],
      "plain client": [CUT],
      client: [CUT],
    },
  },
];
