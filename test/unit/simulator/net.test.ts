import { describe, expect, test } from "vitest";
import { inMacrotask } from "../../simulator/kernel/drain.ts";
import { Random } from "../../simulator/kernel/random.ts";
import { Trace } from "../../simulator/kernel/trace.ts";
import { VirtualTime } from "../../simulator/kernel/virtual-time.ts";
import { globalsOf } from "../../simulator/platform/globals.ts";
import { calm } from "../../simulator/platform/faults.ts";
import { LifeOver, type Life } from "../../simulator/platform/life.ts";
import { ClientWebSocket } from "../../simulator/platform/net/client-web-socket.ts";
import { exchange, type Door, type Serve } from "../../simulator/platform/net/exchange.ts";
import {
  HibernatingSockets,
  RequestResponsePair,
  type SocketHandlers,
} from "../../simulator/platform/net/hibernation.ts";
import { IdentityTransformStream } from "../../simulator/platform/net/byte-stream.ts";
import type { Link } from "../../simulator/platform/net/link.ts";
import { SimRequest, SimResponse } from "../../simulator/platform/net/messages.ts";
import { INTERNAL, INTERNET, makeBlob, Network } from "../../simulator/platform/net/network.ts";
import { connectTcp, type SimSocket, type TcpClient } from "../../simulator/platform/net/tcp.ts";
import { endOf, type SimWebSocket } from "../../simulator/platform/net/web-socket.ts";
import { RunningLife } from "../../simulator/platform/running-life.ts";
import { Machine, type Site } from "../../simulator/platform/site.ts";

/** A life without storage: everything is durable at once, unless the test holds it back. */
class BareLife extends RunningLife {
  /** What waits for writes to be durable; null when nothing has to. */
  gate: (() => void)[] | null = null;

  override whenDurable(send: () => void): void {
    if (this.gate === null) send();
    else this.gate.push(send);
  }

  openGate(): void {
    const waiting = this.gate ?? [];
    this.gate = null;
    for (const send of waiting) if (!this.isOver) send();
  }
}

/** An object of one Hub's kind: lives that come and go, and sockets that stay. */
class BareObject {
  life: BareLife;
  readonly sockets: HibernatingSockets;
  readonly heard: string[] = [];
  handlers: SocketHandlers;
  readonly #world: World;

  constructor(world: World) {
    this.#world = world;
    this.life = world.life("object");
    this.sockets = new HibernatingSockets(
      {
        wake: (_what, event) => void event(this.handlers, this.life),
        get clockMs() {
          return world.time.nowMs;
        },
      },
      makeBlob,
    );
    this.handlers = {
      webSocketMessage: (_socket, message) => {
        this.heard.push(typeof message === "string" ? message : `${message.byteLength} bytes`);
      },
      webSocketClose: (socket, code, reason, wasClean) => {
        this.heard.push(`close ${code} ${reason} ${wasClean} state ${socket.readyState}`);
        socket.close(code >= 3000 ? code : 1000);
      },
    };
  }

  get context() {
    return this.sockets.contextOf(this.life);
  }

  /** A socket that the object has accepted, and the other end, which is on its way to its peer. */
  open(tags: string[] = []): { server: SimWebSocket; client: SimWebSocket } {
    const [client, server] = this.#world.network.pair(this.life);
    this.context.acceptWebSocket(server, tags);
    return { server, client };
  }

  /** The object is evicted: the next event has a new life. */
  sleep(): void {
    this.life.isOver = true;
    this.life = this.#world.life("object again");
  }

  crash(): void {
    this.life.break("by the test");
    this.sockets.loseAll();
    this.life = this.#world.life("object after crash");
  }
}

class World {
  readonly time = new VirtualTime(() => {
    this.#site.running = null;
  });
  readonly trace = new Trace(this.time);
  readonly random: Random;
  readonly network: Network;
  readonly #site: Site;
  readonly #machine = new Machine(this.time, "machine");

  constructor(seed: number) {
    this.random = new Random(seed);
    const { time, trace } = this;
    this.network = new Network({ time, trace, random: this.random.fork("net") });
    const faults = calm(this.random.fork("calm"));
    this.#site = {
      time,
      trace,
      random: this.random,
      faults,
      network: this.network,
      running: null,
      onError: () => {},
    };
  }

  life(name: string): BareLife {
    return new BareLife(this.#site, this.#machine, "client", name);
  }

  run(ms = 60_000): void {
    this.time.runUntil(this.time.nowMs + ms);
  }
}

/** The body of a test that runs as the simulator does: without Node's event loop. */
function simulated(body: (world: World) => void): () => Promise<void> {
  return async () => await inMacrotask(() => body(new World(42)));
}

interface Heard {
  readonly events: string[];
}

