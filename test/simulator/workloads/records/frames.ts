/** Requests on records as frames of dialect 7.3, and what their replies say. Written from the text of the protocol. */
import type { Operation } from "../../../../src/wire/edge/operation.ts";
import { encodeRequest, type Request } from "../../../../src/wire/throttr/encode.ts";
import type { Protocol } from "../../../../src/wire/throttr/protocol.ts";
import { replyLength } from "../../../../src/wire/throttr/replies.ts";
import {
  leftOfTtl,
  type RecordAnswer,
  type RecordOperation,
} from "../../../support/models/record.ts";
import { uintAt } from "../../../support/frames/bytes.ts";
import { bytesOf, textOf } from "./commands.ts";

const READS: readonly string[] = ["query", "get"];
const ATTRIBUTES = { quota: 0, ttl: 1 } as const;
const CHANGES = { patch: 0, increase: 1, decrease: 2 } as const;

/**
 * @param operation one that dialect 7.3 has
 * @param protocol of the door: dialect 7.3, or that of commands
 */
export function frameOf(operation: RecordOperation, protocol: Protocol): Operation<RecordAnswer> {
  const frame = encodeRequest(protocol, requestOf(operation));
  const isRead = READS.includes(operation.name);
  const type = frame[0]!;
  return {
    type,
    frame,
    isRead,
    isRepeatable: isRead,
    read: (reply) => answerOf(operation.name, reply, protocol.valueSize),
    replyLength: (bytes, at, end) => replyLength(protocol, type, bytes, at, end),
  };
}

function requestOf(operation: RecordOperation): Request {
  const key = bytesOf(operation.key);
  switch (operation.name) {
    case "insert": {
      const { quota, ttl } = operation;
      return { type: "insert", key, quota, ttlType: ttl.unit, ttl: BigInt(ttl.count) };
    }
    case "set": {
      const { value, ttl } = operation;
      const bytes = bytesOf(value);
      return { type: "set", key, ttlType: ttl.unit, ttl: BigInt(ttl.count), value: bytes };
    }
    case "change": {
      const [attribute, change] = [ATTRIBUTES.quota, CHANGES[operation.change]];
      return { type: "update", key, attribute, change, value: operation.amount };
    }
    case "expire": {
      const [attribute, change] = [ATTRIBUTES.ttl, CHANGES[operation.change]];
      return { type: "update", key, attribute, change, value: BigInt(operation.amount) };
    }
    case "query":
    case "get":
    case "purge":
      return { type: operation.name, key };
    default:
      throw new Error(`dialect 7.3 has no ${operation.name}`);
  }
}

function answerOf(name: string, reply: Uint8Array, valueBytes: 1 | 2 | 4 | 8): RecordAnswer {
  const success = reply[0] === 1;
  if (!success || !READS.includes(name)) return { success };
  if (name === "query") {
    const unit = reply[1 + valueBytes]!;
    const left = leftOfTtl(uintAt(reply, 2 + valueBytes, valueBytes), unit, valueBytes);
    return {
      success,
      record: { kind: "counter", quota: uintAt(reply, 1, valueBytes), unit, left },
    };
  }
  const unit = reply[1]!;
  const left = leftOfTtl(uintAt(reply, 2, valueBytes), unit, valueBytes);
  const value = textOf(reply.subarray(2 + 2 * valueBytes));
  return { success, record: { kind: "buffer", value, unit, left } };
}
