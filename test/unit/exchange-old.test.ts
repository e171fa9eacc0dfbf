/** Exchanges with shards of the release before 0.5.0, which do not know the types of some frames. */
import { expect, it } from "vitest";
import { OPEN_ACCESS } from "../../src/base/access.ts";
import { turn } from "../../src/base/turn.ts";
import { Exchange } from "../../src/dispatch/exchange.ts";
import { refuserFor } from "../../src/dispatch/refuser.ts";
import { ShardLanes } from "../../src/dispatch/shard-lane.ts";
import { ShardMap } from "../../src/dispatch/shard-map.ts";
import type { Sink } from "../../src/dispatch/sink.ts";
import { Engine } from "../../src/engine/engine.ts";
import {
  batchHeaderBytes,
  batchVersion,
  readPlacement,
  SECTION_HEADER_BYTES,
} from "../../src/wire/batch.ts";
import { Command, COMMANDS_SINCE_0_5 } from "../../src/wire/edge/command.ts";
import { framingOf } from "../../src/wire/protocols.ts";
import { initialIndexOf } from "../../src/wire/range.ts";
import { Target } from "../../src/wire/throttr/requests.ts";
import {
  commandFrame,
  commandReplies,
  concat,
  EDGE,
  FOREVER,
  increment,
  protocolOf,
  read,
  U8,
} from "../support/frames/index.ts";

const NOW_MS = 1_700_000_000_000;
const SHARDS = 4;
/** `Command` as release 0.4.0 has it ends here. */
const LAST_OF_0_4 = 0x35;
const NEW_TYPES = Object.values(Command).filter((type) => type > LAST_OF_0_4);

/** The shards of release 0.4.0, of which a batch with a frame that it does not know fails in the middle. */
class OldShards {
  calls = 0;
  /** Calls from this number on fail. */
  failsFrom = Infinity;
  readonly #count: number;

  constructor(count = SHARDS) {
    this.#count = count;
  }

  readonly #engines = Array.from(
    { length: SHARDS },
    () => new Engine({ hashKey: { low: 1, high: 2 }, bytesMax: 1 << 24, isCounting: false }),
  );

  /** The lanes of one Hub. */
  lanes(): ShardLanes {
    return new ShardLanes(new ShardMap("default", this.#count, ""), (from) => async (batch) => {
      const call = ++this.calls;
      await turn();
      if (call >= this.failsFrom) throw new Error("the object was reset");
      return this.#apply(initialIndexOf(from, this.#count), batch.slice());
    });
  }

  #apply(shard: number, batch: Uint8Array): Uint8Array {
    const view = new DataView(batch.buffer, batch.byteOffset, batch.byteLength);
    const placement = readPlacement(view);
    if (placement.range !== undefined) throw batchVersion();
    for (let at = batchHeaderBytes(placement); at < batch.length;) {
      const protocolCode = batch[at]!;
      const framesAt = at + SECTION_HEADER_BYTES;
      at = framesAt + view.getUint32(at + 8, true);
      if (protocolCode === EDGE.code) assertKnown(batch.subarray(framesAt, at));
    }
    return this.#engines[shard]!.apply(batch, NOW_MS);
  }
}

function assertKnown(frames: Uint8Array): void {
  for (let at = 0; at < frames.length; at = framingOf(EDGE).frameEnd(frames, at)) {
    if (frames[at]! > LAST_OF_0_4) throw new RangeError("frames: not whole");
  }
}

/** One caller, which sends one message. */
class Caller implements Sink {
  hasReader = true;
  readonly errors: unknown[] = [];
  readonly #replies: Uint8Array[] = [];
  readonly #ended = Promise.withResolvers<void>();

  constructor(
    lanes: ShardLanes,
    requests: readonly Uint8Array[],
    protocol = EDGE,
    replyBytesMax = 1 << 20,
  ) {
    const bytes = concat(requests);
    const frames = { protocol, target: Target.shard, bytes, count: requests.length };
    new Exchange(lanes, frames, this, replyBytesMax).start(refuserFor(frames, OPEN_ACCESS));
  }

  room = () => null;
  countPublished(): void {}

  fail(error: unknown): void {
    this.errors.push(error);
    this.#ended.resolve();
  }

  reply(bytes: Uint8Array, isLast: boolean): void {
    this.#replies.push(bytes.slice());
    if (isLast) this.#ended.resolve();
  }

