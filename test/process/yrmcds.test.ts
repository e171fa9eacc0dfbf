/**
 * The yrmcds doors over the system's sockets: what a client of the protocol sees, written from the
 * protocol's text.
 */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import fc from "fast-check";
import { afterAll, afterEach, beforeAll, describe, expect, inject, it } from "vitest";
import { median } from "../../scripts/bench/percentile.ts";
import { configWithPorts, startServer, waitUntilReady, type Server } from "../../scripts/server.ts";
import type { YrmcdsClient } from "../support/yrmcds/client.ts";
import {
  acquire,
  dump,
  entriesOf,
  ERRORS,
  get,
  HEADER_BYTES,
  headerOf,
  namedBody,
  noop,
  numberOfBody,
  OPCODE,
  release,
  requestFrame,
  stats,
  statsOf,
  textOfBody,
  type YrmcdsReply,
} from "../support/frames/yrmcds.ts";
import { bytesOf } from "../support/frames/bytes.ts";
import { concat, hex } from "../support/frames/index.ts";
import { SemaphoreModel } from "../support/models/yrmcds.ts";
import { piecesOf, renderRequest, stepsArbitrary } from "../support/yrmcds/streams.ts";
import { openYrmcds, type SocketClient } from "../support/process/yrmcds-sockets.ts";

const seed = inject("seed");
const HTTP_PORT = 18_820;
const PORTS = { document: 18_821, today: 18_822 } as const;
const HOLDER_TIMEOUT_MS = 3000;
const FRAME_BYTES_MAX = 1 << 20;
const U32_MAX = 0xffffffff;
const NAME_BYTES_MAX = 65_535;

/** Within which every request must be answered. */
const ANSWER_MS_MAX = 300;
/** Within which what a closed connection held must be back. */
const RELEASE_MS_MAX = 100;
/** What anything may take that has to wait for others of a busy machine. */
const BUSY_MS_MAX = 3000;
/** An alarm may ring a second late. */
const ALARM_SLACK_MS = 2000;

const folder = mkdtempSync(join(tmpdir(), "yrmcds-"));
const config = join(folder, "wrangler.toml");
let server: Server;
let opened: SocketClient[] = [];

async function start(): Promise<void> {
  server = startServer({
    config,
    port: HTTP_PORT,
    persistTo: join(folder, "state"),
    variables: { YRMCDS_ENABLE: "on", HOLDER_TIMEOUT_MS: String(HOLDER_TIMEOUT_MS) },
  });
  await waitUntilReady(HTTP_PORT, Object.values(PORTS));
  // Objects are made, and code is compiled, when they are used first.
  const client = await open();
  for (let i = 0; i < 200; i++) await client.ask(...namesOf("warm").map((name) => get(name)));
  client.close();
}

beforeAll(async () => {
  writeFileSync(config, configWithPorts({ 11215: PORTS.document, 11216: PORTS.today }));
  await start();
});

afterEach(() => {
  for (const client of opened) client.close();
  opened = [];
});

afterAll(async () => {
  await server.kill();
  rmSync(folder, { recursive: true, force: true });
});

async function open(form: keyof typeof PORTS = "document"): Promise<SocketClient> {
  const client = await openYrmcds(PORTS[form]);
  opened.push(client);
  return client;
}

let prefixes = 0;
/** A name that no other test has. */
const freshName = (): string => `n${prefixes++}`;
/** Names that all shards have some of. */
const namesOf = (prefix: string, count = 12): string[] =>
  Array.from({ length: count }, (_, i) => `${prefix}/${i}`);

/** The reply to a request, which must come in time. */
async function askInTime(client: YrmcdsClient, frame: Uint8Array): Promise<YrmcdsReply> {
  const sentAtMs = performance.now();
  const reply = await client.askOne(frame);
  expect(reply.atMs - sentAtMs).toBeLessThan(ANSWER_MS_MAX);
  return reply;
}

function expectReply(reply: YrmcdsReply, opcode: number, opaque: number, number?: number): void {
  expect(reply).toMatchObject({ magic: 0x91, opcode, status: 0, reserved: 0, opaque });
  if (number === undefined) expect(reply.body).toHaveLength(0);
  else expect(numberOfBody(reply)).toBe(number);
}

