/** Commands against the model: any commands, between requests of 7.3, at any times, with restarts. */
import fc from "fast-check";
import { describe, expect, inject, it } from "vitest";
import type { Engine } from "../../src/engine/engine.ts";
import type { Protocol } from "../../src/wire/throttr/protocol.ts";
import { requestArbitrary } from "../support/engine/arbitraries.ts";
import {
  commandArbitrary,
  configurations,
  key,
  leftState,
} from "../support/commands/arbitraries.ts";
import { CommandDisk, imagesOf } from "../support/commands/disk.ts";
import { expectReply } from "../support/commands/expected.ts";
import {
  batchIn,
  bytesOf,
  commandFrame,
  commandReplies,
  concat,
  EDGE,
  edgeBatch,
  FOREVER,
  frameOf,
  partsOf,
  protocolOf,
  set,
} from "../support/frames/index.ts";

import type { Expected } from "../support/models/body.ts";
import { CommandModel } from "../support/models/commands.ts";
import type { ModelRequest } from "../support/models/requests.ts";
import { runs } from "../support/runs.ts";

const seed = inject("seed");
const START_MS = 1_700_000_000_000;
const ANSWER_TTL_MS = 3000;

type Item =
  | { kind: "command"; frame: Uint8Array }
  | { kind: "again"; back: number }
  | { kind: "request"; request: ModelRequest }
  | { kind: "stat"; key: string };

interface Step {
  sections: { protocol: Protocol; valueSize: number; items: Item[] }[];
  afterMs: number;
  next: "commit" | "crash" | "crash after commit" | "snapshot step" | "sweep" | "nothing";
}

const sizes = [1, 2, 4, 8] as const;

const stepArbitrary = (command: fc.Arbitrary<Uint8Array>): fc.Arbitrary<Step> => {
  const request = (valueSize: number): fc.Arbitrary<Item> =>
    requestArbitrary({ dialect: "7.3", valueSize }).map((request) => ({
      kind: "request",
      request,
    }));
  const stat: fc.Arbitrary<Item> = key.map((key) => ({ kind: "stat", key }));
  const edgeItem: fc.Arbitrary<Item> = fc.oneof(
    { weight: 8, arbitrary: command.map((frame) => ({ kind: "command" as const, frame })) },
    { weight: 2, arbitrary: fc.nat(8).map((back) => ({ kind: "again" as const, back })) },
    { weight: 1, arbitrary: request(8) },
    { weight: 1, arbitrary: stat },
    {
      weight: 1,
      arbitrary: leftState.map((state) => ({
        kind: "command" as const,
        frame: set("limited:0", state, FOREVER),
      })),
    },
  );
  const edgeSection = fc.record({
    protocol: fc.constant(EDGE),
    valueSize: fc.constant(8),
    items: fc.array(edgeItem, { minLength: 1, maxLength: 20 }),
  });
  const throttrSection = fc.constantFrom(...sizes).chain((valueSize) =>
    fc.record({
      protocol: fc.constant(protocolOf({ dialect: "7.3", valueSize })),
      valueSize: fc.constant(valueSize),
      items: fc.array(request(valueSize), { minLength: 1, maxLength: 5 }),
    }),
  );
  return fc.record({
    sections: fc.array(
      fc.oneof({ weight: 3, arbitrary: edgeSection }, { weight: 1, arbitrary: throttrSection }),
      { minLength: 1, maxLength: 3 },
    ),
    afterMs: fc.oneof(
      fc.constantFrom(0, 1, 999, 1000, ANSWER_TTL_MS),
      fc.nat(5000),
      fc.nat(10_000_000),
    ),
    next: fc.constantFrom(
      "commit",
      "crash",
      "crash after commit",
      "snapshot step",
      "sweep",
      "nothing",
    ),
  });
};

/** Steps of one run: it knows few configurations, which meet each other's states. */
const stepsArbitrary = fc.array(configurations, { minLength: 1, maxLength: 3 }).chain((known) =>
  fc.array(stepArbitrary(commandArbitrary(fc.constantFrom(...known))), {
    minLength: 1,
    maxLength: 20,
  }),
);

function sweepAll(engine: Engine, nowMs: number): void {
  for (let cursor: number | null = 0; cursor !== null;) cursor = engine.sweepStep(cursor, nowMs);
}

