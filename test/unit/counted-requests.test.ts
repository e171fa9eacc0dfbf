/** What is counted of requests: each under a name, and in a index, of its own. */
import { describe, expect, it } from "vitest";
import { COUNTED_REQUESTS } from "../../src/engine/counted-requests.ts";
import { Engine } from "../../src/engine/engine.ts";
import { connectionHolder } from "../../src/engine/semaphores/holder.ts";
import { countsAt, TALLY_READ_BYTES, TALLY_WRITE_BYTES } from "../../src/engine/tally.ts";
import { ByteWriter } from "../../src/wire/bytes.ts";
import { Command } from "../../src/wire/edge/command.ts";
import { RequestType } from "../../src/wire/throttr/requests.ts";
import { encodeRequest, type Request } from "../support/yrmcds/codec.ts";
import { bytesOf } from "../support/frames/index.ts";

const START_MS = 1_000_000;
const typed = (type: string) => COUNTED_REQUESTS.find((counted) => counted.type === type);

describe("counted requests", () => {
  it("counted requests have unique types and places, and the names of calls", () => {
    expect(new Set(COUNTED_REQUESTS.map(({ type }) => type)).size).toBe(COUNTED_REQUESTS.length);
    const places = new Set(COUNTED_REQUESTS.map(({ index }) => index));
    expect(places.size).toBe(COUNTED_REQUESTS.length);
    for (const index of [TALLY_READ_BYTES, TALLY_WRITE_BYTES]) expect(places).not.toContain(index);
    for (const { name, type } of COUNTED_REQUESTS) {
      expect(type).toMatch(/^[A-Z]+(_[A-Z]+)*$/);
      expect(name).toMatch(/^(yrmcds_)?[a-z]+([A-Z][a-z]+)*$/);
    }
  });

  it("no two request types and commands have the same number", () => {
    const types = Object.entries({ ...RequestType, ...prefixed(Command) });
    for (const [name, type] of types) {
      const twins = types.filter(([, other]) => other === type).map(([twin]) => twin);
      expect(twins).toEqual([name]);
    }
  });

  it("a request and a command that do the same share a name, and the yrmcds protocol shares none", () => {
    const shared = COUNTED_REQUESTS.filter(
      ({ name, index }) => COUNTED_REQUESTS.find((other) => other.name === name)!.index !== index,
    );
    expect(shared.map(({ type }) => type)).toEqual(["EDGE_INSERT", "EDGE_PURGE", "EDGE_SET"]);
  });

  it("all request types and commands are counted", () => {
    const types = [...Object.values(RequestType), ...Object.values(Command)];
    const counted = COUNTED_REQUESTS.filter(({ type }) => !type.startsWith("COUNTER_"));
    expect(counted.map(({ index }) => index)).toEqual(types.toSorted((a, b) => a - b));
  });

  it.each([
    ["QUERY", "query", "read", true],
    ["STAT", "stat", "read", true],
    ["EDGE_READ", "read", "read", true],
    ["INSERT", "insert", "write", true],
    ["EDGE_COMPARE_AND_SET", "compareAndSet", "write", true],
    ["EDGE_LIMIT", "limit", "limit", true],
    ["EDGE_PEEK", "peek", "limit", true],
    ["EDGE_REFUND", "refund", "limit", true],
    ["EDGE_ACQUIRE", "acquire", "semaphore", true],
    ["EDGE_SEMAPHORES", "semaphores", "semaphore", false],
    ["COUNTER_RELEASE", "yrmcds_release", "semaphore", true],
    ["COUNTER_STATS", "yrmcds_stats", "semaphore", false],
    ["PUBLISH", "publish", "publish", false],
    ["LIST", "list", "other", false],
    ["WHOAMI", "whoami", "other", false],
  ])("the request %s is called %s, and is of the family %s", (type, name, family, isOfShard) => {
    expect(typed(type)).toMatchObject({ name, family, isOfShard });
  });

  it.each<Request>([
    { type: "noop" },
    { type: "get", name: bytesOf("a") },
    { type: "acquire", name: bytesOf("a"), resources: 1, maximum: 9 },
    { type: "release", name: bytesOf("a"), resources: 1 },
  ])("the engine counts the yrmcds request $type", (request) => {
    const engine = new Engine({
      hashKey: { low: 1, high: 2 },
      bytesMax: 1 << 20,
      isCounting: true,
    });
    const frame = encodeRequest(request, 0);
    const holder = connectionHolder(new Uint8Array(16).fill(7));
    for (let i = 0; i < 3; i++) {
      const out = new ByteWriter();
      engine.semaphoreRequests.execute(frame, 0, frame.length, holder, out, Infinity, START_MS);
    }
    const figures = engine.tallyFigures(START_MS);
    const counted = COUNTED_REQUESTS.filter(({ index }) => countsAt(figures, index)[0] > 0);
    expect(counted.map(({ name }) => name)).toEqual([`yrmcds_${request.type}`]);
    expect(countsAt(figures, counted[0]!.index)[0]).toBe(3);
  });
});

/** Commands by names that no request type has. */
function prefixed(commands: Readonly<Record<string, number>>): Record<string, number> {
  return Object.fromEntries(Object.entries(commands).map(([name, type]) => [`edge ${name}`, type]));
}