function expectError(
  reply: YrmcdsReply,
  error: keyof typeof ERRORS,
  opcode: number,
  opaque = 0,
): void {
  const [status, text] = ERRORS[error];
  const shown = error === "unknownCommand" ? 0x12 : opcode;
  expect(reply).toMatchObject({ magic: 0x91, opcode: shown, status, reserved: 0, opaque });
  expect(textOfBody(reply)).toBe(text);
}

const statusesOf = (replies: readonly YrmcdsReply[]): number[] =>
  replies.map(({ status }) => status);
const numbersOf = (replies: readonly YrmcdsReply[]): number[] => replies.map(numberOfBody);

describe.each(["document", "today"] as const)("a client at the %s's port", (form) => {
  // A busy machine may let one of them wait.
  it(
    "a client is answered as the specification says, each time within 300 ms",
    { retry: 3 },
    async () => {
      const client = await open(form);
      const name = freshName();
      const ask = (frame: Uint8Array): Promise<YrmcdsReply> => askInTime(client, frame);
      expectReply(await ask(noop(0xdeadbeef)), OPCODE.noop, 0xdeadbeef);
      expectError(await ask(get(name, 1)), "notFound", OPCODE.get, 1);
      expectError(await ask(release(name, 1, 2)), "notFound", OPCODE.release, 2);
      expectReply(await ask(acquire(name, 3, 10, 3)), OPCODE.acquire, 3, 3);
      expectReply(await ask(acquire(name, 5, 10, 4)), OPCODE.acquire, 4, 5);
      expectReply(await ask(get(name, 5)), OPCODE.get, 5, 8);
      expectError(await ask(acquire(name, 3, 10, 6)), "notAvailable", OPCODE.acquire, 6);
      expectReply(await ask(acquire(name, 2, 10, 7)), OPCODE.acquire, 7, 2);
      expectReply(await ask(acquire(name, 1, 11, 8)), OPCODE.acquire, 8, 1);
      expectError(await ask(release(name, 12, 9)), "notAcquired", OPCODE.release, 9);
      expectReply(await ask(release(name, 0, 10)), OPCODE.release, 10);
      expectReply(await ask(release(name, 11, 11)), OPCODE.release, 11);
      expectError(await ask(release(name, 0, 12)), "notAcquired", OPCODE.release, 12);
      expectReply(await ask(get(name, 13)), OPCODE.get, 13, 0);
      const sentAtMs = performance.now();
      const replies = await client.askDump(dump(14));
      expect(replies.at(-1)!.atMs - sentAtMs).toBeLessThan(ANSWER_MS_MAX);
      const entries = entriesOf(replies, form, 14);
      expect(entries.get(name)).toEqual({ consumption: 0, maximum: 11 });
      const figures = statsOf(await ask(stats(15)));
      expect(figures.objects).toBe(entries.size);
      expect(client.unasked).toEqual([]);
    },
  );

  it("Dump has all held and former semaphores once", async () => {
    const client = await open(form);
    const names = namesOf(freshName(), 300);
    await client.ask(...names.map((name, i) => acquire(name, i + 1, U32_MAX)));
    await client.ask(...names.slice(100).map((name) => release(name, 1)));
    const entries = entriesOf(await client.askDump(dump(7)), form, 7);
    const ours = names.map((name) => entries.get(name));
    expect(ours).toEqual(
      names.map((_, i) => ({ consumption: i < 100 ? i + 1 : i, maximum: i + 1 })),
    );
  });
});

