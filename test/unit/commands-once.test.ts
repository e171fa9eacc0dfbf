/** Idempotency keys: applied once, answered alike, whatever happens between. */
import fc from "fast-check";
import { describe, expect, inject, it } from "vitest";
import type { Engine } from "../../src/engine/engine.ts";
import { Keyspace } from "../../src/wire/keyspace.ts";
import { configurations, goodCommand } from "../support/commands/arbitraries.ts";
import { CommandDisk, imagesOf } from "../support/commands/disk.ts";
import {
  bytesOf,
  change,
  type CommandOptions,
  commandReplies,
  type CommandReply,
  compareAndSet,
  concat,
  configurationBytes,
  edgeBatch,
  expire,
  FOREVER,
  hex,
  increment,
  insert,
  limit,
  partsOf,
  purge,
  read,
  refund,
  set,
  ttlMs,
} from "../support/frames/index.ts";
import { CommandModel } from "../support/models/commands.ts";
import { finish } from "../support/engine/steps.ts";
import { runs } from "../support/runs.ts";

const seed = inject("seed");
const NOW_MS = 1_700_000_000_000;
const ANSWER_TTL_MS = 60_000;
const BUCKET = configurationBytes({ strategy: "token_bucket", burst: 3, rate: 0.001 });

class Shard {
  readonly #disk: CommandDisk;
  engine: Engine;
  nowMs = NOW_MS;

  constructor(bytesMax = 8 << 20) {
    this.#disk = new CommandDisk({ rowBytesMax: 1_900_000, answerTtlMs: ANSWER_TTL_MS, bytesMax });
    this.engine = this.#disk.start(seed, this.nowMs);
  }

  send(...frames: Uint8Array[]): CommandReply[] {
    return commandReplies(partsOf(this.engine.apply(edgeBatch(frames), this.nowMs))[0]!.replies);
  }

  one(frame: Uint8Array): CommandReply {
    return this.send(frame)[0]!;
  }

  /** The quota of a counter. */
  quota(key: string): bigint {
    const { body } = this.one(read(key));
    return new DataView(body.buffer).getBigUint64(19, true);
  }

  restart(): void {
    this.#disk.commit(this.engine);
    this.engine = this.#disk.start(seed, this.nowMs);
  }

  crash(): void {
    this.engine = this.#disk.start(seed, this.nowMs);
  }
}

const once: CommandOptions = { once: "id" };

/** Each command that writes, twice: what is there before, the command, and another one of its type. */
const WRITES: readonly [string, Uint8Array[], Uint8Array, Uint8Array][] = [
  ["INSERT", [], insert("k", 5n, FOREVER, once), insert("k", 6n, FOREVER, once)],
  [
    "INCREMENT",
    [insert("k", 5n, FOREVER)],
    increment("k", 2n, FOREVER, once),
    increment("k", 2n, ttlMs(5), once),
  ],
  ["CHANGE", [insert("k", 5n, FOREVER)], change("k", 2, 2n, once), change("k", 1, 2n, once)],
  [
    "EXPIRE",
    [insert("k", 5n, FOREVER)],
    expire("k", 1, ttlMs(5000), once),
    expire("k", 1, ttlMs(5001), once),
  ],
  ["PURGE", [insert("k", 5n, FOREVER)], purge("k", once), change("k", 1, 0n, once)],
  ["SET", [], set("k", bytesOf("x"), FOREVER, once), set("k", bytesOf("y"), FOREVER, once)],
  [
    "COMPARE_AND_SET",
    [set("k", bytesOf("x"), FOREVER)],
    compareAndSet("k", 1, bytesOf("x"), bytesOf("y"), FOREVER, once),
    compareAndSet("k", 1, bytesOf("x"), bytesOf("z"), FOREVER, once),
  ],
  ["LIMIT", [], limit("k", BUCKET, 2, once), limit("k", BUCKET, 1, once)],
  ["REFUND", [limit("k", BUCKET, 3)], refund("k", BUCKET, 2, once), limit("k", BUCKET, 2, once)],
];

