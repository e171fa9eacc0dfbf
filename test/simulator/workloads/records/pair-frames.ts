/** Requests on pairs as frames of dialect 2, and what their replies say. Written from the text of the protocol. */
import type { Operation } from "../../../../src/wire/edge/operation.ts";
import { concat, uintAt } from "../../../support/frames/bytes.ts";
import { pairFrame, type Pair, type PairRequest } from "../../../support/frames/pairs.ts";
import {
  leftOfTtl,
  type RecordAnswer,
  type RecordOperation,
} from "../../../support/models/record.ts";
import { bytesOf } from "./commands.ts";

const SEPARATOR = "/";
/** Of dialect 2, as those that units of 7.3 name: ns, ms, s. */
const UNITS = [1, 3, 4];
const ID_BYTES = 4;
const STATUS_BYTES = ID_BYTES + 1;
const QUERY_BYTES = STATUS_BYTES + 8 + 1 + 8;
const ATTRIBUTES = { quota: 0, ttl: 1 } as const;
const CHANGES = { patch: 0, increase: 1, decrease: 2 } as const;

/** Whether a key is that of a pair, consumer and resource. */
export const isPair = (key: string): boolean => key.includes(SEPARATOR);

function pairOf(key: string): Pair {
  const at = key.indexOf(SEPARATOR);
  return [key.slice(0, at), key.slice(at + 1)];
}

/** A pair as it is stored: its two sizes are before its names. */
export function pairBytes(key: string): Uint8Array {
  const [consumer, resource] = pairOf(key);
  const sizes = Uint8Array.of(consumer.length, resource.length);
  return concat([sizes, bytesOf(consumer), bytesOf(resource)]);
}

/**
 * @param operation one that dialect 2 has
 * @param id of the request, which its reply begins with
 */
export function pairFrameOf(operation: RecordOperation, id: number): Operation<RecordAnswer> {
  const frame = pairFrame(id, requestOf(operation));
  const isRead = operation.name === "query";
  return {
    type: frame[0]!,
    frame,
    isRead,
    isRepeatable: isRead,
    read: (reply) => answerOf(operation.name, id, reply),
    replyLength: (bytes, at, end) => {
      if (at + STATUS_BYTES > end) return 0;
      const length = isRead && bytes[at + ID_BYTES] === 1 ? QUERY_BYTES : STATUS_BYTES;
      return at + length > end ? 0 : length;
    },
  };
}

function requestOf(operation: RecordOperation): PairRequest {
  const pair = pairOf(operation.key);
  switch (operation.name) {
    case "insert": {
      const { quota, ttl } = operation;
      const ttlType = UNITS.indexOf(ttl.unit);
      return { type: "insert", pair, quota, ttlType, ttl: BigInt(ttl.count) };
    }
    case "change": {
      const [attribute, change] = [ATTRIBUTES.quota, CHANGES[operation.change]];
      return { type: "update", pair, attribute, change, value: operation.amount };
    }
    case "expire": {
      const [attribute, change] = [ATTRIBUTES.ttl, CHANGES[operation.change]];
      return { type: "update", pair, attribute, change, value: BigInt(operation.amount) };
    }
    case "query":
    case "purge":
      return { type: operation.name, pair };
    default:
      throw new Error(`dialect 2 has no ${operation.name}`);
  }
}

function answerOf(name: string, id: number, reply: Uint8Array): RecordAnswer {
  const answered = Number(uintAt(reply, 0, ID_BYTES));
  if (answered !== id) throw new Error(`request ${id} got the reply to ${answered}`);
  const success = reply[ID_BYTES] === 1;
  if (!success || name !== "query") return { success };
  const quota = uintAt(reply, STATUS_BYTES, 8);
  const unit = UNITS[reply[STATUS_BYTES + 8]!]!;
  const left = leftOfTtl(uintAt(reply, STATUS_BYTES + 9, 8), unit);
  return { success, record: { kind: "counter", quota, unit, left } };
}
