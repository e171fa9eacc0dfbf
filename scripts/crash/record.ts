/** Requests and replies of dialect 7.3 in the words of the model of a record, which the simulator's checkers use, too. */
import type { Request } from "../../src/wire/throttr/encode.ts";
import type { Protocol } from "../../src/wire/throttr/protocol.ts";
import { Attribute, Change, STATUS_SUCCESS } from "../../src/wire/throttr/requests.ts";
import {
  execute,
  leftOfTtl,
  type ChangeOf,
  type ModelAnswer,
  type Outcome,
  type RecordAnswer,
  type RecordOperation,
  type RecordState,
  type ShownRecord,
} from "../../test/support/models/record.ts";
import type { MsSpan } from "../../test/support/models/span.ts";
import { elapsed } from "./time.ts";

const CHANGES: Readonly<Record<number, ChangeOf>> = {
  [Change.patch]: "patch",
  [Change.increase]: "increase",
  [Change.decrease]: "decrease",
};
const REFUSED: ModelAnswer = { success: false, record: null, code: null };

/**
 * What a request asks of the record under its key.
 *
 * @returns null for an UPDATE with an attribute or a change that the protocol does not have
 */
export function operationOf(
  request: Request,
  { valueSize: valueBytes }: Protocol,
): RecordOperation | null {
  const asked = { key: textOf(request.key), dialect: "throttr", valueBytes } as const;
  switch (request.type) {
    case "query":
    case "get":
    case "purge":
      return { ...asked, name: request.type };
    case "insert":
      return { ...asked, name: "insert", quota: request.quota, ttl: ttlOf(request) };
    case "set":
      return { ...asked, name: "set", value: textOf(request.value), ttl: ttlOf(request) };
    case "update": {
      const { attribute, value: amount } = request;
      const change = CHANGES[request.change];
      if (change === undefined) return null;
      if (attribute === Attribute.quota) return { ...asked, name: "change", change, amount };
      return attribute === Attribute.ttl ? { ...asked, name: "expire", change, amount } : null;
    }
  }
}

/** All that may come of a request; null for an operation that the protocol does not have: it is refused. */
export function outcomesOf(
  state: RecordState,
  operation: RecordOperation | null,
  at: MsSpan,
): readonly Outcome[] {
  if (operation === null) return [{ state, answer: REFUSED }];
  return execute(state, operation, at, elapsed);
}

/** What a whole reply says. */
export function answerOf(
  protocol: Protocol,
  type: Request["type"],
  reply: Uint8Array,
): RecordAnswer {
  const [status] = reply;
  if (status !== STATUS_SUCCESS) {
    // A status that the protocol does not have agrees with no answer of the model.
    return status === 0 ? { success: false } : { success: false, code: `status ${status}` };
  }
  if (type === "query") return { success: true, record: counterIn(reply, protocol) };
  if (type === "get") return { success: true, record: bufferIn(reply, protocol) };
  return { success: true };
}

function counterIn(reply: Uint8Array, { valueSize }: Protocol): ShownRecord {
  const quota = uintAt(reply, 1, valueSize);
  const unit = reply[1 + valueSize]!;
  const left = leftOfTtl(uintAt(reply, 2 + valueSize, valueSize), unit, valueSize);
  return { kind: "counter", quota, unit, left };
}

function bufferIn(reply: Uint8Array, { valueSize }: Protocol): ShownRecord {
  const unit = reply[1]!;
  const left = leftOfTtl(uintAt(reply, 2, valueSize), unit, valueSize);
  return { kind: "buffer", value: textOf(reply.subarray(2 + 2 * valueSize)), unit, left };
}

const ttlOf = ({ ttl, ttlType }: { ttl: bigint; ttlType: number }) => ({
  count: ttl,
  unit: ttlType,
});

/** One character a byte. */
const textOf = (bytes: Uint8Array): string => Buffer.from(bytes).toString("latin1");

function uintAt(bytes: Uint8Array, at: number, width: number): bigint {
  let value = 0n;
  for (let i = width - 1; i >= 0; i--) value = (value << 8n) | BigInt(bytes[at + i]!);
  return value;
}
