/** The doors of the yrmcds protocol: recorded exchanges over each of them, and who may come in. */
import {
  abortAllDurableObjects,
  createExecutionContext,
  evictAllDurableObjects,
  reset,
  runDurableObjectAlarm,
  runInDurableObject,
} from "cloudflare:test";
import { env } from "cloudflare:workers";
import { afterEach, beforeEach, describe, expect, inject, it, vi } from "vitest";
import { HISTORY_REST_MS, TALLIES_STORE_DELAY_MS } from "../../src/engine/sizes.ts";
import { Hub } from "../../src/objects/hub/hub.ts";
import worker from "../../src/worker/index.ts";
import { serveTcp } from "../../src/worker/tcp.ts";
import type { YrmcdsClient } from "../support/yrmcds/client.ts";
import {
  acquire,
  dump,
  entriesOf,
  get,
  noop,
  numberOfBody,
  release,
  stats,
  type YrmcdsReply,
} from "../support/frames/yrmcds.ts";
import {
  comparedReplies,
  yrmcdsScenarios,
  recordedReplies,
  type YrmcdsStep,
} from "../support/yrmcds/vectors.ts";
import { unhex } from "../support/frames/index.ts";
import { openYrmcds, type YrmcdsKind } from "../support/pool/yrmcds-wires.ts";
import { hubStub } from "../support/pool/hubs.ts";
import { shardStub } from "../support/pool/shards.ts";
import { bearerOf } from "../support/pool/tokens.ts";
import { withSettings } from "../support/pool/variables.ts";

const SHARDS = 4;
const POLL_MS = 2;
const POLL_TIMEOUT_MS = 2000;
const vectors = inject("yrmcdsVectors");

const FORMS = ["document", "today"] as const;
const TRANSPORTS = ["websocket", "tcp"] as const;
const KINDS = TRANSPORTS.flatMap((transport) =>
  FORMS.map((form): [string, YrmcdsKind] => [
    `${transport}, ${form}`,
    { transport, form, location: "XXX" },
  ]),
);

/** Tallies of connections, and counts of a namespace, are stored after so long: until then an object is not evicted. */
const DELAYS_MS = [TALLIES_STORE_DELAY_MS, HISTORY_REST_MS];

beforeEach(() => {
  const wait = scheduler.wait.bind(scheduler);
  vi.spyOn(scheduler, "wait").mockImplementation(async (ms, options) => {
    await wait(DELAYS_MS.includes(ms) ? 2 : ms, options);
  });
});

afterEach(async () => {
  vi.restoreAllMocks();
  await reset();
});

describe.each(KINDS)("exchanges recorded over %s", (_, kind) => {
  // What does not depend on the form of Dump's entries was recorded once.
  const all = FORMS.flatMap((form) =>
    [...yrmcdsScenarios(vectors[form])].map((entry) => ({ form, entry })),
  );
  const scenarios = all.filter(
    ({ form, entry: [, steps] }) =>
      form === kind.form || steps.every(({ compare }) => compare !== "dump"),
  );

  it.each(scenarios.map(({ form, entry }) => [`${entry[0]} (${form})`, entry[1]] as const))(
    "a recorded exchange is answered as recorded: %s",
    async (_, steps) => {
      const clients = new Map<string, YrmcdsClient>();
      const clientOf = async (name: string): Promise<YrmcdsClient> => {
        const client = clients.get(name) ?? (await openYrmcds(kind));
        clients.set(name, client);
        return client;
      };
      for (const step of steps) await perform(step, await clientOf(step.conn));
      for (const client of clients.values()) {
        expect(client.unasked).toEqual([]);
        client.close();
      }
    },
  );
});

