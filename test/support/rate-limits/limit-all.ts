/** LIMIT_ALL without a server: the body of a call, and what a reply to it says. */
import type { Operation } from "../../../src/wire/edge/operation.ts";
import {
  limitAll,
  type LimitAllEntry,
  type LimitAllResult,
} from "../../../src/wire/edge/limit-all.ts";
import { COMMAND_HEADER_BYTES } from "../../../src/wire/edge/command.ts";

/** A call of several limits: its operation, and the body that a shard gets when it has all of them. */
export interface TogetherCall {
  readonly operation: Operation<LimitAllResult>;
  readonly body: Uint8Array;
}

export function together(...requests: readonly LimitAllEntry[]): TogetherCall {
  const operation = limitAll({ requests });
  return { operation, body: operation.frame.slice(COMMAND_HEADER_BYTES) };
}

/** What a reply says. @throws ThrottrError for an error */
export function resultOf({ operation }: TogetherCall, reply: Uint8Array): LimitAllResult {
  return operation.read(reply);
}