describe.each(WRITES)("%s with an idempotency key", (_, before, frame, other) => {
  const started = (): Shard => {
    const shard = new Shard();
    for (const setup of before) expect(shard.one(setup).isError).toBe(false);
    return shard;
  };

  it("a write with an idempotency key is applied once, and answered the same later and after a restart", () => {
    const shard = started();
    const [first, second] = shard.send(frame, frame);
    expect(first!.isError).toBe(false);
    expect(hex(second!.bytes)).toBe(hex(first!.bytes));
    const images = imagesOf(shard.engine);
    for (const event of ["wait", "restart", "wait"]) {
      if (event === "wait") shard.nowMs += 10_000;
      else shard.restart();
      expect(hex(shard.one(frame).bytes)).toBe(hex(first!.bytes));
      expect(imagesOf(shard.engine)).toEqual(images);
    }
  });

  it("a write with an idempotency key is applied again, once, when a crash undid it", () => {
    const shard = started();
    shard.restart();
    const first = shard.one(frame);
    shard.crash();
    const second = shard.one(frame);
    expect(hex(second.bytes)).toBe(hex(first.bytes));
    const images = imagesOf(shard.engine);
    expect(hex(shard.one(frame).bytes)).toBe(hex(first.bytes));
    expect(imagesOf(shard.engine)).toEqual(images);
  });

  it("a write with the idempotency key of another call is refused and changes nothing", () => {
    const shard = started();
    const first = shard.one(frame);
    const images = imagesOf(shard.engine);
    expect(shard.one(other).code).toBe("idempotency_conflict");
    expect(imagesOf(shard.engine)).toEqual(images);
    expect(hex(shard.one(frame).bytes)).toBe(hex(first.bytes));
  });
});

describe("answers", () => {
  it("answers are kept for their TTL, to the millisecond", () => {
    const shard = new Shard();
    const frame = increment("k", 1n, FOREVER, once);
    shard.one(frame);
    shard.nowMs += ANSWER_TTL_MS - 1;
    shard.one(frame);
    expect(shard.quota("k")).toBe(1n);
    shard.nowMs += 1;
    shard.one(frame);
    expect(shard.quota("k")).toBe(2n);
    shard.nowMs += ANSWER_TTL_MS - 1;
    shard.restart();
    shard.one(frame);
    expect(shard.quota("k")).toBe(2n);
    shard.nowMs += 1;
    shard.restart();
    shard.one(frame);
    expect(shard.quota("k")).toBe(3n);
  });

  it("answers belong to one key and one idempotency key", () => {
    const shard = new Shard();
    const calls = [
      increment("k", 1n, FOREVER, { once: "a" }),
      increment("k", 1n, FOREVER, { once: "ab" }),
      increment("bk", 1n, FOREVER, { once: "a" }),
      increment("k", 1n, FOREVER, { once: "\0" }),
      increment("k", 1n, FOREVER, { once: "a\0" }),
      increment("", 1n, FOREVER, { once: "abk" }),
      increment("k", 1n, FOREVER, { once: "i".repeat(64) }),
    ];
    for (let round = 0; round < 2; round++) {
      const replies = shard.send(...calls);
      expect(replies.map(({ isError }) => isError)).not.toContain(true);
      expect([shard.quota("k"), shard.quota("bk"), shard.quota("")]).toEqual([5n, 1n, 1n]);
    }
  });

  it("answers of calls that were not applied are kept, and errors are not", () => {
    const shard = new Shard();
    const decrease = change("k", 2, 1n, once);
    expect([...shard.one(decrease).body]).toEqual([0]);
    shard.one(insert("k", 5n, FOREVER));
    expect([...shard.one(decrease).body]).toEqual([0]);
    shard.one(set("buffer", bytesOf("x"), FOREVER));
    const increase = increment("buffer", 1n, FOREVER, once);
    const images = imagesOf(shard.engine);
    for (let i = 0; i < 2; i++) expect(shard.one(increase).code).toBe("kind_mismatch");
    expect(imagesOf(shard.engine)).toEqual(images);
    shard.one(purge("buffer"));
    expect(shard.one(increase).isError).toBe(false);
    expect(shard.quota("buffer")).toBe(1n);
  });

  it("calls with long answers change nothing, and are answered anew", () => {
    const shard = new Shard();
    const swap = (key: string): Uint8Array =>
      compareAndSet(key, 0, new Uint8Array(0), Uint8Array.of(1), ttlMs(1000), once);
    const fits = new Uint8Array(1024 - 5 - 1 - 18).fill(7);
    shard.send(set("long", new Uint8Array(fits.length + 1), FOREVER), set("fits", fits, FOREVER));
    const images = imagesOf(shard.engine);
    expect(shard.one(swap("long")).body[0]).toBe(0);
    expect(imagesOf(shard.engine)).toEqual(images);
    const kept = shard.one(swap("fits"));
    shard.send(purge("long"), purge("fits"));
    expect(hex(shard.one(swap("fits")).bytes)).toBe(hex(kept.bytes));
    expect(shard.one(swap("long")).body[0]).toBe(1);
    expect(shard.one(read("fits")).body[0]).toBe(0);
  });

  it("answers are out of reach of all other requests", () => {
    const shard = new Shard();
    const frame = increment("k", 1n, FOREVER, once);
    const reply = shard.one(frame);
    // What an answer is stored under and what is stored, as far as it can be known.
    const name = "\x02idk";
    const forged = concat([new Uint8Array(8), set("k", bytesOf("forged"), FOREVER)]);
    expect([...shard.one(read(name)).body]).toEqual([0]);
    expect([...shard.one(purge(name)).body]).toEqual([0]);
    expect([...shard.one(set(name, forged, FOREVER)).body]).toEqual([1]);
    expect(hex(shard.one(frame).bytes)).toBe(hex(reply.bytes));
    const other = new Shard();
    other.send(set(name, forged, FOREVER), set("\x02idk\0", forged, FOREVER));
    expect(hex(other.one(frame).bytes)).toBe(hex(reply.bytes));
    const pages = [Keyspace.throttr, Keyspace.throttrPairs].map((keyspace) =>
      finish(
        shard.engine.scan.page({ keyspace, prefix: new Uint8Array(0), prefixes: [] }, null, 1000),
      ),
    );
    expect(new DataView(pages[0]!.buffer).getUint32(4, true)).toBe(2);
    expect(new DataView(pages[1]!.buffer).getUint32(4, true)).toBe(0);
    expect(shard.engine.totals).toMatchObject({
      counters: 1,
      buffers: 1,
    });
    expect(shard.engine.figures.records).toBe(3);
  });

  it("answers to reads are not kept, so readers do not fill a shard", () => {
    const shard = new Shard();
    for (const frame of [read("k", once), read("k", { flags: 2 }), read("k", { flags: 0xff })]) {
      expect(shard.one(frame).code).toBe("flags_invalid");
    }
    expect(shard.engine.figures.records).toBe(0);
  });
});