function listen(socket: SimWebSocket | ClientWebSocket): Heard {
  const events: string[] = [];
  const state = (): string => `state ${socket.readyState}`;
  socket.binaryType = "arraybuffer";
  socket.addEventListener("message", ({ data }: { data: string | ArrayBuffer }) => {
    events.push(typeof data === "string" ? data : `bytes ${new Uint8Array(data).join()}`);
  });
  socket.addEventListener("close", (event: { code: number; reason: string; wasClean: boolean }) => {
    events.push(`close ${event.code} ${event.reason} ${event.wasClean} ${state()}`);
  });
  socket.addEventListener("error", () => void events.push(`error ${state()}`));
  socket.addEventListener("open", () => void events.push("open"));
  return { events };
}

const GONE = "WebSocket disconnected without sending Close frame.";

describe("a link", () => {
  /** A link whose sides note what they hear. */
  function noted(world: World): { link: Link<number>; heard: [unknown[], unknown[]] } {
    const link = world.network.link<number>({ name: "link", latencyMs: INTERNET });
    const heard: [unknown[], unknown[]] = [[], []];
    for (const side of [0, 1] as const) {
      link.attach(side, {
        receive: (message) => void heard[side].push(message),
        lose: () => void heard[side].push(`lost after ${Math.ceil(world.time.elapsedMs)}`),
      });
    }
    return { link, heard };
  }

  test(
    "keeps the order of each direction, whatever the delays",
    simulated((world) => {
      const { link, heard } = noted(world);
      const numbers = Array.from({ length: 100 }, (_, i) => i);
      for (const i of numbers) link.send((i % 2) as 0 | 1, i, 1);
      world.run(120);
      expect(heard).toEqual([
        numbers.filter((i) => i % 2 === 1),
        numbers.filter((i) => i % 2 === 0),
      ]);
    }),
  );

  test(
    "that was cut carries nothing any more, and tells each side when the fault says so",
    simulated((world) => {
      const { link, heard } = noted(world);
      link.cut([500, 2000]);
      link.send(0, 1, 1);
      link.send(1, 2, 1);
      world.run();
      expect(heard).toEqual([["lost after 500"], ["lost after 2000"]]);
      link.cut();
      link.abandon(0);
      world.run();
      expect(heard.flat().length).toBe(2);
    }),
  );

  test(
    "that one end has abandoned delivers what that end had sent, and tells the other one alone",
    simulated((world) => {
      const { link, heard } = noted(world);
      link.send(0, 1, 1);
      link.send(1, 2, 1);
      link.abandon(0);
      world.run();
      expect(heard).toEqual([[], [1, expect.stringMatching(/^lost after/)]]);
    }),
  );

  test(
    "holds the loss of a connection back from a reader that is stalled no longer than it takes to notice",
    simulated((world) => {
      const { link, heard } = noted(world);
      link.stall(1);
      link.send(0, 1, 1);
      world.run(500);
      expect(heard).toEqual([[], []]);
      link.abandon(0);
      world.run(500);
      expect(heard[1][0]).toBe(1);
      expect(heard[1].length).toBe(2);
    }),
  );
});

describe("a WebSocket pair in one isolate", () => {
  test(
    "delivers what was sent before the other end was accepted",
    simulated((world) => {
      const life = world.life("door");
      const [one, other] = world.network.pair(life);
      one.accept();
      const bytes = new Uint8Array([1, 2, 3]);
      one.send("early");
      one.send(bytes.subarray(1));
      bytes.fill(9);
      world.run();
      const { events } = listen(other);
      other.accept();
      world.run();
      expect(events).toEqual(["early", "bytes 2,3"]);
    }),
  );

  test(
    "answers a close by itself, as workerd does",
    simulated((world) => {
      const [one, other] = world.network.pair(world.life("door"));
      const heard = [listen(one), listen(other)];
      one.accept();
      other.accept();
      one.send("last");
      one.close(4000, "bye");
      expect(() => one.send("more")).toThrow("Can't call WebSocket send() after close().");
      expect(one.readyState).toBe(2);
      world.run();
      expect(heard[0]!.events).toEqual(["close 4000 bye true state 3"]);
      expect(heard[1]!.events).toEqual(["last", "close 4000 bye true state 3", "error state 3"]);
      one.close(1000);
      expect(() => other.send("more")).toThrow("after close()");
    }),
  );

  test(
    "refuses codes and reasons that no close frame can have",
    simulated((world) => {
      const [one] = world.network.pair(world.life("door"));
      expect(() => one.send("x")).toThrow("You must call one of accept()");
      one.accept();
      for (const code of [999, 1004, 1005, 1006, 1015, 5000]) {
        expect(() => one.close(code)).toThrow(`Invalid WebSocket close code: ${code}.`);
      }
      expect(() => one.close(undefined, "why")).toThrow("must also specify a code");
      expect(() => one.close(4000, "é".repeat(62))).toThrow("123 bytes");
      one.close(2999, "é".repeat(61));
    }),
  );

  test(
    "is dead after one of its listeners has thrown, and its peer sees it gone",
    simulated((world) => {
      const [one, other] = world.network.pair(world.life("door"));
      const heard = listen(other);
      one.accept();
      other.accept();
      one.addEventListener("message", () => {
        throw new Error("in listener");
      });
      other.send("1");
      expect(() => world.run()).toThrow("in listener");
      world.run();
      expect(one.readyState).toBe(3);
      expect(heard.events).toEqual(["error state 3", `close 1006 ${GONE} false state 3`]);
    }),
  );
});

