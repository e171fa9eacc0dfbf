/** Operations on rate limits. Strategies and results: `limit.ts`. */
import type { ByteWriter } from "../bytes.ts";
import { writeConfiguration } from "../ratelimit/binary.ts";
import { integerOf, invalid, objectOf } from "./argument.ts";
import { Command } from "./command.ts";
import { purge } from "./counters.ts";
import { readDecision } from "./decision.ts";
import { checked, limitOf, limitResultOf, type LimitResult, type LimitStrategy } from "./limit.ts";
import { onKey, reading, type Once } from "./on-key.ts";
import { relaxed, type CommandReply, type Operation } from "./operation.ts";

/**
 * Whether an answer waits for the disk. `strict`: it comes once all that it depends on is on disk, and survives any crash.
 * `relaxed`: it comes at once, and its row is written with the next one of the shard, within 50 ms; a crash of the shard
 * may take back that last bit of charges and refunds.
 */
export type LimitDurability = "strict" | "relaxed";

/** A rate limit, and what it is asked. */
export interface LimitRequest extends Once {
  /** Base key: names the limit. 1 to 64 of `A-Z a-z 0-9 _ - : . @ +`. */
  readonly name: string;
  /** Dynamic key: names who is limited. As `name`. */
  readonly key: string;
  readonly strategy: LimitStrategy;
  /** An integer from 1; 1 unless given. */
  readonly cost?: number | undefined;
  /**
   * "strict" unless given. "relaxed" answers a `limit`, `peek` or `refund` before it is on disk: a crash may take back what
   * was charged within the last 50 ms. A server before 0.5 refuses it with `flags_invalid`, and applies nothing.
   */
  readonly durability?: LimitDurability | undefined;
}

export function limit(request: LimitRequest): Operation<LimitResult> {
  return onLimit(Command.limit, request);
}

export function peek(request: LimitRequest): Operation<LimitResult> {
  return onLimit(Command.peek, request);
}

export function refund(request: LimitRequest): Operation<LimitResult> {
  return onLimit(Command.refund, request);
}

/** A reset is always strict, whatever the limit is. */
export function reset(request: Omit<LimitRequest, "cost">): Operation<boolean> {
  objectOf(request, "request", "name, key and strategy");
  const { key } = checked(() => limitOf(request));
  return purge(key, request);
}

function onLimit(type: number, request: LimitRequest): Operation<LimitResult> {
  const { cost = 1, durability = "strict" } = objectOf(
    request,
    "request",
    "name, key and strategy",
  );
  const { configuration, key } = checked(() => limitOf(request));
  integerOf(cost, "cost", 1, Number.MAX_SAFE_INTEGER);
  if (durability !== "strict" && durability !== "relaxed") {
    throw invalid("durability", "one of strict, relaxed", durability, "argument_invalid");
  }
  const isPeek = type === Command.peek;
  const read = ({ view }: CommandReply): LimitResult =>
    limitResultOf(configuration, readDecision(view, 0));
  const body = (out: ByteWriter): void => {
    if (!isPeek) out.f64(cost);
    writeConfiguration(out, configuration);
  };
  const operation = isPeek ? reading(type, key, read, body) : onKey(type, key, request, read, body);
  return durability === "relaxed" ? relaxed(operation) : operation;
}