describe("a full shard", () => {
  it("a call in a full shard is refused with nothing changed, or applied once", () => {
    const frames = configurations.chain((configuration) =>
      fc.array(fc.record({ frame: goodCommand(fc.constant(configuration)), again: fc.nat(3) }), {
        minLength: 1,
        maxLength: 60,
      }),
    );
    let full = 0;
    const property = fc.property(
      frames,
      fc.integer({ min: 700, max: 4000 }),
      fc.array(fc.nat(1500), { maxLength: 3 }),
      (calls, bytesMax, pausesMs) => {
        const shard = new Shard(bytesMax);
        const model = new CommandModel(ANSWER_TTL_MS);
        for (const { frame, again } of calls) {
          const pauseMs = again === 3 ? pausesMs.pop() : undefined;
          shard.nowMs += pauseMs ?? 0;
          shard.engine.advance(shard.nowMs);
          model.advance(shard.nowMs);
          for (let i = 0; i <= again; i++) {
            const before = imagesOf(shard.engine);
            const reply = shard.one(frame);
            if (reply.code === "shard_full") {
              full++;
            } else if (reply.code === "answer_lost") {
              const { answers } = model;
              model.command(frame);
              expect(model.answers).toBe(answers);
            } else {
              const expected = model.command(frame);
              if ("codes" in expected) expect(expected.codes).toContain(reply.code);
              else expect([...reply.bytes]).toEqual(expected.bytes);
            }
            if (reply.isError) expect(imagesOf(shard.engine)).toEqual(before);
            expect(shard.engine.figures.bytes).toBeLessThanOrEqual(bytesMax * 1.125);
          }
          if (again === 2) shard.restart();
        }
      },
    );
    fc.assert(property, { seed, numRuns: runs(300) });
    expect(full).toBeGreaterThan(0);
  });

  it("a call in a full shard is refused, or applied with its answer kept or lost", () => {
    const outcomes = new Set<string>();
    for (let bytesMax = 1200; bytesMax < 6000; bytesMax += 40) {
      const shard = new Shard(bytesMax);
      if (shard.one(set("k", new Uint8Array(600), FOREVER)).isError) continue;
      for (let i = 0; i < (bytesMax / 40) % 14; i++) shard.one(insert(`fill:${i}`, 1n, FOREVER));
      for (const id of ["1", "2", "3"]) {
        const none = new Uint8Array(0);
        const swap = compareAndSet("k", 0, none, Uint8Array.of(1), ttlMs(1000), { once: id });
        const before = imagesOf(shard.engine);
        const [first, second] = [shard.one(swap), imagesOf(shard.engine)];
        const again = shard.one(swap);
        expect(imagesOf(shard.engine)).toEqual(second);
        if (first.isError) {
          expect(second).toEqual(before);
          expect([first.code, again.code]).toEqual(["shard_full", "shard_full"]);
        } else if (again.isError) {
          expect(again.code).toBe("answer_lost");
        } else {
          expect(hex(again.bytes)).toBe(hex(first.bytes));
        }
        outcomes.add(first.isError ? "refused" : again.isError ? "lost" : "kept");
      }
    }
    expect([...outcomes].toSorted()).toEqual(["kept", "lost", "refused"]);
  });
});