describe("a hibernatable WebSocket", () => {
  test(
    "delivers messages and closes to the object, asleep or awake",
    simulated((world) => {
      const object = new BareObject(world);
      const { server, client } = object.open(["tag"]);
      server.serializeAttachment({ id: new Uint8Array([7]) });
      const door = world.network.passSocket(client, world.life("door"), INTERNAL);
      const { events } = listen(door);
      door.accept();
      door.send("awake");
      world.run();
      object.sleep();
      door.send(new Uint8Array(3));
      door.close(4004, "bye");
      world.run();
      expect(object.heard).toEqual(["awake", "3 bytes", "close 4004 bye true state 2"]);
      expect(events).toEqual(["close 4004  true state 3"]);
      expect(object.context.getWebSockets()).toEqual([]);
    }),
  );

  test(
    "keeps attachment, tags and state over sleep, and lists the newest first",
    simulated((world) => {
      const object = new BareObject(world);
      const first = object.open(["a"]).server;
      const second = object.open(["a", "b"]).server;
      first.serializeAttachment({ id: new Uint8Array([7]) });
      second.close(4001, "over");
      expect(object.context.getWebSockets()).toEqual([second, first]);
      object.sleep();
      const [newest, oldest] = object.context.getWebSockets();
      expect(oldest).not.toBe(first);
      expect(object.context.getWebSockets()[1]).toBe(oldest);
      expect(oldest!.deserializeAttachment()).toEqual({ id: new Uint8Array([7]) });
      expect(newest!.deserializeAttachment()).toBeNull();
      expect([newest!.readyState, oldest!.readyState]).toEqual([2, 1]);
      expect(object.context.getTags(newest!)).toEqual(["a", "b"]);
      expect(object.context.getWebSockets("b")).toEqual([newest]);
      expect(() => first.send("x")).toThrow(LifeOver);
    }),
  );

  test(
    "limits the attachment to 16,384 bytes of the platform's own format",
    simulated((world) => {
      const { server } = new BareObject(world).open();
      server.serializeAttachment("x".repeat(16_379));
      expect(() => server.serializeAttachment("x".repeat(16_380))).toThrow(
        "'attachment' was 16385 bytes",
      );
      expect(() => server.serializeAttachment(new Uint8Array(16_380))).toThrow(
        "'attachment' was 16391 bytes",
      );
      expect(() => server.serializeAttachment(() => 1)).toThrow("could not be cloned");
      expect((server.deserializeAttachment() as string).length).toBe(16_379);
    }),
  );

  test(
    "is listed until its peer has answered the object's close",
    simulated((world) => {
      const object = new BareObject(world);
      const { server, client } = object.open();
      const door = world.network.passSocket(client, world.life("door"), INTERNAL);
      const { events } = listen(door);
      door.accept();
      server.send("last");
      server.close(4002, "early");
      door.send("crossing");
      expect(object.context.getWebSockets().length).toBe(1);
      world.run();
      expect(events).toEqual(["last", "close 4002 early true state 3", "error state 3"]);
      expect(object.heard).toEqual(["crossing", "close 4002 early true state 3"]);
      expect(object.context.getWebSockets()).toEqual([]);
    }),
  );

  test(
    "answers pings without the object, in the order of its messages",
    simulated((world) => {
      const object = new BareObject(world);
      object.context.setWebSocketAutoResponse(new RequestResponsePair("ping", "pong"));
      const { server, client } = object.open();
      const door = world.network.passSocket(client, world.life("door"), INTERNAL);
      const { events } = listen(door);
      door.accept();
      expect(object.context.getWebSocketAutoResponseTimestamp(server)).toBeNull();
      object.sleep();
      door.send("ping");
      door.send("more");
      world.run(1000);
      expect(events).toEqual(["pong"]);
      expect(object.heard).toEqual(["more"]);
      const [again] = object.context.getWebSockets();
      const answeredAt = object.context.getWebSocketAutoResponseTimestamp(again!)!.getTime();
      expect(answeredAt).toBeLessThan(world.time.nowMs);
    }),
  );

  test(
    "ends with its object's crash, which only the peer hears of",
    simulated((world) => {
      const object = new BareObject(world);
      const { client } = object.open();
      const door = world.network.passSocket(client, world.life("door"), INTERNAL);
      const { events } = listen(door);
      door.accept();
      object.crash();
      door.send("lost");
      world.run();
      expect(events).toEqual(["error state 3", `close 1006 ${GONE} false state 3`]);
      expect(object.heard).toEqual([]);
      expect(object.context.getWebSockets()).toEqual([]);
      door.send("silent");
      door.close(1000);
    }),
  );

  test(
    "sends what waits for a commit only when it is durable",
    simulated((world) => {
      const object = new BareObject(world);
      const { server, client } = object.open();
      const door = world.network.passSocket(client, world.life("door"), INTERNAL);
      const { events } = listen(door);
      door.accept();
      object.life.gate = [];
      server.send("held");
      world.run();
      expect(events).toEqual([]);
      object.life.openGate();
      world.run();
      expect(events).toEqual(["held"]);
    }),
  );

  test(
    "is lost when the isolate that got it ends without accepting it",
    simulated((world) => {
      const object = new BareObject(world);
      const { client } = object.open();
      const door = world.life("door");
      world.network.passSocket(client, door, INTERNAL);
      world.run();
      door.break("by the test");
      world.run();
      expect(object.heard).toEqual([`close 1006 ${GONE} false state 2`]);
      expect(object.context.getWebSockets()).toEqual([]);
    }),
  );
});