describe("several connections at once", () => {
  it("connections share a semaphore, and release only what they hold themselves", async () => {
    const [a, b] = [await open("document"), await open("today")];
    const name = freshName();
    expect(statusesOf(await a.ask(acquire(name, 2, 5)))).toEqual([0]);
    expect(statusesOf(await b.ask(acquire(name, 3, 5), acquire(name, 1, 5)))).toEqual([0, 0x21]);
    expect(statusesOf(await a.ask(release(name, 3), release(name, 2), release(name, 1)))).toEqual([
      0x22, 0, 0x22,
    ]);
    expect(numbersOf(await a.ask(get(name)))).toEqual([3]);
  });

  it("connections together never exceed the maximum, and all resources are free when they have left", async () => {
    const maximum = 7;
    const [connections, rounds] = [16, 60];
    const names = namesOf(freshName(), 3);
    const watcher = await open();
    let isOver = false;
    const watched = (async () => {
      for (let looks = 0; ; looks++) {
        const replies = await watcher.ask(...names.map((name) => get(name)));
        for (const reply of replies) {
          if (reply.status === 0) expect(numberOfBody(reply)).toBeLessThanOrEqual(maximum);
        }
        if (isOver) return looks;
      }
    })();
    let [granted, refused] = [0, 0];
    const held = new Map(names.map((name) => [name, 0]));
    const clients = await Promise.all(
      Array.from({ length: connections }, async () => await open()),
    );
    await Promise.all(
      clients.map(async (client, i) => {
        for (let round = 0; round < rounds; round++) {
          const name = names[(i + round) % names.length]!;
          const amount = 1 + ((i + round) % 3);
          const reply = await client.askOne(acquire(name, amount, maximum));
          if (reply.status === 0) {
            granted++;
            // As seen from here, it is held from the reply until the release is sent.
            held.set(name, held.get(name)! + amount);
            expect(held.get(name)).toBeLessThanOrEqual(maximum);
            if (round % 5 === 0) await sleep(1);
            held.set(name, held.get(name)! - amount);
            expect((await client.askOne(release(name, amount))).status).toBe(0);
          } else {
            refused++;
            expectError(reply, "notAvailable", OPCODE.acquire);
          }
        }
      }),
    );
    isOver = true;
    expect(await watched).toBeGreaterThan(10);
    expect(granted).toBeGreaterThan(connections);
    expect(refused).toBeGreaterThan(0);
    expect(numbersOf(await watcher.ask(...names.map((name) => get(name))))).toEqual([0, 0, 0]);
  });
});

/** Waits until a semaphore of each name is back at 0, and returns when the last of them was. */
async function releasedAtMs(watcher: YrmcdsClient, names: readonly string[]): Promise<number> {
  const gets = names.map((name) => get(name));
  for (const giveUpAtMs = performance.now() + 20_000; performance.now() < giveUpAtMs;) {
    const replies = await watcher.ask(...gets);
    if (numbersOf(replies).every((consumption) => consumption === 0)) return replies.at(-1)!.atMs;
    await sleep(1);
  }
  throw new Error("what a connection held has not come back");
}

describe("resources of a connection are free within 100 ms of its end", () => {
  const ENDS: Readonly<Record<string, (client: SocketClient) => void>> = {
    "by close": (client) => client.close(),
    "by reset": (client) => client.reset(),
    "by the end of its half": (client) => client.end(),
    "by a frame above the limit": (client) => client.write(headerOf(FRAME_BYTES_MAX)),
    "by one of 4 GiB that was begun": (client) =>
      client.write(headerOf(U32_MAX, 0x55), new Uint8Array(100)),
    "by close within a header": (client) => {
      client.write(noop().subarray(0, 7));
      client.close();
    },
    "by reset within a body": (client) => {
      client.write(acquire("never", 1, 1).subarray(0, HEADER_BYTES + 9));
      setTimeout(() => client.reset(), 5);
    },
    "by the end of its half within a body": (client) =>
      client.end(acquire("never", 1, 1).subarray(0, HEADER_BYTES + 9)),
  };

  it.each(Object.keys(ENDS))("a connection's resources are free within 100 ms: %s", async (how) => {
    const watcher = await open();
    const tookMs: number[] = [];
    for (const form of ["document", "today"] as const) {
      for (let round = 0; round < 4; round++) {
        const names = namesOf(freshName());
        const client = await open(form);
        const other = await open(form);
        await other.ask(...names.map((name) => acquire(name, 1, 1)));
        await other.ask(...names.map((name) => release(name, 1)));
        const replies = await client.ask(...names.map((name) => acquire(name, 3, 3)));
        expect(statusesOf(replies)).toEqual(names.map(() => 0));
        const refused = await watcher.ask(...names.map((name) => acquire(name, 1, 3)));
        expect(statusesOf(refused)).toEqual(names.map(() => 0x21));
        const endedAtMs = performance.now();
        ENDS[how]!(client);
        tookMs.push((await releasedAtMs(watcher, names)) - endedAtMs);
        const granted = await other.ask(...names.map((name) => acquire(name, 3, 3)));
        expect(statusesOf(granted)).toEqual(names.map(() => 0));
        other.close();
      }
    }
    // A busy machine may let one of them wait.
    expect(median(tookMs)).toBeLessThan(RELEASE_MS_MAX);
    expect(Math.max(...tookMs)).toBeLessThan(BUSY_MS_MAX);
  });
});

