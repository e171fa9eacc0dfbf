/** The operation LIMIT_ALL: several limits, all of which are charged, or none. Bytes: `limit-all-body.ts`. */
import { binaryBytes, type ByteWriter } from "../bytes.ts";
import { writeConfiguration } from "../ratelimit/binary.ts";
import {
  checkList,
  checkOptions,
  integerOf,
  invalid,
  objectOf,
  type FieldNames,
} from "./argument.ts";
import { Command } from "./command.ts";
import { decisionBytes, readDecision } from "./decision.ts";
import { ThrottrError } from "./error.ts";
import { EntryFlag, LIMIT_ALL_MAX } from "./limit-all-body.ts";
import { checked, limitOf, limitResultOf, type LimitResult } from "./limit.ts";
import type { LimitRequest } from "./limits.ts";
import { onKey } from "./on-key.ts";
import type { CommandReply, Operation } from "./operation.ts";
import { checkReturns, writeReturns, type DrawReturn } from "./returns.ts";

/** One of several limits. They are always strict: the decision is on disk before it is answered. */
export interface LimitAllEntry extends Omit<LimitRequest, "idempotencyKey" | "durability"> {
  /**
   * True: this limit is charged with the others if it has room, and refuses nothing. False unless given.
   */
  readonly shadow?: boolean | undefined;
  /** Units of earlier draws that are given back first, whatever is decided; at most 64. */
  readonly returns?: readonly DrawReturn[] | undefined;
}

/** Limits that are charged together. */
export interface LimitAllRequest {
  /** 1 to 32. The costs of entries with the same name, key and strategy are added. */
  readonly requests: readonly LimitAllEntry[];
}

/** What several limits say together. */
export interface LimitAllResult {
  /** True: all were charged. False: none was. */
  readonly success: boolean;
  /** Index of the first request that was refused; null where all is charged. */
  readonly refusedBy: number | null;
  /** The longest wait of those that refused; 0 where all is charged, null where no wait helps. */
  readonly retryAfterMs: number | null;
  /** What each limit says, in the order of the requests. After a refusal the others say what a charge would have left. */
  readonly results: readonly LimitResult[];
}

const CODE = "limit_all_invalid";

const REQUEST: FieldNames<LimitAllRequest> = { requests: true };
const ENTRY: FieldNames<LimitAllEntry> = {
  name: true,
  key: true,
  strategy: true,
  cost: true,
  shadow: true,
  returns: true,
};

/**
 * Unknown names are refused by every door: a caller with an idempotency key would take it for safe to repeat the call.
 *
 * @throws ThrottrError `argument_invalid`, `option_invalid`, `limit_all_invalid`, and what a limit is refused with
 */
export function limitAll(request: LimitAllRequest): Operation<LimitAllResult> {
  const { requests } = objectOf(request, "request", "requests");
  checkOptions(request, REQUEST, "a request");
  checkList(requests, "requests", 1, LIMIT_ALL_MAX, CODE);
  const entries = requests.map(checkedEntry);
  const body = (out: ByteWriter): void => {
    out.u8(entries.length);
    for (const entry of entries) writeEntry(out, entry);
  };
  const read = ({ view }: CommandReply): LimitAllResult => {
    let at = 0;
    const results = entries.map(({ configuration }) => {
      const result = limitResultOf(configuration, readDecision(view, at));
      at += decisionBytes(view, at);
      return result;
    });
    return resultOf(entries, results);
  };
  return onKey(Command.limitAll, "", {}, read, body);
}

type Entry = ReturnType<typeof limitOf> & {
  readonly cost: number;
  readonly shadow: boolean;
  readonly returns: readonly DrawReturn[];
};

/** @throws ThrottrError that says which entry is wrong */
function checkedEntry(entry: LimitAllEntry, i: number): Entry {
  try {
    const {
      cost = 1,
      shadow = false,
      returns = [],
    } = objectOf(entry, "entry", "name, key and strategy");
    checkOptions(entry, ENTRY, "an entry");
    integerOf(cost, "cost", 1, Number.MAX_SAFE_INTEGER);
    if (typeof shadow !== "boolean") throw invalid("shadow", "true or false", shadow, CODE);
    checkReturns(returns);
    return { ...checked(() => limitOf(entry)), cost, shadow, returns };
  } catch (error) {
    const { code, detail } = ThrottrError.from(error);
    throw new ThrottrError(code, `requests[${i}].${detail}`);
  }
}

function writeEntry(out: ByteWriter, { configuration, key, cost, shadow, returns }: Entry): void {
  out.u8(shadow ? EntryFlag.isShadow : 0);
  out.u8(key.length);
  out.copy(binaryBytes(key));
  out.f64(cost);
  writeReturns(out, returns);
  const sizeAt = out.reserve(2);
  writeConfiguration(out, configuration);
  out.view.setUint16(sizeAt, out.length - sizeAt - 2, true);
}

function resultOf(
  entries: readonly Pick<LimitAllEntry, "shadow">[],
  results: readonly LimitResult[],
): LimitAllResult {
  const isRefusal = ({ success }: LimitResult, i: number): boolean =>
    !success && !entries[i]!.shadow;
  const first = results.findIndex(isRefusal);
  const waits = results.filter(isRefusal).map(({ retryAfterMs }) => retryAfterMs ?? Infinity);
  const longest = Math.max(0, ...waits);
  return {
    success: first < 0,
    refusedBy: first < 0 ? null : first,
    retryAfterMs: longest === Infinity ? null : longest,
    results,
  };
}
