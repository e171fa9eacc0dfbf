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
const named = (name: string) => COUNTED_REQUESTS.find((counted) => counted.name === name);

describe("counted requests", () => {
  it("counted requests have unique names and places", () => {
    expect(new Set(COUNTED_REQUESTS.map(({ name }) => name)).size).toBe(COUNTED_REQUESTS.length);
    const places = new Set(COUNTED_REQUESTS.map(({ index }) => index));
    expect(places.size).toBe(COUNTED_REQUESTS.length);
    for (const index of [TALLY_READ_BYTES, TALLY_WRITE_BYTES]) expect(places).not.toContain(index);
    for (const { name } of COUNTED_REQUESTS) expect(name).toMatch(/^[A-Z]+(_[A-Z]+)*$/);
  });

  it("no two request types and commands have the same number", () => {
    const types = Object.entries({ ...RequestType, ...prefixed(Command) });
    for (const [name, type] of types) {
      const twins = types.filter(([, other]) => other === type).map(([twin]) => twin);
      expect(twins).toEqual([name]);
    }
  });

  it("all request types and commands are counted", () => {
    const types = [...Object.values(RequestType), ...Object.values(Command)];
    const counted = COUNTED_REQUESTS.filter(({ name }) => !name.startsWith("COUNTER_"));
    expect(counted.map(({ index }) => index)).toEqual(types.toSorted((a, b) => a - b));
  });

  it.each([
    ["QUERY", "read", true],
    ["STAT", "read", true],
    ["EDGE_READ", "read", true],
    ["INSERT", "write", true],
    ["EDGE_COMPARE_AND_SET", "write", true],
    ["EDGE_LIMIT", "limit", true],
    ["EDGE_PEEK", "limit", true],
    ["EDGE_REFUND", "limit", true],
    ["EDGE_ACQUIRE", "semaphore", true],
    ["EDGE_SEMAPHORES", "semaphore", false],
    ["COUNTER_RELEASE", "semaphore", true],
    ["COUNTER_STATS", "semaphore", false],
    ["PUBLISH", "publish", false],
    ["LIST", "other", false],
    ["WHOAMI", "other", false],
  ])("the request %s is of the family %s", (name, family, isOfShard) => {
    expect(named(name)).toMatchObject({ family, isOfShard });
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
    expect(counted.map(({ name }) => name)).toEqual([`COUNTER_${request.type.toUpperCase()}`]);
    expect(countsAt(figures, counted[0]!.index)[0]).toBe(3);
  });
});

/** Commands by names that no request type has. */
function prefixed(commands: Readonly<Record<string, number>>): Record<string, number> {
  return Object.fromEntries(Object.entries(commands).map(([name, type]) => [`edge ${name}`, type]));
}