/** A door whose `fetch` opens a WebSocket to an object. */
function doorTo(object: BareObject, door: BareLife, network: Network): Door {
  return serving(door, async () => {
    const { client } = object.open();
    const webSocket = network.passSocket(client, door, INTERNAL);
    return await Promise.resolve(
      new SimResponse(null, {
        status: 101,
        webSocket,
        headers: { "sec-websocket-protocol": "throttr" },
      }),
    );
  });
}

const serving = (life: BareLife, serve: Serve): Door => ({
  enter: (event) => event(life, serve, () => true),
});

function dialed(
  world: World,
  object: BareObject,
): { socket: ClientWebSocket; events: string[]; life: BareLife } {
  const door = doorTo(object, world.life("door"), world.network);
  const life = world.life("client");
  const socket = new ClientWebSocket(
    life,
    (request) => exchange(world.network, life, door, request),
    "ws://server/throttr",
    ["throttr", "bearer.x"],
  );
  return { socket, events: listen(socket).events, life };
}

describe("a client's WebSocket", () => {
  test(
    "opens through a door, and goes on without it",
    simulated((world) => {
      const object = new BareObject(world);
      object.handlers.webSocketMessage = (socket, message) => socket.send(message);
      const { socket, events } = dialed(world, object);
      expect(() => socket.send("too soon")).toThrow("Sent before connected.");
      world.run();
      expect(socket.protocol).toBe("throttr");
      for (let i = 0; i < 20; i++) socket.send(String(i));
      world.run();
      socket.close(4000, "done");
      world.run();
      expect(events).toEqual([
        "open",
        ...Array.from({ length: 20 }, (_, i) => String(i)),
        "close 4000  true state 3",
      ]);
      expect(object.context.getWebSockets()).toEqual([]);
      expect(world.network.links.size).toBe(0);
    }),
  );

  test(
    "answers a close of the server, which then forgets the socket",
    simulated((world) => {
      const object = new BareObject(world);
      const { events } = dialed(world, object);
      world.run();
      const [server] = object.context.getWebSockets();
      server!.send("last");
      server!.close(4009, "enough");
      world.run();
      expect(events).toEqual(["open", "last", "close 4009 enough true state 3"]);
      expect(object.heard).toEqual(["close 4009 enough true state 3"]);
      expect(world.network.links.size).toBe(0);
    }),
  );

  test(
    "leaves a close unanswered as long as it says, and is heard meanwhile, also by an object that has slept",
    simulated((world) => {
      const object = new BareObject(world);
      const { socket, events } = dialed(world, object);
      const codes: number[] = [];
      socket.leavesCloseMs = (code) => {
        codes.push(code);
        return 20_000;
      };
      world.run();
      object.context.getWebSockets()[0]!.close(4009, "enough");
      world.run(5000);
      expect(object.sockets.awaitsClose).toBe(true);
      object.sleep();
      socket.send("late");
      world.run(5000);
      expect(object.heard).toEqual(["late"]);
      expect(events).toEqual(["open"]);
      world.run(20_000);
      expect(codes).toEqual([4009]);
      expect(object.heard).toEqual(["late", "close 4009 enough true state 3"]);
      expect(events).toEqual(["open", "close 4009 enough true state 3"]);
      expect(object.sockets.awaitsClose).toBe(false);
      expect(world.network.links.size).toBe(0);
    }),
  );

  test(
    "answers a close that it has left unanswered when it closes itself",
    simulated((world) => {
      const object = new BareObject(world);
      const { socket, events } = dialed(world, object);
      socket.leavesCloseMs = () => 20_000;
      world.run();
      object.context.getWebSockets()[0]!.close(4009, "enough");
      world.run(5000);
      socket.close(1000);
      world.run(2000);
      expect(events).toEqual(["open", "close 4009 enough true state 3"]);
      expect(object.heard).toEqual(["close 4009 enough true state 3"]);
      expect(world.network.links.size).toBe(0);
    }),
  );

  test(
    "fails when the door refuses it",
    simulated((world) => {
      const life = world.life("client");
      const door = serving(
        world.life("door"),
        async () => await Promise.resolve(new SimResponse(null, { status: 503 })),
      );
      const socket = new ClientWebSocket(
        life,
        (request) => exchange(world.network, life, door, request),
        "ws://server/",
      );
      const { events } = listen(socket);
      world.run();
      expect(events).toEqual(["error state 0", "close 1006  false state 3"]);
    }),
  );

  test(
    "is cut: a part of what is under way arrives, and each side notices in its own time",
    simulated((world) => {
      const object = new BareObject(world);
      const { socket, events } = dialed(world, object);
      world.run();
      for (let i = 0; i < 50; i++) socket.send(String(i));
      world.time.runUntil(world.time.nowMs + 1);
      socket.link!.cut([5000, 100]);
      world.run(4000);
      const messages = object.heard.slice(0, -1);
      expect(messages).toEqual(Array.from({ length: messages.length }, (_, i) => String(i)));
      expect(messages.length).toBeLessThan(50);
      expect(object.heard.at(-1)).toBe(`close 1006 ${GONE} false state 2`);
      expect(events).toEqual(["open"]);
      socket.send("into the void");
      world.run(4000);
      expect(events).toEqual(["open", "error state 1", "close 1006  false state 3"]);
      expect(world.network.links.size).toBe(0);
    }),
  );

  test(
    "that does not read gets everything when it reads on",
    simulated((world) => {
      const object = new BareObject(world);
      const { socket, events } = dialed(world, object);
      world.run();
      const link = socket.link!;
      const [server] = object.context.getWebSockets();
      const side = endOf(server!).peer.side;
      link.stall(side);
      for (let i = 0; i < 5; i++) server!.send(String(i));
      world.run();
      expect(events).toEqual(["open"]);
      expect(link.unreceivedBytes(endOf(server!).side)).toBe(5);
      link.resume(side);
      server!.send("5");
      world.run();
      expect(events).toEqual(["open", "0", "1", "2", "3", "4", "5"]);
    }),
  );

  test(
    "ends with the client's process",
    simulated((world) => {
      const object = new BareObject(world);
      const { life } = dialed(world, object);
      world.run();
      life.break("by the test");
      world.run();
      expect(object.heard).toEqual([`close 1006 ${GONE} false state 2`]);
    }),
  );
});