  async replies(): Promise<Uint8Array> {
    await this.#ended.promise;
    return concat(this.#replies);
  }

  /** The code of each reply to a command; "" for a success. */
  async codes(): Promise<string[]> {
    return commandReplies(await this.replies()).map(({ code }) => code);
  }
}

/** A frame of a type that the shards do not know; they don't look at its body. */
const newFrame = (type: number, key: string): Uint8Array =>
  commandFrame(type, key, new Uint8Array(60));
const add = (key: string): Uint8Array => increment(key, 1n, FOREVER);
const UNKNOWN = "request_type_unknown";

it("the commands that release 0.4.0 does not know come behind its own", () => {
  expect(Math.min(...NEW_TYPES)).toBe(COMMANDS_SINCE_0_5);
});

it.each([Command.draw, Command.reserve, Command.settle, Command.restoreLease])(
  "a frame of type %i that an old shard does not know is refused, and other callers of the same call are served",
  async (type) => {
    const shards = new OldShards();
    const lanes = shards.lanes();
    const callers = [
      new Caller(lanes, [add("b")]),
      new Caller(lanes, [newFrame(type, "a")]),
      new Caller(lanes, [add("b")]),
    ];
    expect(await Promise.all(callers.map((caller) => caller.codes()))).toEqual([
      [""],
      [UNKNOWN],
      [""],
    ]);
    expect(callers.flatMap(({ errors }) => errors)).toEqual([]);
    // Now that the shards are known to be old, too.
    expect(await new Caller(lanes, [newFrame(type, "a"), add("b")]).codes()).toEqual([UNKNOWN, ""]);
  },
);

it("frames that old shards do not know are refused in their places, whatever shards the others are for", async () => {
  const shards = new OldShards();
  const lanes = shards.lanes();
  const requests = Array.from({ length: 40 }, (_, i) =>
    i % 3 === 1 ? newFrame(Command.draw, `k:${i}`) : add(`k:${i}`),
  );
  const expected = requests.map((_, i) => (i % 3 === 1 ? UNKNOWN : ""));
  for (let message = 1; message <= 2; message++) {
    const replies = commandReplies(await new Caller(lanes, requests).replies());
    expect(replies.map(({ code }) => code)).toEqual(expected);
  }
  const reads = Array.from({ length: 40 }, (_, i) => read(`k:${i}`));
  const bodies = commandReplies(await new Caller(lanes, reads).replies()).map(({ body }) => body);
  const isThere = bodies.map((body) => body[0] === 1);
  expect(isThere).toEqual(expected.map((code) => code === ""));
});

it("a type of another dialect than edge is not taken for a command", async () => {
  const lanes = new OldShards().lanes();
  await new Caller(lanes, [U8.insert("a", 5)], protocolOf(U8)).replies();
  const query = new Caller(lanes, [U8.query("a")], protocolOf(U8));
  expect((await query.replies())[0]).toBe(1);
});

it("a call that fails fails the frames that it carried, and not those that were refused before it", async () => {
  const shards = new OldShards();
  const lanes = shards.lanes();
  await new Caller(lanes, [add("b")]).codes();
  shards.failsFrom = shards.calls + 1;
  const drawing = new Caller(lanes, [newFrame(Command.draw, "b")]);
  const adding = new Caller(lanes, [add("b")]);
  const both = new Caller(lanes, [add("b"), newFrame(Command.draw, "b")]);
  expect(await drawing.codes()).toEqual([UNKNOWN]);
  await Promise.all([adding.replies(), both.replies()]);
  expect([drawing.errors.length, adding.errors.length, both.errors.length]).toEqual([0, 1, 1]);
});

it("of a caller that has gone nothing is answered, and what old shards know of its writes is applied", async () => {
  const shards = new OldShards();
  const lanes = shards.lanes();
  const gone = new Caller(lanes, [newFrame(Command.draw, "b"), add("b")]);
  gone.hasReader = false;
  expect(await gone.replies()).toHaveLength(0);
  const [reply] = commandReplies(await new Caller(lanes, [read("b")]).replies());
  expect([reply!.body[0], gone.errors]).toEqual([1, []]);
});

it.each([1, SHARDS])(
  "of %i old shards that stop at each reply every frame is applied once",
  async (shards) => {
    const lanes = new OldShards(shards).lanes();
    const requests = Array.from({ length: 12 }, (_, i) =>
      i % 3 === 0 ? newFrame(Command.draw, "a") : add(`a:${i}`),
    );
    // The second message meets shards that are known to be old.
    for (const message of [1, 2]) {
      const replies = commandReplies(await new Caller(lanes, requests, EDGE, 1).replies());
      const quotas = replies.filter(({ isError }) => !isError).map(({ body }) => body.at(-8));
      expect(quotas).toEqual(Array.from({ length: 8 }, () => message));
      // Then the lanes are free, and take a piece at once.
      await turn();
    }
  },
);