it("resources of a client that reads no replies are free when it resets the connection", async () => {
  const [client, watcher] = [await open(), await open()];
  const names = namesOf(freshName());
  await client.ask(...names.map((name) => acquire(name, 1, 1)));
  const gets = concat(Array.from({ length: 20_000 }, () => get(names[0]!)));
  client.socket.pause();
  // More than all that lies between it and the server takes, in both directions.
  let sentBytes = 0;
  while (sentBytes < 64 << 20 && client.socket.writableLength === 0) {
    client.write(gets);
    sentBytes += gets.length;
    await sleep(20);
  }
  await sleep(500);
  const endedAtMs = performance.now();
  client.reset();
  expect((await releasedAtMs(watcher, names)) - endedAtMs).toBeLessThan(BUSY_MS_MAX);
});

it("resources of 200 connections that end at once are free again", async () => {
  const watcher = await open();
  const name = freshName();
  const clients = await Promise.all(Array.from({ length: 200 }, async () => await open()));
  const replies = await Promise.all(clients.map((client) => client.askOne(acquire(name, 1, 200))));
  expect(new Set(statusesOf(replies))).toEqual(new Set([0]));
  expect(statusesOf(await watcher.ask(acquire(name, 1, 200)))).toEqual([0x21]);
  const endedAtMs = performance.now();
  for (const [i, client] of clients.entries()) {
    if (i % 2 === 0) client.close();
    else client.reset();
  }
  expect((await releasedAtMs(watcher, [name])) - endedAtMs).toBeLessThan(BUSY_MS_MAX);
});

describe("requests together with the end", () => {
  it("requests before a half-close are executed and answered", async () => {
    const watcher = await open();
    for (let round = 0; round < 20; round++) {
      const names = namesOf(freshName(), 50);
      const client = await open(round % 2 === 0 ? "document" : "today");
      const requests = names.flatMap((name, i) => [acquire(name, 2, 2, i), get(name, 1000 + i)]);
      client.end(...requests, noop(9));
      const endedAtMs = performance.now();
      const replies = await client.rest();
      expect(statusesOf(replies)).toEqual([...requests, 0].map(() => 0));
      expect(replies.map(({ opaque }) => opaque)).toEqual([
        ...names.flatMap((_, i) => [i, 1000 + i]),
        9,
      ]);
      expect(numbersOf(replies.slice(0, -1))).toEqual(requests.map(() => 2));
      // The server ends its half, too.
      expect(client.isEnded).toBe(true);
      expect((await releasedAtMs(watcher, names)) - endedAtMs).toBeLessThan(BUSY_MS_MAX);
    }
  });

  it("requests before a close are executed, and their resources freed", async () => {
    const watcher = await open();
    for (let round = 0; round < 20; round++) {
      const name = freshName();
      const client = await open();
      client.write(acquire(name, 2, 2));
      client.close();
      // The semaphore is there: it was acquired, and is not held any more.
      const seen = async (): Promise<string> => {
        const reply = await watcher.askOne(get(name));
        return reply.status === 0 ? String(numberOfBody(reply)) : textOfBody(reply);
      };
      await expect.poll(seen, { interval: 2, timeout: 5000 }).toBe("0");
    }
  });

  it("requests before a frame above the limit are answered, then the connection ends", async () => {
    const client = await open();
    const name = freshName();
    client.write(acquire(name, 2, 2, 1), get(name, 2), headerOf(FRAME_BYTES_MAX), noop(3));
    const replies = await client.rest();
    expect(replies.map(({ opaque }) => opaque)).toEqual([1, 2]);
    expect(numbersOf(replies)).toEqual([2, 2]);
  });

  it("a long pipeline before the end is answered", async () => {
    const client = await open();
    const count = 20_000;
    const name = freshName();
    client.end(...Array.from({ length: count }, (_, i) => acquire(name, 1, U32_MAX, i)));
    const replies = await client.rest();
    expect(replies.map(({ opaque }) => opaque)).toEqual(Array.from({ length: count }, (_, i) => i));
    expect(await releasedAtMs(await open(), [name])).toBeGreaterThan(0);
  });
});