async function perform(step: YrmcdsStep, client: YrmcdsClient): Promise<void> {
  if (step.op === "open") return;
  if (step.op === "close") return client.close();
  if (step.op === "rst") return client.reset();
  const recorded = recordedReplies(step);
  const wanted = comparedReplies(step, recorded);
  const ask = async (): Promise<unknown> => {
    client.write(unhex(step.request_hex));
    const [replies] = await client.answers(1);
    return comparedReplies(step, replies!);
  };
  // A close is heard of in the Hub, then in shards.
  if (step.op === "poll" || step.scenario === "close-releases") {
    await expect.poll(ask, { interval: POLL_MS, timeout: POLL_TIMEOUT_MS }).toEqual(wanted);
  } else {
    expect(await ask(), `reply to ${step.name}`).toEqual(wanted);
  }
}

const WEB: YrmcdsKind = { transport: "websocket", form: "document", location: "XXX" };
const TCP: YrmcdsKind = { ...WEB, transport: "tcp" };
const FAR: YrmcdsKind = { ...WEB, location: "FRA" };
/** Of every shard, some. */
const NAMES = Array.from({ length: 16 }, (_, i) => `name ${i}`);

const statusesOf = (replies: readonly YrmcdsReply[]): number[] =>
  replies.map(({ status }) => status);
const all = <T>(value: T): T[] => NAMES.map(() => value);
const acquireAll = (amount: number, maximum: number): Uint8Array[] =>
  NAMES.map((name) => acquire(name, amount, maximum));
const consumptionsSeenBy = async (watcher: YrmcdsClient): Promise<number[]> =>
  (await watcher.ask(...NAMES.map((name) => get(name)))).map(numberOfBody);

/** Waits for a moment, no alarm: what is said goodbye to is told at once. */
async function expectReleased(watcher: YrmcdsClient): Promise<void> {
  await expect
    .poll(() => consumptionsSeenBy(watcher), { interval: POLL_MS, timeout: POLL_TIMEOUT_MS })
    .toEqual(all(0));
}

/** Rings the alarms of all shards; says how many had one. */
async function ringAlarms(): Promise<number> {
  let rung = 0;
  for (let shard = 0; shard < SHARDS; shard++) {
    if (await runDurableObjectAlarm(shardStub(shard))) rung++;
  }
  return rung;
}

/** Ends an object as a fault would: what it had in memory is lost, its sockets are closed. */
async function abort(stub: DurableObjectStub): Promise<void> {
  const aborted = runInDurableObject(stub, (_, state) => state.abort("fault"));
  await expect(aborted).rejects.toThrow("fault");
}

describe.each([
  ["a WebSocket", WEB],
  ["TCP", TCP],
])("what a connection over %s held", (_, kind) => {
  it.each([
    ["close", (client: YrmcdsClient) => client.close()],
    ["reset", (client: YrmcdsClient) => client.reset()],
    ["end", (client: YrmcdsClient) => client.end()],
    ["end behind requests", (client: YrmcdsClient) => client.end(...acquireAll(1, 9), noop())],
    ["end behind a Dump", (client: YrmcdsClient) => client.end(dump(), ...acquireAll(1, 9))],
    [
      "a frame above the limit",
      (client: YrmcdsClient) => client.write(new Uint8Array(12).fill(0xff)),
    ],
  ])("resources of a connection are free at once after %s", async (_, end) => {
    const [holder, watcher] = [await openYrmcds(kind), await openYrmcds(FAR)];
    expect(statusesOf(await holder.ask(...acquireAll(3, 3)))).toEqual(all(0));
    expect(statusesOf(await watcher.ask(...acquireAll(1, 3)))).toEqual(all(0x21));
    end(holder);
    await expectReleased(watcher);
    expect(statusesOf(await watcher.ask(...acquireAll(3, 3)))).toEqual(all(0));
    watcher.close();
  });

  it("resources are free at once, and requests that waited at the connection's end were executed", async () => {
    const [client, watcher] = [await openYrmcds(kind), await openYrmcds(FAR)];
    client.end(...acquireAll(2, 9), dump(), ...acquireAll(3, 9), stats(), ...acquireAll(4, 9));
    const seen = async (): Promise<unknown> => entriesOf(await watcher.askDump(dump()), "document");
    const wanted = new Map(NAMES.map((name) => [name, { consumption: 0, maximum: 9 }]));
    await expect.poll(seen, { interval: POLL_MS, timeout: POLL_TIMEOUT_MS }).toEqual(wanted);
    watcher.close();
  });

  it.each([
    ["sleeps", () => evictAllDurableObjects()],
    ["is asleep when it ends", async () => {}],
  ])(
    "resources stay held while all objects hibernate, and are free at once though their Hub %s",
    async (_, sleepAgain) => {
      const [holder, watcher] = [await openYrmcds(kind), await openYrmcds(FAR)];
      await holder.ask(...acquireAll(2, 3));
      await evictAllDurableObjects();
      expect(await consumptionsSeenBy(watcher)).toEqual(all(2));
      await evictAllDurableObjects();
      expect(statusesOf(await holder.ask(...acquireAll(2, 3)))).toEqual(all(0x21));
      expect(statusesOf(await holder.ask(...acquireAll(1, 3)))).toEqual(all(0));
      await sleepAgain();
      expect(statusesOf(await watcher.ask(release(NAMES[0]!, 1)))).toEqual([0x22]);
      await evictAllDurableObjects();
      holder.close();
      await expectReleased(watcher);
      watcher.close();
    },
  );
});