describe("an exchange of HTTP", () => {
  const client = (world: World, serve: (request: SimRequest) => Promise<SimResponse>) => {
    const door = world.life("door");
    const life = world.life("client");
    const send = (request: SimRequest): Promise<SimResponse> =>
      exchange(world.network, life, serving(door, serve), request);
    return { send, door, life };
  };

  test.each([0, 1, 100, 70_000, 300_000])(
    "carries bodies of %i bytes both ways",
    async (length) => {
      await inMacrotask(() => {
        for (let seed = 0; seed < 10; seed++) {
          const world = new World(seed);
          const sent = world.random.bytes(length);
          const { send } = client(world, async (request) => {
            const body = new Uint8Array(await request.arrayBuffer());
            return new SimResponse(body, {
              headers: { "x-length": request.headers.get("content-length") ?? "none" },
            });
          });
          let received: Uint8Array | null = null;
          let header: string | null = null;
          void send(new SimRequest("http://server/", { method: "POST", body: sent })).then(
            async (response) => {
              header = response.headers.get("x-length");
              received = await response.bytes();
            },
          );
          world.run();
          expect(header).toBe(length === 0 ? "none" : String(length));
          expect(Buffer.compare(received!, sent)).toBe(0);
          expect(world.network.links.size).toBe(0);
        }
      });
    },
  );

  test(
    "streams at the pace of the reader",
    simulated((world) => {
      let written = 0;
      const { send } = client(world, async () => {
        const { readable, writable } = new IdentityTransformStream();
        void (async () => {
          const writer = writable.getWriter();
          for (let i = 0; i < 100; i++) {
            await writer.write(new Uint8Array(10_000));
            written += 10_000;
          }
          await writer.close();
        })();
        return await Promise.resolve(new SimResponse(readable));
      });
      let response: SimResponse | null = null;
      void send(new SimRequest("http://server/")).then((answer) => (response = answer));
      world.run();
      expect(written).toBeGreaterThan(60_000);
      expect(written).toBeLessThan(100_000);
      let read = 0;
      void response!.arrayBuffer().then(({ byteLength }) => (read = byteLength));
      world.run();
      expect([written, read]).toEqual([1_000_000, 1_000_000]);
    }),
  );

  test(
    "ends a write that its client does not read when the writer aborts",
    simulated((world) => {
      const ended: string[] = [];
      let writer: WritableStreamDefaultWriter<Uint8Array> | null = null;
      const { send } = client(world, async () => {
        const { readable, writable } = new IdentityTransformStream();
        writer = writable.getWriter();
        for (let i = 0; i < 100; i++) {
          writer.write(new Uint8Array(10_000)).catch((error: unknown) => ended.push(String(error)));
        }
        return await Promise.resolve(new SimResponse(readable));
      });
      let response: SimResponse | null = null;
      void send(new SimRequest("http://server/")).then((answer) => (response = answer));
      world.run();
      world.time.after(0, () => void writer!.abort(new Error("stalled")).catch(() => {}));
      world.run();
      expect(ended.length).toBeGreaterThan(80);
      expect(new Set(ended)).toEqual(new Set(["Error: stalled"]));
      world.time.after(0, () => {
        response!.arrayBuffer().catch((error: unknown) => ended.push(String(error)));
      });
      world.run();
      expect(ended.at(-1)).toBe("Error: Network connection lost.");
    }),
  );

  test(
    "tells the server that its client has gone",
    simulated((world) => {
      let reason: unknown = null;
      const { send } = client(world, async (request) => {
        request.signal.addEventListener("abort", () => (reason = request.signal.reason));
        return await new Promise<SimResponse>(() => {});
      });
      const abort = new AbortController();
      let failure: unknown = null;
      send(new SimRequest("http://server/", { signal: abort.signal })).catch(
        (error: unknown) => (failure = error),
      );
      world.run();
      abort.abort(new Error("enough"));
      world.run();
      expect(String(failure)).toBe("Error: enough");
      expect(String(reason)).toContain("AbortError");
    }),
  );

  test(
    "fails in the middle of a body when its link is cut",
    simulated((world) => {
      const { send } = client(
        world,
        async () => await Promise.resolve(new SimResponse(new Uint8Array(1_000_000))),
      );
      let failure: unknown = null;
      send(new SimRequest("http://server/"))
        .then((response) => response.arrayBuffer())
        .catch((error: unknown) => (failure = error));
      world.time.runUntil(Infinity, () => world.time.tick >= 6);
      for (const link of world.network.links) (link as Link<never>).cut([10, 10]);
      world.run();
      expect(String(failure)).toMatch(/TypeError: fetch failed/);
      expect(world.network.links.size).toBe(0);
    }),
  );

  test(
    "fails with the isolate that served it",
    simulated((world) => {
      const { send, door } = client(world, async () => await new Promise<SimResponse>(() => {}));
      let failure: unknown = null;
      send(new SimRequest("http://server/")).catch((error: unknown) => (failure = error));
      world.run();
      door.break("by the test");
      world.run();
      expect(failure).toBeInstanceOf(TypeError);
    }),
  );
});