describe("streams", () => {
  const PARTIES = 3;
  const EVER = 1e12;

  it("replies are those of the model, however the streams of several connections are cut", async () => {
    let streams = 0;
    const property = fc.asyncProperty(
      stepsArbitrary(PARTIES),
      fc.boolean(),
      async (steps, isByBytes) => {
        const prefix = `stream ${streams++}/`;
        const model = new SemaphoreModel(EVER);
        const clients: (SocketClient | null)[] = Array.from({ length: PARTIES }, () => null);
        let connections = 0;
        const holders: string[] = [];
        const watcher = await openYrmcds(PORTS.today);
        const closed = async (who: number): Promise<void> => {
          clients[who]!.close();
          clients[who] = null;
          model.close(holders[who]!, 0);
          const entries = [...model.dump(0)];
          const gets = entries.map(([name]) => get(name));
          const seen = async (): Promise<number[]> => numbersOf(await watcher.ask(...gets));
          const wanted = entries.map(([, { consumption }]) => consumption);
          await expect.poll(seen, { interval: 2, timeout: 5000 }).toEqual(wanted);
        };
        try {
          for (const step of steps) {
            if (clients[step.who] === null) {
              clients[step.who] = await openYrmcds(PORTS.document);
              holders[step.who] = `connection ${connections++}`;
            }
            const client = clients[step.who]!;
            const holder = holders[step.who]!;
            const frames = step.requests.map((request) => renderRequest(request, prefix));
            const isShort = concat(frames).length < 2000;
            if (step.do === "close") client.end(...frames);
            else if (isByBytes && isShort) {
              for (const byte of concat(frames)) client.write(Uint8Array.of(byte));
            } else for (const piece of piecesOf(concat(frames), step.cuts)) client.write(piece);
            const answers = await client.answers(frames.length);
            for (const [i, frame] of frames.entries()) {
              const expected = model.answer(holder, frame, 0);
              const what = hex(frame.subarray(0, 80));
              if (expected === null)
                expect(answers[i]!.at(-1)!.status, `answer to ${what}`).toBe(0);
              else expect(hex(answers[i]![0]!.bytes), `answer to ${what}`).toBe(hex(expected));
            }
            if (step.do !== "close") continue;
            expect(await client.rest()).toEqual([]);
            await closed(step.who);
          }
          const entries = entriesOf(await watcher.askDump(dump()), "today");
          const ours = [...entries].filter(([name]) => name.startsWith(prefix));
          expect(new Map(ours)).toEqual(model.dump(0));
          for (const [who, client] of clients.entries()) if (client !== null) await closed(who);
        } finally {
          for (const client of clients) client?.close();
          watcher.close();
        }
      },
    );
    await fc.assert(property, { seed, numRuns: 60 });
  });

  it("a stream of 50,000 requests is answered in order", async () => {
    const client = await open();
    const names = namesOf(freshName(), 40);
    const count = 50_000;
    const replied = client.take(count);
    for (let from = 0; from < count; from += 10_000) {
      client.write(
        ...Array.from({ length: 10_000 }, (_, i) => {
          const name = names[(from + i) % names.length]!;
          return [acquire(name, 1, 1, from + i), release(name, 1, from + i)][
            Math.floor((from + i) / names.length) % 2
          ]!;
        }),
      );
    }
    const replies = await replied;
    expect(replies.map(({ opaque }) => opaque)).toEqual(Array.from({ length: count }, (_, i) => i));
    expect(replies.filter(({ status }) => status !== 0)).toEqual([]);
  });

  it("a client that pauses gets a Dump of several megabytes whole", async () => {
    const [holder, client] = [await open(), await open()];
    const prefix = freshName();
    const names = namesOf(`${prefix}/${"x".repeat(2000)}`, 3000);
    for (let from = 0; from < names.length; from += 100) {
      await holder.ask(...names.slice(from, from + 100).map((name) => acquire(name, 1, 1)));
    }
    client.socket.pause();
    client.write(dump(1), noop(2));
    await sleep(500);
    // Meanwhile, others are answered.
    expectReply(await holder.askOne(noop()), OPCODE.noop, 0);
    client.socket.resume();
    const entries = entriesOf(await client.askDump(new Uint8Array(0)), "document", 1);
    expectReply((await client.take(1))[0]!, OPCODE.noop, 2);
    expect([...entries].filter(([name]) => name.startsWith(prefix))).toHaveLength(names.length);
  });
});

