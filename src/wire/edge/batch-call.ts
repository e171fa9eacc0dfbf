/** The calls of a batch: operations by their names, which come from callers and are looked up here and nowhere else. */
import { invalid } from "./argument.ts";
import { BATCH_MAX } from "./batch-parts.ts";
import { ThrottrError } from "./error.ts";
import { shown } from "../ratelimit/error.ts";
import type { Operation } from "./operation.ts";
import * as operations from "./operations.ts";
import type { BatchCall } from "./service.ts";

/** An operation whose arguments are unknown: they are checked when the operation is made. */
type AnyOperation = (...parameters: unknown[]) => Operation<unknown>;

/** Makes the operation of a call. @throws ThrottrError `operation_unknown`, or that of an argument */
export type BatchCallMaker = (call: BatchCall) => Operation<unknown>;

/**
 * Makes operations of the calls of a batch.
 *
 * @param own operations in place of those of the table: two give an id to a caller that names none
 */
export function batchCallMaker(
  own: Pick<typeof operations, "acquire" | "reserve"> & Partial<typeof operations>,
): BatchCallMaker {
  // A map: in an object, a name might find `constructor`.
  const table = new Map(Object.entries({ ...operations, ...own }) as [string, AnyOperation][]);
  return (call) => {
    const [name, ...parameters] = listOf(call);
    const operation = table.get(name);
    if (operation !== undefined) return operation(...parameters);
    throw new ThrottrError("operation_unknown", `there is no operation ${shown(name)}`);
  };
}

/** A call of a batch, which plain JavaScript may leave out. @throws ThrottrError `argument_invalid` */
export function listOf(call: BatchCall): BatchCall {
  if (Array.isArray(call)) return call;
  throw invalid("call", "a list of a name and arguments", call, "argument_invalid");
}

/**
 * Operations made of a list of arguments. All are made before any is sent, so a wrong argument leaves nothing applied.
 *
 * @param field names the list, for the message
 * @throws ThrottrError `argument_invalid`, `batch_too_large`, or that of an argument
 */
export function operationsOf<Item, Result>(
  field: string,
  items: readonly Item[],
  operation: (item: Item) => Operation<Result>,
  max = BATCH_MAX,
): Operation<Result>[] {
  if (!Array.isArray(items)) throw invalid(field, "a list", items, "argument_invalid");
  if (items.length > max) {
    const detail = `${field}: expected at most ${max} operations, got ${items.length}`;
    throw new ThrottrError("batch_too_large", detail);
  }
  // `map` would leave holes out, and so give results to the wrong calls.
  return Array.from(items, (item: Item) => operation(item));
}