describe("an isolate that crashes", () => {
  test(
    "fails the request that it could not take",
    simulated((world) => {
      const life = world.life("client");
      const failed: unknown[] = [];
      void exchange(
        world.network,
        life,
        { enter: () => {} },
        new SimRequest("http://server/"),
      ).catch((error: unknown) => failed.push(String(error)));
      world.run();
      expect(failed).toEqual(["TypeError: fetch failed"]);
    }),
  );

  test(
    "resets the TCP connection that it could not take",
    simulated((world) => {
      const lost: string[] = [];
      connectTcp(
        world.network,
        world.life("client"),
        { enter: () => {} },
        { onBytes: () => {}, onLost: () => void lost.push("lost") },
        { localAddress: "127.0.0.1:9000", remoteAddress: "127.0.0.1:4242" },
      );
      world.run();
      expect(lost).toEqual(["lost"]);
    }),
  );

  test(
    "loses a WebSocket that is given up on its way",
    simulated((world) => {
      const [client, server] = world.network.pair(world.life("object"));
      server.accept();
      const passed = world.network.passSocket(client, world.life("door"), () => 0);
      endOf(passed).abandon();
      const { events } = listen(passed);
      passed.accept();
      world.run();
      expect(events.at(-1)).toBe(`close 1006 ${GONE} false state 3`);
    }),
  );

  test(
    "leaves alone the WebSocket that it has passed on",
    simulated((world) => {
      const door = world.life("door");
      const life = world.life("client");
      let server: SimWebSocket | null = null;
      const dial = (request: SimRequest): Promise<SimResponse> =>
        exchange(
          world.network,
          life,
          serving(door, async () => {
            const [client, other] = world.network.pair(world.life("object"));
            other.accept();
            server = other;
            // The isolate is gone before its answer arrives.
            void Promise.resolve().then(() => world.time.after(0, () => door.break("by the test")));
            return await Promise.resolve(
              new SimResponse(null, {
                status: 101,
                webSocket: world.network.passSocket(client, door, () => 0),
              }),
            );
          }),
          request,
        );
      const { events } = listen(new ClientWebSocket(life, dial, "wss://server/"));
      world.run();
      expect(door.isOver).toBe(true);
      server!.send("hello");
      world.run();
      expect(events).toEqual(["open", "hello"]);
    }),
  );
});