describe("invalid requests", () => {
  const name = bytesOf("invalid");
  const named = (opcode: number, numbers: number[]): Uint8Array =>
    requestFrame(opcode, 5, namedBody(numbers, name));
  /** The same with another length of the name. */
  const misnamed = (opcode: number, numbers: number[], nameBytes: number): Uint8Array => {
    const frame = named(opcode, numbers);
    new DataView(frame.buffer).setUint16(HEADER_BYTES + 4 * numbers.length, nameBytes);
    return frame;
  };
  const wrongMagic = (opcode: number): Uint8Array => {
    const frame = named(opcode, [1, 1]);
    frame[0] = 0x91;
    return frame;
  };

  it.each<[string, Uint8Array, keyof typeof ERRORS]>([
    ["Get without a body", requestFrame(OPCODE.get, 5), "invalidArguments"],
    ["Get with one byte", requestFrame(OPCODE.get, 5, Uint8Array.of(0)), "invalidArguments"],
    ["Get of no name", misnamed(OPCODE.get, [], 0), "invalidArguments"],
    ["Get of a name longer than its body", misnamed(OPCODE.get, [], 8), "invalidArguments"],
    [
      "Acquire of 9 bytes",
      requestFrame(OPCODE.acquire, 5, new Uint8Array(9).fill(1)),
      "invalidArguments",
    ],
    ["Acquire of 0", named(OPCODE.acquire, [0, 1]), "invalidArguments"],
    ["Acquire of 0 of 0", named(OPCODE.acquire, [0, 0]), "invalidArguments"],
    ["Acquire of more than the maximum", named(OPCODE.acquire, [2, 1]), "invalidArguments"],
    ["Acquire of all, maximum 0", named(OPCODE.acquire, [U32_MAX, 0]), "invalidArguments"],
    ["Acquire of no name", misnamed(OPCODE.acquire, [1, 1], 0), "invalidArguments"],
    [
      "Acquire of a long name",
      misnamed(OPCODE.acquire, [1, 1], NAME_BYTES_MAX),
      "invalidArguments",
    ],
    ["Release of 5 bytes", requestFrame(OPCODE.release, 5, new Uint8Array(5)), "invalidArguments"],
    ["Release of no name", misnamed(OPCODE.release, [1], 0), "invalidArguments"],
    ["Release of a long name", misnamed(OPCODE.release, [1], 8), "invalidArguments"],
    ["the magic of replies", wrongMagic(OPCODE.acquire), "invalidArguments"],
    ["the magic of replies, unknown opcode", wrongMagic(0x7f), "invalidArguments"],
    ["the magic of replies, Dump", wrongMagic(OPCODE.dump), "invalidArguments"],
    ["an unknown opcode", named(0x04, []), "unknownCommand"],
    ["the opcode of unknown ones", requestFrame(0x12, 5), "unknownCommand"],
    ["opcode 0xff", requestFrame(0xff, 5, new Uint8Array(1000)), "unknownCommand"],
  ])(
    "the invalid request %s is answered, changes nothing, and ends nothing",
    async (_, frame, error) => {
      const client = await open();
      const [before, reply, after, dumped] = await client.ask(
        get("invalid"),
        frame,
        noop(6),
        get("invalid"),
      );
      expectError(before!, "notFound", OPCODE.get);
      expectError(reply!, error, frame[1]!, 5);
      expectReply(after!, OPCODE.noop, 6);
      expectError(dumped!, "notFound", OPCODE.get);
    },
  );

  it("names and frames may have their greatest length", async () => {
    const client = await open();
    const long = "l".repeat(NAME_BYTES_MAX);
    const [longer, other] = [`${long.slice(1)}a`, `${long.slice(1)}b`];
    expect(
      numbersOf(
        await client.ask(
          acquire(longer, 1, 9),
          acquire(other, 2, 9),
          get(longer),
          get(other),
          acquire(longer, 3, 9),
          get(longer),
        ),
      ),
    ).toEqual([1, 2, 1, 2, 3, 4]);
    const full = requestFrame(OPCODE.noop, 8, new Uint8Array(FRAME_BYTES_MAX - HEADER_BYTES));
    client.write(full, full);
    for (const reply of await client.take(2)) expectReply(reply, OPCODE.noop, 8);
    client.write(headerOf(FRAME_BYTES_MAX - HEADER_BYTES + 1));
    expect(await client.rest()).toEqual([]);
  });
});

