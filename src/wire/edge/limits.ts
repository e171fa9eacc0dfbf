/** Operations on rate limits. Strategies and results: `limit.ts`. */
import type { ByteWriter } from "../bytes.ts";
import { writeConfiguration } from "../ratelimit/binary.ts";
import { integerOf, objectOf } from "./argument.ts";
import { Command } from "./command.ts";
import { purge } from "./counters.ts";
import { readDecision } from "./decision.ts";
import { checked, limitOf, limitResultOf, type LimitResult, type LimitStrategy } from "./limit.ts";
import { onKey, reading, type Once } from "./on-key.ts";
import type { CommandReply, Operation } from "./operation.ts";

/** A rate limit, and what it is asked. */
export interface LimitRequest extends Once {
  /** Base key: names the limit. 1 to 64 of `A-Z a-z 0-9 _ - : . @ +`. */
  readonly name: string;
  /** Dynamic key: names who is limited. As `name`. */
  readonly key: string;
  readonly strategy: LimitStrategy;
  /** An integer from 1; 1 unless given. */
  readonly cost?: number;
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

export function reset(request: Omit<LimitRequest, "cost">): Operation<boolean> {
  objectOf(request, "request", "name, key and strategy");
  const { key } = checked(() => limitOf(request));
  return purge(key, request);
}

function onLimit(type: number, request: LimitRequest): Operation<LimitResult> {
  const { cost = 1 } = objectOf(request, "request", "name, key and strategy");
  const { configuration, key } = checked(() => limitOf(request));
  integerOf(cost, "cost", 1, Number.MAX_SAFE_INTEGER);
  const isPeek = type === Command.peek;
  const read = ({ view }: CommandReply): LimitResult =>
    limitResultOf(configuration, readDecision(view, 0));
  const body = (out: ByteWriter): void => {
    if (!isPeek) out.f64(cost);
    writeConfiguration(out, configuration);
  };
  if (isPeek) return reading(type, key, read, body);
  return onKey(type, key, request, read, body);
}
