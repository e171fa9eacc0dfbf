/** Requests on records as operations of the edge dialect: their arguments, and what their results say of a record. */
import { make, type Operation } from "../../../../src/wire/edge/operation.ts";
import type { OperationCalls } from "../../../../src/wire/edge/operation-calls.ts";
import * as operations from "../../../../src/wire/edge/operations.ts";
import {
  leftOfMs,
  type RecordAnswer,
  type RecordOperation,
  type ShownRecord,
} from "../../../support/models/record.ts";

type RecordCallName = Extract<
  keyof OperationCalls,
  | "insert"
  | "query"
  | "increment"
  | "increase"
  | "decrease"
  | "patch"
  | "ttl"
  | "purge"
  | "set"
  | "get"
  | "compareAndSet"
>;

/** A request as a call by name. */
export interface RecordCommand {
  readonly name: RecordCallName;
  readonly given: readonly unknown[];
  readonly answerOf: (result: never) => RecordAnswer;
}

type Given<Name extends RecordCallName> = Parameters<(typeof operations)[Name]>;
type Result<Name extends RecordCallName> =
  ReturnType<(typeof operations)[Name]> extends Operation<infer Known> ? Known : never;

function command<Name extends RecordCallName>(
  name: Name,
  given: Given<Name>,
  answerOf: (result: Result<Name>) => RecordAnswer,
): RecordCommand {
  return { name, given, answerOf };
}

/** @param operation of the edge dialect, with times in ms */
export function commandOf(operation: RecordOperation): RecordCommand {
  const key = bytesOf(operation.key);
  const once = operation.once === undefined ? {} : { idempotencyKey: operation.once };
  switch (operation.name) {
    case "insert":
      return command(
        "insert",
        [key, { quota: operation.quota, ttlMs: Number(operation.ttl.count), ...once }],
        (success) => ({ success }),
      );
    case "increment":
      return command(
        "increment",
        [key, { by: operation.by, ttlMs: Number(operation.ttl.count), ...once }],
        (quota) => ({ success: true, record: { quota } }),
      );
    case "change": {
      const { change, amount } = operation;
      return command(change, [key, amount, once], (result) =>
        result === null
          ? { success: false, record: null }
          : { success: result.applied, record: counterOf(result) },
      );
    }
    case "expire":
      return command(
        "ttl",
        [key, { change: operation.change, ttlMs: Number(operation.amount), ...once }],
        // The end may have come with the change, so that there is no record although it was applied.
        (left) => (left === null ? { record: null } : { success: true, record: remainingOf(left) }),
      );
    case "purge":
      return command("purge", [key, once], (success) => ({ success }));
    case "query":
      return command("query", [key], (counter) => foundOf(counter && counterOf(counter)));
    case "get":
      return command("get", [key], (buffer) =>
        foundOf(buffer && { kind: "buffer", value: textOf(buffer.value), ...remainingOf(buffer) }),
      );
    case "set":
      return command(
        "set",
        [key, bytesOf(operation.value), { ttlMs: Number(operation.ttl.count), ...once }],
        () => ({ success: true }),
      );
    case "compareAndSet": {
      const { expected, value, ttl } = operation;
      const options = {
        expected: expected === null ? null : bytesOf(expected),
        value: value === null ? null : bytesOf(value),
        ttlMs: Number(ttl.count),
        ...once,
      };
      return command("compareAndSet", [key, options], ({ applied, current }) => {
        if (applied) return { success: true };
        const record = current && ({ kind: "buffer", value: textOf(current) } as const);
        return { success: false, record };
      });
    }
  }
}

const makers = { ...operations };

/** As a frame. */
export function commandFrame(operation: RecordOperation): Operation<RecordAnswer> {
  const { name, given, answerOf } = commandOf(operation);
  const maker = makers[name] as (...given: readonly unknown[]) => Operation<unknown>;
  const made = make(() => maker(...given));
  return { ...made, read: (reply) => answerOf(made.read(reply) as never) };
}

const counterOf = ({ quota, ttlMs }: operations.CounterRecord): ShownRecord => ({
  kind: "counter",
  quota,
  left: leftOfMs(ttlMs),
});

const remainingOf = ({ ttlMs }: operations.Remaining): ShownRecord => ({ left: leftOfMs(ttlMs) });

const foundOf = (record: ShownRecord | null): RecordAnswer => ({
  success: record !== null,
  record,
});

/** A text of one character a byte. */
export const bytesOf = (text: string): Uint8Array<ArrayBuffer> =>
  new Uint8Array(Buffer.from(text, "latin1"));

export const textOf = (bytes: Uint8Array): string => Buffer.from(bytes).toString("latin1");
