/** The stream of replies and pushes: the same, however it is cut. */
import fc from "fast-check";
import { describe, expect, inject, it } from "vitest";
import { Control } from "../../src/client/channels/channels.ts";
import { ReplyStream, type Expected } from "../../src/client/calls/reply-stream.ts";
import type { Operation } from "../../src/wire/edge/operation.ts";
import { get, info, publish } from "../../src/wire/edge/operations.ts";
import { encodeInfo, INFO_BYTES } from "../../src/wire/throttr/info.ts";
import { commandReply, pushOf } from "../support/client/server.ts";
import { bytesOf, concat, hex } from "../support/frames/index.ts";
import { runs } from "../support/runs.ts";

const seed = inject("seed");

/** Keeps the reply, as hex. */
class Asked implements Expected {
  readonly operation: Operation<unknown>;
  readonly #seen: string[];

  constructor(operation: Operation<unknown>, seen: string[]) {
    this.operation = operation;
    this.#seen = seen;
  }

  reply(bytes: Uint8Array): void {
    this.#seen.push(`reply ${hex(bytes)}`);
  }
}

const INFO_REPLY = new Uint8Array(1 + INFO_BYTES).fill(0x19);
INFO_REPLY[0] = 1;

/** What comes from a server: a reply to an operation, or a push. */
type Item = { operation: Operation<unknown> | null; bytes: Uint8Array; seen: string };

const reply = (operation: Operation<unknown>, bytes: Uint8Array): Item => ({
  operation,
  bytes,
  seen: `reply ${hex(bytes)}`,
});

// Bodies hold what begins a push, so that a wrong length shows.
const body = fc.oneof(
  fc.uint8Array({ maxLength: 40 }),
  fc.integer({ min: 0, max: 3000 }).map((length) => new Uint8Array(length).fill(0x19)),
);

const items: fc.Arbitrary<Item[]> = fc.array(
  fc.oneof(
    fc
      .tuple(fc.constantFrom(1, 2), body)
      .map(([status, bytes]) => reply(get("key"), commandReply(status, bytes))),
    fc.constantFrom(0, 1).map((status) => reply(publish("c", "x"), Uint8Array.of(status))),
    fc
      .constantFrom(0, 1)
      .map((status) =>
        reply(new Control("subscribe", bytesOf("c")).operation, Uint8Array.of(status)),
      ),
    fc.constantFrom(INFO_REPLY, Uint8Array.of(0)).map((bytes) => reply(info(), bytes)),
    fc.tuple(fc.constantFrom("", "c", "n".repeat(255)), body).map(([channel, payload]) => ({
      operation: null,
      bytes: pushOf(channel, payload),
      seen: `push ${channel} ${hex(payload)}`,
    })),
  ),
  { maxLength: 30 },
);

describe("a stream", () => {
  it("a stream gives the same replies and pushes however it is cut", () => {
    const cuts = fc.infiniteStream(
      fc.oneof(fc.integer({ min: 1, max: 12 }), fc.integer({ min: 1, max: 5000 })),
    );
    fc.assert(
      fc.property(items, cuts, (items, cuts) => {
        const seen: string[] = [];
        const stream = new ReplyStream<Asked>((channel, payload) => {
          seen.push(`push ${String.fromCharCode(...channel)} ${hex(payload)}`);
        });
        for (const { operation } of items) {
          if (operation !== null) stream.expect(new Asked(operation, seen));
        }
        const bytes = concat(items.map(({ bytes }) => bytes));
        for (let at = 0; at < bytes.length;) {
          const end = at + cuts.next().value!;
          // The runtime may use a buffer again.
          const chunk = bytes.slice(at, end);
          stream.read(chunk);
          chunk.fill(0xff);
          at = end;
        }
        expect(seen).toEqual(items.map(({ seen }) => seen));
        expect(stream.unanswered).toEqual([]);
        expect(stream.unansweredBytes).toBe(0);
      }),
      { seed, numRuns: runs(500) },
    );
  });

  it("a stream knows which calls have no reply, and how many bytes they have", () => {
    const stream = new ReplyStream<Asked>(() => {});
    const asked = ["a", "bb", "ccc"].map((key) => new Asked(get(key), []));
    for (const entry of asked) stream.expect(entry);
    expect(stream.unansweredBytes).toBe(3 * 7 + 6);
    stream.read(commandReply(1, Uint8Array.of(0)));
    expect(stream.unanswered).toEqual(asked.slice(1));
    expect(stream.unansweredBytes).toBe(2 * 7 + 5);
  });

  it.each([
    ["a reply that nobody asked for", [], Uint8Array.of(1)],
    ["a status that a command has not", [get("a")], Uint8Array.of(0, 0, 0, 0, 0)],
    ["a status that PUBLISH has not", [publish("a", "b")], Uint8Array.of(2)],
    ["one reply too many", [publish("a", "b")], Uint8Array.of(1, 1)],
    ["what is no reply at all", [get("a")], bytesOf("<html>")],
  ])("a stream refuses %s", (_, operations, bytes) => {
    const stream = new ReplyStream<Asked>(() => {});
    for (const operation of operations) stream.expect(new Asked(operation, []));
    expect(() => stream.read(bytes)).toThrow(/^reply_invalid: /);
  });

  it("a stream does not gather more than 32 MiB of a reply", () => {
    const stream = new ReplyStream<Asked>(() => {});
    stream.expect(new Asked(get("a"), []));
    const chunk = new Uint8Array(16 << 20);
    stream.read(Uint8Array.of(1, 0xff, 0xff, 0xff, 0xff));
    stream.read(chunk);
    expect(() => stream.read(chunk)).toThrow(/^reply_invalid: .*33554432/);
  });

  it("a stream reads the answer to INFO", () => {
    const out = encodeInfo({
      nowMs: 5000,
      requests: () => [1, 2],
      readBytes: [3, 4],
      writeBytes: [5, 6],
      counters: 7,
      buffers: 8,
      counterBytes: 9,
      bufferBytes: 10,
      subscriptions: 11,
      channels: 12,
      runningSinceMs: 1_795_309_176_314,
      connections: 14,
      version: "1.2.3",
    });
    let figures: unknown;
    const operation = info();
    const stream = new ReplyStream(() => {});
    stream.expect({ operation, reply: (bytes) => (figures = operation.read(bytes)) });
    stream.read(concat([Uint8Array.of(1), out]));
    expect(figures).toMatchObject({
      nowSeconds: 5,
      keys: 15,
      runningSinceMs: 1_795_309_176_314,
      version: "1.2.3",
    });
  });
});
