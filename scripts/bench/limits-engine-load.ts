/**
 * Checks of rate limits without a server around them: what making the frame of one takes, what the engine
 * takes to decide it, and what reading its reply takes.
 *
 * Takes a `LimitsEngineLoad` as JSON in its first argument and prints a `LimitsEngineMeasurement` as JSON.
 * A process measures one strategy only: a second one would change how the code of both is compiled.
 */
import { PART_HEADER_BYTES } from "../../src/wire/batch.ts";
import type { LimitResult } from "../../src/wire/edge/limit.ts";
import { settle, type Operation } from "../../src/wire/edge/operation.ts";
import { EDGE } from "../../src/wire/edge/protocol.ts";
import { limit } from "../../src/wire/edge/operations.ts";
import { applyBatch, batchesOf, engineOf, perProcessorS } from "./engine-batches.ts";
import { STRATEGIES, type StrategyName } from "./limits-strategies.ts";
import { keysOf } from "./workers/check-load.ts";

export interface LimitsEngineLoad {
  readonly strategy: StrategyName;
  readonly keys: number;
  /** Checks of a batch. */
  readonly depth: number;
  readonly warmUpMs: number;
  readonly durationMs: number;
}

/** Time of a thread on a processor, per check. */
export interface LimitsEngineMeasurement {
  readonly encodeNs: number;
  readonly applyNs: number;
  readonly readNs: number;
}

/** Version, and the header of the only part. */
const REPLIES_AT = 1 + PART_HEADER_BYTES;

function measure(load: LimitsEngineLoad): LimitsEngineMeasurement {
  const { strategy, keys, depth, warmUpMs, durationMs } = load;
  const names = keysOf(keys);
  const engine = engineOf(true);
  const encode = (): Operation<LimitResult>[] =>
    names.map((key) => limit({ name: "api", key, strategy: STRATEGIES[strategy] }));
  const operations = encode();
  const frames = operations.map(({ frame }) => frame);
  const batches = batchesOf(EDGE, frames, depth);
  const answers: Uint8Array[] = [];
  const applyAll = (): number => {
    batches.forEach((batch, i) => (answers[i] = applyBatch(engine, batch)));
    return keys;
  };
  const encodeAll = (): number => encode().length;
  const readAll = (): number => {
    answers.forEach((answer, i) =>
      assertGranted(operations.slice(i * depth, (i + 1) * depth), answer),
    );
    return keys;
  };
  const nsOf = (turn: () => number): number => {
    perProcessorS(turn, warmUpMs);
    return 1e9 / perProcessorS(turn, durationMs);
  };
  const applyNs = nsOf(applyAll);
  return { applyNs, encodeNs: nsOf(encodeAll), readNs: nsOf(readAll) };
}

function assertGranted(operations: readonly Operation<LimitResult>[], answer: Uint8Array): void {
  for (const settled of settle(operations, answer.subarray(REPLIES_AT))) {
    if (!settled.ok || !settled.value.success) throw new Error("a check was refused");
  }
}

process.stdout.write(JSON.stringify(measure(JSON.parse(process.argv[2]!) as LimitsEngineLoad)));