it("with 4294967295 resources held an Acquire of 1 is refused, and the server goes on", async () => {
  const [holder, other] = [await open(), await open("today")];
  const name = freshName();
  expect(numbersOf(await holder.ask(acquire(name, U32_MAX, U32_MAX)))).toEqual([U32_MAX]);
  const refused = [1, 2, U32_MAX - 1, U32_MAX].map((maximum) => acquire(name, 1, maximum));
  for (const client of [other, holder]) {
    for (const reply of await client.ask(...refused)) {
      expectError(reply, "notAvailable", OPCODE.acquire);
    }
    expect(statusesOf(await client.ask(acquire(name, U32_MAX, U32_MAX)))).toEqual([0x21]);
  }
  expect(numbersOf(await other.ask(get(name)))).toEqual([U32_MAX]);
  expect(statusesOf(await other.ask(release(name, 1)))).toEqual([0x22]);
  expect(statusesOf(await holder.ask(release(name, U32_MAX)))).toEqual([0]);
  expect(numbersOf(await other.ask(acquire(name, 1, 1), get(name)))).toEqual([1, 1]);
});

it("Stats has its 15 items, and counts commands and connections", async () => {
  const client = await open();
  const before = statsOf(await client.askOne(stats()));
  const others = await Promise.all([open(), open("today")]);
  const name = freshName();
  await client.ask(noop(), get(name), acquire(name, 1, 1), acquire(name, 1, 1), release(name, 9));
  await client.askDump(dump());
  await others[0]!.ask(acquire(name, 0, 1), requestFrame(0x44), noop(), stats());
  const after = statsOf(await client.askOne(stats()));
  const differences = Object.fromEntries(
    Object.entries(after).map(([item, value]) => [
      item,
      value - before[item as keyof typeof before],
    ]),
  );
  expect(differences).toMatchObject({
    objects: 1,
    total_objects: 1,
    curr_connections: 2,
    total_connections: 2,
    "command:noop": 2,
    "command:get": 1,
    "command:acquire": 2,
    "command:release": 1,
    "command:stats": 2,
    "command:dump": 1,
  });
  expect(after.used_memory).toBeGreaterThan(before.used_memory);
  for (const other of others) other.close();
  const connections = async (): Promise<number> =>
    statsOf(await client.askOne(stats())).curr_connections;
  await expect.poll(connections, { timeout: 2000 }).toBe(before.curr_connections);
});

it("an idle connection goes on holding its resources", async () => {
  const [holder, watcher] = [await open(), await open()];
  const names = namesOf(freshName());
  await holder.ask(...names.map((name) => acquire(name, 2, 2)));
  // Objects have slept meanwhile, and shards have asked whether the connection is still there.
  await sleep(5 * HOLDER_TIMEOUT_MS);
  expect(numbersOf(await watcher.ask(...names.map((name) => get(name))))).toEqual(
    names.map(() => 2),
  );
  expect(statusesOf(await holder.ask(...names.map((name) => release(name, 2))))).toEqual(
    names.map(() => 0),
  );
});

it("after kill -9 of the server the resources of connections become free in time", async () => {
  const names = namesOf(freshName());
  const holder = await open();
  await holder.ask(...names.map((name) => acquire(name, 2, 2)));
  await server.kill();
  await start();
  const readyAtMs = performance.now();
  const watcher = await open();
  const tookMs = (await releasedAtMs(watcher, names)) - readyAtMs;
  expect(tookMs).toBeLessThan(HOLDER_TIMEOUT_MS + ALARM_SLACK_MS);
  expect(statusesOf(await watcher.ask(...names.map((name) => acquire(name, 2, 2))))).toEqual(
    names.map(() => 0),
  );
});