describe("a Hub that died", () => {
  /** As the default of HOLDER_TIMEOUT_MS. */
  const HOLDER_TIMEOUT_MS = 15_000;
  /** More than it may take until what is lost is looked for. */
  const LATER_MS = 20_000;

  it.each([
    ["alone", () => abort(hubStub())],
    ["with all other objects", () => abortAllDurableObjects()],
  ])("alarms free what connections of a dead Hub held, and nothing else: %s", async (_, die) => {
    const clock = vi.spyOn(Date, "now").mockReturnValue(Date.now());
    const [web, tcp] = [await openYrmcds(WEB), await openYrmcds(TCP)];
    await web.ask(...acquireAll(2, 9));
    await tcp.ask(...acquireAll(3, 9));
    await die();
    expect(await Promise.all([web.next(), tcp.next()])).toEqual([null, null]);
    // It has a living connection, and there are others on another Hub.
    const near = await openYrmcds(WEB);
    const far = await openYrmcds(FAR);
    expect(statusesOf(await near.ask(...acquireAll(1, 9)))).toEqual(all(0));
    expect(statusesOf(await far.ask(...acquireAll(2, 9)))).toEqual(all(0));
    clock.mockReturnValue(Date.now() + LATER_MS);
    expect(await ringAlarms()).toBe(SHARDS);
    expect(await consumptionsSeenBy(far)).toEqual(all(3));
    clock.mockReturnValue(Date.now() + LATER_MS);
    await ringAlarms();
    expect(await consumptionsSeenBy(far)).toEqual(all(3));
    near.close();
    far.close();
    await expectReleased(await openYrmcds(WEB));
  });

  it("a shard that its alarm starts finds out a dead Hub, too", async () => {
    const clock = vi.spyOn(Date, "now").mockReturnValue(Date.now());
    const [lost, kept] = [await openYrmcds(WEB), await openYrmcds(FAR)];
    await lost.ask(...acquireAll(2, 9));
    await kept.ask(...acquireAll(3, 9));
    await abort(hubStub());
    for (let shard = 0; shard < SHARDS; shard++) await abort(shardStub(shard));
    clock.mockReturnValue(Date.now() + LATER_MS);
    expect(await ringAlarms()).toBe(SHARDS);
    expect(await consumptionsSeenBy(kept)).toEqual(all(3));
    kept.close();
    await expectReleased(await openYrmcds(WEB));
  });

  it("a shard that dies before it set an earlier alarm sets it when it starts", async () => {
    const clock = vi.spyOn(Date, "now").mockReturnValue(Date.now());
    const before = await openYrmcds(FAR);
    await before.ask(...acquireAll(1, 1));
    await before.ask(...NAMES.map((name) => release(name, 1)));
    clock.mockReturnValue(Date.now() + LATER_MS);
    // The next alarm is to collect these semaphores, long from now.
    expect(await ringAlarms()).toBe(SHARDS);
    const lost = await openYrmcds(WEB);
    expect(statusesOf(await lost.ask(...acquireAll(2, 2)))).toEqual(all(0));
    // Alarms are set once a second at most: that of the check has to wait for a moment.
    await abortAllDurableObjects();
    expect(await lost.next()).toBeNull();
    const watcher = await openYrmcds(FAR);
    expect(await consumptionsSeenBy(watcher)).toEqual(all(2));
    for (let shard = 0; shard < SHARDS; shard++) {
      const alarmAtMs = await runInDurableObject(shardStub(shard), async (_, { storage }) =>
        storage.getAlarm(),
      );
      expect(alarmAtMs! - Date.now()).toBeLessThanOrEqual(HOLDER_TIMEOUT_MS);
    }
    clock.mockReturnValue(Date.now() + HOLDER_TIMEOUT_MS);
    await ringAlarms();
    expect(await consumptionsSeenBy(watcher)).toEqual(all(0));
    watcher.close();
  });

  it("a Hub that does not answer is not taken for dead", async () => {
    const clock = vi.spyOn(Date, "now").mockReturnValue(Date.now());
    const holder = await openYrmcds(WEB);
    await holder.ask(...acquireAll(2, 9));
    const gone = vi.spyOn(Hub.prototype, "gone").mockImplementation(() => {
      throw new Error("busy");
    });
    clock.mockReturnValue(Date.now() + LATER_MS);
    expect(await ringAlarms()).toBe(SHARDS);
    expect(gone).toHaveBeenCalled();
    const watcher = await openYrmcds(FAR);
    expect(await consumptionsSeenBy(watcher)).toEqual(all(2));
    gone.mockRestore();
    clock.mockReturnValue(Date.now() + LATER_MS);
    expect(await ringAlarms()).toBe(SHARDS);
    expect(await consumptionsSeenBy(watcher)).toEqual(all(2));
    holder.close();
    await expectReleased(watcher);
  });
});