describe("a TCP connection", () => {
  const addresses = { localAddress: "127.0.0.1:9000", remoteAddress: "127.0.0.1:4242" };

  interface Connected {
    readonly tcp: TcpClient;
    readonly life: BareLife;
    readonly door: BareLife;
    readonly received: () => Uint8Array;
    readonly heard: string[];
  }

  function connected(world: World, serve: (socket: SimSocket) => Promise<void>): Connected {
    const parts: Uint8Array[] = [];
    const heard: string[] = [];
    const door = world.life("door");
    const life = world.life("client");
    const events = {
      onBytes: (bytes: Uint8Array) => void parts.push(bytes),
      onEnd: () => void heard.push("end"),
      onLost: () => void heard.push("lost"),
    };
    const tcp = connectTcp(
      world.network,
      life,
      { enter: (event) => event(door, serve) },
      events,
      addresses,
    );
    return { tcp, life, door, heard, received: () => Buffer.concat(parts) };
  }

  /** Sends back what comes, by a reader with a buffer of its own. */
  async function echo(socket: SimSocket): Promise<void> {
    const reader = socket.readable.getReader({ mode: "byob" });
    const writer = socket.writable.getWriter();
    for (;;) {
      const { done, value } = await reader.read(new Uint8Array(1000));
      if (done) break;
      await writer.write(value!);
    }
    await writer.close();
  }

  test("carries every byte in order, in pieces that end anywhere, and ends on both sides", async () => {
    await inMacrotask(() => {
      for (let seed = 0; seed < 20; seed++) {
        const world = new World(seed);
        const sent = world.random.bytes(200_000);
        const { tcp, received, heard } = connected(world, echo);
        for (let at = 0; at < sent.length; at += 7777) tcp.write(sent.subarray(at, at + 7777));
        tcp.end();
        world.run();
        expect(Buffer.compare(received(), sent)).toBe(0);
        expect(heard).toEqual(["end"]);
        expect(world.network.links.size).toBe(0);
      }
    });
  });

  test(
    "tells the handler the addresses",
    simulated((world) => {
      let opened: unknown = null;
      connected(world, async (socket) => {
        opened = await socket.opened;
        await socket.close();
      });
      world.run();
      expect(opened).toEqual(addresses);
    }),
  );

  test(
    "stops a writer whose reader does not read, until it reads on",
    simulated((world) => {
      let written = 0;
      const { tcp, received } = connected(world, async (socket) => {
        const writer = socket.writable.getWriter();
        for (let i = 0; i < 50; i++) {
          await writer.write(new Uint8Array(10_000));
          written += 10_000;
        }
        await writer.close();
      });
      tcp.pause();
      world.run();
      expect(written).toBeGreaterThan(50_000);
      expect(written).toBeLessThan(150_000);
      world.time.after(0, () => tcp.resume());
      world.run();
      expect([written, received().length]).toEqual([500_000, 500_000]);
    }),
  );

  test(
    "is reset by a server that aborts while its client does not read",
    simulated((world) => {
      let failure: unknown = null;
      const { tcp, heard } = connected(world, async (socket) => {
        const writer = socket.writable.getWriter();
        writer.write(new Uint8Array(500_000)).catch((error: unknown) => (failure = error));
        await new Promise((resolve) => world.time.after(1000, () => resolve(null)));
        await writer.abort(new Error("stalled"));
      });
      tcp.pause();
      world.run();
      expect(String(failure)).toBe("Error: Network connection lost.");
      expect(heard).toEqual(["lost"]);
    }),
  );

  test(
    "resets a client that sends to a socket that was closed",
    simulated((world) => {
      const { tcp, heard } = connected(world, async (socket) => await socket.close());
      world.run();
      expect(heard).toEqual(["end"]);
      tcp.write(new Uint8Array(5));
      world.run();
      expect(heard).toEqual(["end", "lost"]);
    }),
  );

  test(
    "fails reads and writes of the server when the client resets it",
    simulated((world) => {
      const failures: string[] = [];
      const { tcp } = connected(world, async (socket) => {
        const reader = socket.readable.getReader();
        const writer = socket.writable.getWriter();
        await reader.read();
        await reader.read().catch((error: unknown) => failures.push(String(error)));
        await writer
          .write(new Uint8Array(1))
          .catch((error: unknown) => failures.push(String(error)));
      });
      tcp.write(new Uint8Array([1]));
      world.run();
      expect(failures).toEqual([]);
      tcp.destroy();
      world.run();
      expect(failures).toEqual(Array(2).fill("Error: Network connection lost."));
    }),
  );

  test("is cut within a write: the server has the first bytes of it, and nothing behind them", async () => {
    await inMacrotask(() => {
      const lengths = new Set<number>();
      for (let seed = 0; seed < 50; seed++) {
        const world = new World(seed);
        const sent = world.random.bytes(1000);
        const got: Uint8Array[] = [];
        let failure: unknown = null;
        const { tcp, heard } = connected(world, async (socket) => {
          const reader = socket.readable.getReader();
          try {
            for (;;) got.push((await reader.read()).value!);
          } catch (error) {
            failure = error;
          }
        });
        world.run();
        for (let at = 0; at < 1000; at += 100) tcp.write(sent.subarray(at, at + 100));
        tcp.link.cut([1, 5000]);
        world.run(4000);
        expect([heard, failure]).toEqual([["lost"], null]);
        world.run();
        const received = Buffer.concat(got);
        expect(String(failure)).toBe("Error: Network connection lost.");
        expect(Buffer.compare(received, sent.subarray(0, received.length))).toBe(0);
        lengths.add(received.length % 100);
      }
      expect(lengths.size).toBeGreaterThan(20);
    });
  });

  test(
    "is lost with the isolate that serves it",
    simulated((world) => {
      const { door, heard } = connected(world, echo);
      world.run();
      door.break("by the test");
      world.run();
      expect(heard).toEqual(["lost"]);
    }),
  );
});