describe("commands", () => {
  it("commands answer as the model does, whatever is restarted at any time", () => {
    const property = fc.property(
      stepsArbitrary,
      fc.integer(),
      fc.constantFrom(700, 2000, 1_900_000),
      (steps, hashSeed, rowBytesMax) => {
        const disk = new CommandDisk({
          rowBytesMax,
          answerTtlMs: ANSWER_TTL_MS,
          bytesMax: 64 << 20,
        });
        let nowMs = START_MS;
        let latestMs = nowMs;
        let engine = disk.start(hashSeed, nowMs);
        let model = new CommandModel(ANSWER_TTL_MS);
        model.advance(nowMs);
        let durable = model.clone();
        const sent: Uint8Array[] = [];
        for (const { sections, afterMs, next } of steps) {
          nowMs += afterMs;
          latestMs = Math.max(latestMs, nowMs);
          model.advance(nowMs);
          const framed = sections.map(({ protocol, valueSize, items }) => ({
            protocol,
            frames: items.map((item) => frameOfItem(item, valueSize, sent)),
          }));
          const parts = partsOf(engine.apply(batchIn(framed), nowMs));
          sections.forEach((section, index) => {
            const { items } = section;
            const { count, replies } = parts[index]!;
            expect(count).toBe(items.length);
            let at = 0;
            items.forEach((item, i) => {
              const frame = framed[index]!.frames[i]!;
              at = expectReply(replies, at, expectedOf(model, item, frame, section));
            });
            expect(at).toBe(replies.length);
          });
          if (next !== "nothing" && next !== "crash") {
            disk.commit(engine);
            durable = model.clone();
          }
          if (next === "snapshot step") disk.snapshotStep(engine);
          if (next === "sweep") sweepAll(engine, nowMs);
          if (next.startsWith("crash")) {
            // The clock of the machine may have gone back meanwhile; that of the records has not.
            nowMs = latestMs;
            engine = disk.start(hashSeed, nowMs);
            model = durable.restarted();
            model.advance(nowMs);
          }
        }
        sweepAll(engine, latestMs);
        expect(engine.figures.records).toBe(model.records.size + model.answers);
      },
    );
    fc.assert(property, { seed, numRuns: runs(400) });
  });

  it("refused commands change nothing", () => {
    const property = fc.property(
      fc
        .array(configurations, { minLength: 1, maxLength: 2 })
        .chain((known) =>
          fc.array(commandArbitrary(fc.constantFrom(...known)), { minLength: 1, maxLength: 40 }),
        ),
      (frames) => {
        const disk = new CommandDisk({
          rowBytesMax: 1_900_000,
          answerTtlMs: ANSWER_TTL_MS,
          bytesMax: 1 << 20,
        });
        const engine = disk.start(seed, START_MS);
        for (const frame of frames) {
          const before = imagesOf(engine);
          const { replies } = partsOf(engine.apply(edgeBatch([frame]), START_MS))[0]!;
          const [reply] = commandReplies(replies);
          if (reply!.isError) expect(imagesOf(engine)).toEqual(before);
          disk.commit(engine);
          expect(imagesOf(disk.start(seed, START_MS))).toEqual(imagesOf(engine));
        }
      },
    );
    fc.assert(property, { seed, numRuns: runs(200) });
  });
});

function frameOfItem(item: Item, valueSize: number, sent: Uint8Array[]): Uint8Array {
  switch (item.kind) {
    case "command":
      sent.push(item.frame);
      return item.frame;
    case "again":
      return sent.at(-1 - item.back) ?? commandFrame(0x20, "");
    case "request":
      return frameOf({ dialect: "7.3", valueSize }, item.request);
    case "stat":
      return concat([Uint8Array.of(0x09, item.key.length), bytesOf(item.key)]);
  }
}

function expectedOf(
  model: CommandModel,
  item: Item,
  frame: Uint8Array,
  { protocol, valueSize }: { protocol: { dialect: string }; valueSize: number },
): Expected {
  if (item.kind === "request") return model.throttr(valueSize, item.request);
  return item.kind === "stat"
    ? model.stat(item.key, protocol.dialect === "edge")
    : model.command(frame);
}
