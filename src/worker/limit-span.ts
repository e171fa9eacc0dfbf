/**
 * A span around the decision of a limit, for traces of Workers: `throttr.limit`, with the shard, the limiter and the
 * outcome.
 *
 * The key is in it as a hash only, as a trace is no place for names of people. Where the runtime has no tracing, or does
 * not sample the request, asking so is all that it costs: 1.5 µs of 550, where entering a span would be 10 to 20.
 */
import * as runtime from "cloudflare:workers";
import { shardMapOf } from "../dispatch/known-maps.ts";
import { binaryString } from "../wire/bytes.ts";
import { COMMAND_HEADER_BYTES, Command } from "../wire/edge/command.ts";
import { ThrottrError } from "../wire/edge/error.ts";
import type { LimitResult } from "../wire/edge/limit.ts";
import type { Operation } from "../wire/edge/operation.ts";
import { Keyspace } from "../wire/keyspace.ts";
import type { Caller } from "./caller.ts";

/** What is used of the runtime's spans. */
export interface SpanSource {
  getActiveSpan(): { readonly isTraced: boolean } | undefined;
  enterSpan<T>(name: string, callback: (span: LimitSpan) => T): T;
}

interface LimitSpan {
  setAttribute(key: string, value: boolean | number | string): unknown;
}

/** A runtime before September 2026 lacks some of it. An import by name would keep the Worker from starting there. */
const { tracing } = runtime as unknown as { tracing?: Partial<SpanSource> };
const source: SpanSource | null =
  tracing?.getActiveSpan === undefined || tracing.enterSpan === undefined
    ? null
    : (tracing as SpanSource);

/** Whether an operation gets a span: a LIMIT, in a request that is sampled. */
export function isTraced({ type }: Operation<unknown>, spans: SpanSource | null = source): boolean {
  return type === Command.limit && spans?.getActiveSpan()?.isTraced === true;
}

/**
 * Executes a LIMIT within a span.
 *
 * @param decide sends it and reads the reply
 */
export async function withLimitSpan<Result>(
  caller: Caller,
  { frame }: Operation<Result>,
  decide: () => Promise<Result>,
  spans: SpanSource = source!,
): Promise<Result> {
  const { env, access } = caller;
  const keyBytes = frame[2]!;
  const key = binaryString(frame, COMMAND_HEADER_BYTES, keyBytes);
  const map = shardMapOf(env, access.namespace);
  const hash = map.hashOf(Keyspace.throttr, frame, COMMAND_HEADER_BYTES, keyBytes);
  return await spans.enterSpan("throttr.limit", async (span) => {
    span.setAttribute("throttr.shard", map.ranges.indexOf(hash));
    span.setAttribute("throttr.limiter", key.slice(0, Math.max(0, key.indexOf(":"))));
    span.setAttribute("throttr.key_hash", hash.toString(16).padStart(8, "0"));
    try {
      const result = await decide();
      const { success } = result as LimitResult;
      span.setAttribute("throttr.outcome", success ? "allowed" : "refused");
      return result;
    } catch (error) {
      span.setAttribute("throttr.outcome", ThrottrError.from(error).code);
      throw error;
    }
  });
}