describe("access to the yrmcds protocol", () => {
  const headersOf = async (
    claims: Parameters<typeof bearerOf>[0],
  ): Promise<Record<string, string>> => await bearerOf(claims);

  it("namespaces have their own semaphores", async () => {
    const [ours, theirs] = [await openYrmcds(WEB), await openYrmcds(WEB, await headersOf({}))];
    await ours.ask(acquire("a", 1, 1));
    expect(statusesOf(await theirs.ask(get("a"), acquire("a", 1, 1)))).toEqual([1, 0]);
    const entries = entriesOf(await theirs.askDump(dump()), "document");
    expect(entries).toEqual(new Map([["a", { consumption: 1, maximum: 1 }]]));
    for (const client of [ours, theirs]) client.close();
  });

  it.each([
    ["without the right to write", { scopes: ["read"] as const }],
    ["without the right to read", { scopes: ["write"] as const }],
    ["for some keys only", { keyPrefixes: ["a"] }],
  ])("a token %s does not open the yrmcds protocol", async (_, claims) => {
    const headers = await headersOf(claims as Parameters<typeof bearerOf>[0]);
    await expect(openYrmcds(WEB, headers)).rejects.toThrow("403");
  });

  it("the yrmcds protocol is closed unless it is enabled", async () => {
    const disabled = { ...env, YRMCDS_ENABLE: "off" } as Env;
    const request = new Request<unknown, IncomingRequestCfProperties>(
      "http://localhost/yrmcds/counter",
      { headers: { upgrade: "websocket" } },
    );
    const response = await worker.fetch(request, disabled, createExecutionContext());
    expect(response.status).toBe(404);
    expect(await response.json()).toMatchObject({ code: "protocol_unknown" });
    let isClosed = false;
    const socket = {
      opened: Promise.resolve({ localAddress: "localhost:11215", remoteAddress: "127.0.0.1:1" }),
      readable: new ReadableStream(),
      writable: new WritableStream(),
      close: async () => void (isClosed = true),
    };
    await serveTcp(socket as unknown as Socket, disabled);
    expect(isClosed).toBe(true);
  });

  it("connections beyond YRMCDS_CONNECTIONS_MAX are closed at once", async () => {
    await withSettings({ YRMCDS_CONNECTIONS_MAX: 2 }, async () => {
      const [first, second] = [await openYrmcds(WEB), await openYrmcds(TCP)];
      await first.askOne(noop());
      await second.askOne(noop());
      await expect(openYrmcds(WEB)).rejects.toThrow("503");
      expect(await (await openYrmcds(TCP)).rest()).toEqual([]);
      await first.ask(acquire("a", 1, 1));
      first.close();
      const comesIn = async (): Promise<boolean> => {
        const client = await openYrmcds(TCP);
        client.write(noop());
        const isIn = (await client.next()) !== null;
        client.close();
        return isIn;
      };
      await expect.poll(comesIn, { interval: 5, timeout: POLL_TIMEOUT_MS }).toBe(true);
      second.close();
    });
  });
});

