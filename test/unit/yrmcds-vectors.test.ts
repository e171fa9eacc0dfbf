/** The recorded exchanges of yrmcds servers, replayed on a server without sockets. */
import { existsSync, readFileSync } from "node:fs";
import { resolve } from "node:path";
import { describe, expect, it } from "vitest";
import { decodeReply, decodeStats } from "../support/yrmcds/codec.ts";
import { Opcode, Status } from "../../src/wire/yrmcds/protocol.ts";
import { STATS_ITEMS } from "../../src/wire/yrmcds/stats.ts";
import { hex, unhex } from "../support/frames/index.ts";
import { YrmcdsServer, framesOf, type YrmcdsConnection } from "../support/yrmcds/server.ts";

interface RecordedStep {
  name: string;
  scenario: string;
  step: number;
  conn: string;
  op: "send" | "poll" | "open" | "close" | "rst";
  request_hex: string;
  response_hex: string;
  compare?: "exact" | "stats" | "dump";
  /** Names of a Dump's entries that count begin with this. */
  prefix?: string;
}

const FORMS = ["document", "today"] as const;
const folder = [process.env.VECTORS, "../shared/vectors", "test/vectors"].find(
  (folder) => folder !== undefined && existsSync(resolve(folder, "yrmcds")),
)!;
/** The interval that was set when they were recorded. */
const INTERVAL_MS = 10_000;
const ENGINE = {
  hashKey: { low: 5, high: 6 },
  bytesMax: 16 << 20,
  isCounting: true,
  semaphoreIntervalMs: INTERVAL_MS,
};

function stepsOf(form: (typeof FORMS)[number]): RecordedStep[] {
  const text = readFileSync(resolve(folder, "yrmcds", `${form}.jsonl`), "utf8");
  return text
    .split("\n")
    .filter((line) => line !== "")
    .map((line) => JSON.parse(line) as RecordedStep);
}

/** Entries in an order of their own, without those of other prefixes; the last frame ends the answer. */
function dumpOf(replies: Uint8Array, prefix: string): string[] {
  const frames = framesOf(replies).map(hex);
  const wanted = hex(new TextEncoder().encode(prefix));
  return [
    ...frames
      .slice(0, -1)
      .filter((frame) => frame.includes(wanted))
      .toSorted(),
    frames.at(-1)!,
  ];
}

function expectReply(step: RecordedStep, replies: Uint8Array): void {
  const expected = unhex(step.response_hex);
  if (step.compare === "dump") {
    expect(dumpOf(replies, step.prefix!)).toEqual(dumpOf(expected, step.prefix!));
  } else if (step.compare === "stats") {
    const [reply, recorded] = [decodeReply(replies, 0), decodeReply(expected, 0)];
    expect(framesOf(replies)).toHaveLength(1);
    expect({ ...reply, body: null }).toEqual({ ...recorded, body: null });
    const items = decodeStats(reply.body);
    expect(items.map(([item]) => item)).toEqual(decodeStats(recorded.body).map(([item]) => item));
    for (const [, value] of items) expect(value).toMatch(/^[0-9]+$/);
  } else {
    expect(hex(replies)).toBe(step.response_hex);
  }
}

describe.each(FORMS)("exchanges recorded with Dump entries as in the %s form", (form) => {
  const steps = stepsOf(form);
  const scenarios = [...new Set(steps.map(({ scenario }) => scenario))];

  it.each([1, 3])("recorded exchanges are answered as recorded by %i shard(s)", (shards) => {
    for (const scenario of scenarios) {
      const server = new YrmcdsServer(ENGINE, shards, form, 1_700_000_001_000);
      const connections = new Map<string, YrmcdsConnection>();
      const connectionOf = (name: string): YrmcdsConnection => {
        const connection = connections.get(name) ?? server.open();
        connections.set(name, connection);
        return connection;
      };
      for (const step of steps.filter((step) => step.scenario === scenario)) {
        switch (step.op) {
          case "open":
            connectionOf(step.conn);
            break;
          case "close":
          case "rst":
            connectionOf(step.conn).close();
            break;
          // What is released is so at once here: polling gets its answer at the first try.
          case "poll":
          case "send":
            expectReply(step, connectionOf(step.conn).receive(unhex(step.request_hex)));
            break;
          default:
            expect.unreachable(`${step.name}: ${String(step.op)}`);
        }
      }
    }
  });

  it("recorded exchanges are all of known kinds", () => {
    expect(steps.length).toBeGreaterThan(6);
    expect(new Set(steps.map(({ op }) => op))).toEqual(
      form === "document" ? new Set(["send", "open", "close", "rst", "poll"]) : new Set(["send"]),
    );
  });
});

describe("Stats", () => {
  it("Stats counts well-formed requests, failed ones included, and itself", () => {
    const server = new YrmcdsServer(ENGINE, 2, "document", 0);
    const connection = server.open();
    const other = server.open();
    const send = (text: string): Uint8Array => connection.receive(unhex(text));
    const get = "9001000000000003000000000001";
    send("900000000000000000000000"); // Noop
    send(`${get}61`); // Get: Not found
    send("900100000000000200000000" + "0000"); // Get without a name
    send("90020000" + "0000000b" + "00000000" + "00000001" + "00000001" + "0001" + "61"); // Acquire
    send("90020000" + "0000000b" + "00000000" + "00000001" + "00000001" + "0001" + "61"); // refused
    send("90020000" + "0000000b" + "00000000" + "00000000" + "00000001" + "0001" + "61"); // of nothing
    send("90030000" + "00000007" + "00000000" + "00000009" + "0001" + "61"); // Release: not acquired
    send("80030000" + "00000007" + "00000000" + "00000009" + "0001" + "61"); // wrong magic
    send("900400000000000000000000"); // unknown
    send("901100000000000000000000"); // Dump
    send("901000000000000000000000"); // Stats
    other.close();
    const reply = decodeReply(send("9010000000000000000000ff"), 0);
    expect([reply.opcode, reply.status, reply.opaque]).toEqual([Opcode.stats, Status.success, 255]);
    const { used_memory, ...items } = Object.fromEntries(decodeStats(reply.body));
    expect(Object.keys(items)).toHaveLength(STATS_ITEMS.length - 1);
    expect(Number(used_memory)).toBeGreaterThan(100);
    expect(items).toEqual({
      objects: "1",
      total_objects: "1",
      conflicts: "0",
      gc_count: "0",
      last_gc_elapsed: "0",
      total_gc_elapsed: "0",
      curr_connections: "1",
      total_connections: "2",
      "command:noop": "1",
      "command:get": "1",
      "command:acquire": "2",
      "command:release": "1",
      "command:stats": "2",
      "command:dump": "1",
    });
  });
});