describe("the globals of an isolate", () => {
  const globals = (world: World, life: Life) =>
    globalsOf({
      life: () => life,
      network: world.network,
      random: world.random.fork("isolate"),
      kind: "worker",
      onLog: () => {},
    }) as unknown as typeof globalThis & {
      scheduler: { wait(ms: number, options?: { signal: AbortSignal }): Promise<void> };
    };

  test(
    "have timers and a clock of virtual time",
    simulated((world) => {
      const life = world.life("door");
      const {
        Date: SimDate,
        setTimeout: later,
        setInterval: often,
        clearInterval,
        clearTimeout,
        scheduler,
      } = globals(world, life);
      const begin = SimDate.now();
      const rung: string[] = [];
      const note = (what: string): void => void rung.push(`${what} ${SimDate.now() - begin}`);
      const interval = often(() => {
        note("interval");
        if (rung.length > 3) clearInterval(interval);
      }, 10);
      later(note, 15, "timer");
      clearTimeout(later(note, 16, "never"));
      void scheduler.wait(25).then(() => note("wait"));
      world.run();
      expect(rung).toEqual(["interval 10", "timer 15", "interval 20", "wait 25", "interval 30"]);
      expect(new SimDate().getTime()).toBe(begin + 60_000);
      expect(new SimDate(5).getTime()).toBe(5);
      expect(new Date() instanceof SimDate).toBe(true);
    }),
  );

  test(
    "let no timer of a life ring that is over",
    simulated((world) => {
      const life = world.life("door");
      const { setTimeout: later, scheduler } = globals(world, life);
      let rung = 0;
      later(() => rung++, 10);
      void scheduler.wait(10).then(() => rung++);
      life.break("by the test");
      world.run();
      expect(rung).toBe(0);
    }),
  );

  test(
    "abort waits and time out signals",
    simulated((world) => {
      const { scheduler, AbortSignal: Signal } = globals(world, world.life("door"));
      const begin = world.time.nowMs;
      const ended: string[] = [];
      const signal = Signal.any([new AbortController().signal, Signal.timeout(100)]);
      void scheduler
        .wait(1000, { signal })
        .catch((error: Error) => ended.push(`${error.name} ${world.time.nowMs - begin}`));
      world.run();
      expect(ended).toEqual(["TimeoutError 100"]);
      expect(signal instanceof Signal).toBe(true);
    }),
  );

  test(
    "sign, verify and digest without Node's event loop, and repeat their random numbers",
    simulated((world) => {
      const { crypto: own } = globals(world, world.life("door"));
      const { crypto: same } = globals(world, world.life("door"));
      const bytes = own.getRandomValues(new Uint8Array(100));
      expect(same.getRandomValues(new Uint8Array(100))).toEqual(bytes);
      expect(own.randomUUID()).toMatch(
        /^[\da-f]{8}-[\da-f]{4}-4[\da-f]{3}-[89ab][\da-f]{3}-[\da-f]{12}$/,
      );
      const results: unknown[] = [];
      void (async () => {
        const key = await own.subtle.importKey(
          "raw",
          bytes,
          { name: "HMAC", hash: "SHA-256" },
          false,
          ["sign"],
        );
        const signature = await own.subtle.sign("HMAC", key, bytes);
        results.push(await own.subtle.verify("HMAC", key, signature, bytes));
        results.push(await own.subtle.verify("HMAC", key, signature, bytes.subarray(1)));
        results.push(
          Buffer.from(await own.subtle.digest("SHA-256", new Uint8Array(0)))
            .toString("hex")
            .slice(0, 8),
        );
      })();
      world.run(0);
      world.time.after(0, () => {});
      world.run(0);
      expect(results).toEqual([true, false, "e3b0c442"]);
    }),
  );

  test(
    "are found in globalThis, too",
    simulated((world) => {
      const all = globals(world, world.life("door"));
      expect(all.globalThis.setTimeout).toBe(all.setTimeout);
      expect(all.globalThis.URL).toBe(URL);
      expect(all.setImmediate).toBeUndefined();
    }),
  );
});

test("a run of one seed repeats itself to the last event, and another seed's differs", async () => {
  const hashOf = (seed: number): Promise<string> =>
    inMacrotask(() => {
      const world = new World(seed);
      const object = new BareObject(world);
      const { socket } = dialed(world, object);
      world.run();
      for (let i = 0; i < 100; i++) {
        socket.send(String(i));
        world.time.after(i, () => world.trace.note("heard", "object", object.heard.length));
      }
      world.run();
      return world.trace.hash;
    });
  const [first, again, other] = [await hashOf(1), await hashOf(1), await hashOf(2)];
  expect(again).toBe(first);
  expect(other).not.toBe(first);
  expect(INTERNET(new Random(1))).toBeGreaterThan(1);
});