it("a shard without memory refuses an Acquire with OutOfMemory, and serves all other requests", async () => {
  await withSettings({ SHARD_BYTES_MAX: 1 << 20, SHARDS_MAX: 1 }, async () => {
    const client = await openYrmcds(TCP);
    const [held, ...others] = Array.from({ length: 200 }, (_, i) => String(i).padEnd(60_000, "x"));
    expect(statusesOf(await client.ask(acquire(held!, 2, 9)))).toEqual([0]);
    const replies: YrmcdsReply[] = [];
    for (const name of others) replies.push(await client.askOne(acquire(name, 1, 1)));
    const refused = replies.filter(({ status }) => status !== 0);
    expect(new Set(statusesOf(refused))).toEqual(new Set([0x82]));
    expect(refused.length).toBeGreaterThan(100);
    expect(String.fromCharCode(...refused[0]!.body)).toBe("OutOfMemory");
    const first = others[replies.indexOf(refused[0]!)]!;
    expect(statusesOf(await client.ask(get(first), get(held!), release(held!, 1)))).toEqual([
      1, 0, 0,
    ]);
    expect(numberOfBody(await client.askOne(get(held!)))).toBe(1);
    client.close();
    const watcher = await openYrmcds(TCP);
    const seen = async (): Promise<number> => numberOfBody(await watcher.askOne(get(held!)));
    await expect.poll(seen, { interval: POLL_MS, timeout: POLL_TIMEOUT_MS }).toBe(0);
    watcher.close();
  });
});

const totalIn = async (client: YrmcdsClient): Promise<number> => {
  const [reply] = await client.ask(stats());
  const [, count] = /total_connections[^\d]*(\d+)/.exec(new TextDecoder().decode(reply!.body))!;
  return Number(count);
};

it("connections count in Stats whose Hub has slept before it reported them", async () => {
  const kind = { transport: "websocket", form: "document", location: "XXX" } as const;
  const first = await openYrmcds(kind);
  const before = await totalIn(first);
  const silent = await openYrmcds(kind);
  await evictAllDurableObjects();
  const client = await openYrmcds(kind);
  expect(await totalIn(client)).toBe(before + 2);
  for (const each of [first, silent, client]) each.close();
});

it("a connection counts once in Stats, also when its Hub has slept", async () => {
  const client = await openYrmcds({ transport: "websocket", form: "document", location: "XXX" });
  const total = await totalIn(client);
  await scheduler.wait(50);
  await evictAllDurableObjects();
  expect(await totalIn(client)).toBe(total);
  client.close();
});
