/** The checkers of connections: how they end that their clients end, what doors count of them, and the IDs that WHOAMI tells. */
import { describe, expect, it } from "vitest";
import { checkConnectionIds, type ToldId } from "../../simulator/checks/whoami.ts";
import { checkDoorCounts } from "../../simulator/checks/door-counts.ts";
import { checkGoodbyes, isTaken, type Goodbye } from "../../simulator/checks/goodbyes.ts";

const goodbye = (kind: Goodbye["kind"], more: Partial<Goodbye> = {}): Goodbye => ({
  connection: 7,
  kind,
  reason: kind === "tcp" ? "the server has ended the connection" : "1000 ",
  unanswered: 0,
  mayBeClosed: false,
  ...more,
});

describe("the ends of connections", () => {
  it("a TCP peer that closes its sending half gets all its replies, and a WebSocket none behind its close", () => {
    const ends = [goodbye("tcp"), goodbye("gateway"), goodbye("websocket", { unanswered: 3 })];
    expect(checkGoodbyes(ends)).toEqual([]);
  });

  it.each(["tcp", "gateway"] as const)("a request over %s without its reply is found", (kind) => {
    expect(checkGoodbyes([goodbye("tcp"), goodbye(kind, { unanswered: 2 })])).toMatchObject([
      {
        promise: "The end of a connection",
        subject: `${kind} 7`,
        message: expect.stringMatching(/2 requests before that got no reply/),
      },
    ]);
  });

  it("a connection that a Hub may have closed for a limit may lack replies", () => {
    expect(checkGoodbyes([goodbye("tcp", { unanswered: 2, mayBeClosed: true })])).toEqual([]);
  });

  it("the server has taken what came before the close of a WebSocket, unless it has closed that by itself", () => {
    expect(isTaken(goodbye("websocket"))).toBe(true);
    expect(isTaken(goodbye("websocket", { reason: "1013 pending_bytes" }))).toBe(false);
    expect(isTaken(goodbye("websocket", { reason: "1006 " }))).toBe(false);
    expect(isTaken(goodbye("gateway"))).toBe(false);
  });
});

describe("what doors count", () => {
  const doorWith = (opening: unknown) => [
    { door: "isolate 1", counts: [["opening", 0] as const] },
    { door: "isolate 2", counts: [["unfinishedBytes", 0] as const, ["opening", opening] as const] },
  ];

  it("is nothing where nothing is under way", () => {
    expect(checkDoorCounts(doorWith(0))).toEqual([]);
  });

  it.each([1, -1, undefined])("is found to be %s", (value) => {
    const message = `\`opening\` is ${value} where nothing is under way`;
    expect(checkDoorCounts(doorWith(value))).toEqual([
      { promise: "Bounds", subject: "isolate 2", message },
    ]);
  });
});

describe("IDs of connections", () => {
  const told = (connection: number, id: string, tick: number): ToldId => ({
    connection,
    id,
    at: { tick, ms: tick },
  });

  it("each connection has one of its own", () => {
    const ids = [told(1, "a", 1), told(2, "b", 2), told(1, "a", 3), told(2, "b", 4)];
    expect(checkConnectionIds(ids)).toEqual([]);
  });

  it("a connection that gets another one is found", () => {
    expect(checkConnectionIds([told(1, "a", 1), told(1, "b", 2)])).toMatchObject([
      {
        promise: "Sleep",
        subject: "connection 1",
        message: expect.stringMatching(/answered b at .*2.*, and a at .*1/),
      },
    ]);
  });

  it("a connection that gets the one of another is found", () => {
    expect(checkConnectionIds([told(1, "a", 1), told(2, "a", 2)])).toMatchObject([
      {
        promise: "Sleep",
        subject: "connection 2",
        message: expect.stringMatching(/the ID of connection 1, a/),
      },
    ]);
  });
});
