/** Frames on limits, as the simulation overhears them: what a message asks, and what its replies say. */
import { Command, COMMAND_HEADER_BYTES, Flag } from "../../../src/wire/edge/command.ts";
import { readDecision } from "../../../src/wire/edge/decision.ts";
import { DRAW_FIELDS_BYTES, DRAW_RETURN_BYTES, readDrawn } from "../../../src/wire/edge/drawn.ts";
import { operationReplyLength } from "../../../src/wire/edge/operation.ts";
import { layoutsOf, STATUS_SUCCESS } from "../../../src/wire/throttr/requests.ts";
import { frameEnd } from "../../../src/wire/throttr/scanner.ts";
import { EDGE } from "../frames/index.ts";

const LAYOUTS = layoutsOf(EDGE);
const HEADER_OF_REPLY = 5;
const latin1 = new TextDecoder("latin1");

/** Units that a draw gives back, by the number of the draw that they came with. */
export interface HeardReturn {
  readonly draw: number;
  readonly units: number;
}

/** One frame of a message. */
export interface HeardFrame {
  readonly bytes: Uint8Array;
  readonly type: number;
  readonly key: string;
  /** Of a LIMIT, a REFUND or a DRAW; else 0. */
  readonly cost: number;
  /** Of a LIMIT that is charged once; else null. */
  readonly idempotencyKey: string | null;
  /** Of a DRAW. */
  readonly returns: readonly HeardReturn[];
  readonly leaseMs: number;
  /** Of a SET. */
  readonly value: string;
}

/** The reply to one frame. */
export interface HeardReply {
  readonly isSuccess: boolean;
  readonly isAllowed: boolean;
  /** Of a DRAW: units that were charged, and its number. */
  readonly units: number;
  readonly draw: number;
}

const SET_TTL_BYTES = 9;

export function hearMessage(message: Uint8Array): HeardFrame[] {
  const frames: HeardFrame[] = [];
  for (let at = 0; at < message.length;) {
    const end = frameEnd(LAYOUTS, message, at);
    frames.push(hearFrame(message, at, end));
    at = end;
  }
  return frames;
}

function hearFrame(message: Uint8Array, at: number, end: number): HeardFrame {
  const type = message[at]!;
  const keyAt = at + COMMAND_HEADER_BYTES;
  let bodyAt = keyAt + message[at + 2]!;
  const key = latin1.decode(message.subarray(keyAt, bodyAt));
  let idempotencyKey: string | null = null;
  if ((message[at + 1]! & Flag.isOnce) !== 0) {
    const keyEnd = bodyAt + 1 + message[bodyAt]!;
    idempotencyKey = latin1.decode(message.subarray(bodyAt + 1, keyEnd));
    bodyAt = keyEnd;
  }
  const view = new DataView(message.buffer, message.byteOffset);
  const isDraw = type === Command.draw;
  const hasCost = type === Command.limit || type === Command.refund;
  return {
    bytes: message.subarray(at, end),
    type,
    key,
    idempotencyKey,
    cost: isDraw ? view.getFloat64(bodyAt + 10, true) : hasCost ? view.getFloat64(bodyAt, true) : 0,
    leaseMs: isDraw ? view.getUint16(bodyAt, true) : 0,
    returns: isDraw ? hearReturns(view, bodyAt + DRAW_FIELDS_BYTES) : [],
    value: type === Command.set ? latin1.decode(message.subarray(bodyAt + SET_TTL_BYTES, end)) : "",
  };
}

/** Their number is the byte before them. */
function hearReturns(view: DataView, at: number): HeardReturn[] {
  return Array.from({ length: view.getUint8(at - 1) }, (_, i) => ({
    draw: view.getFloat64(at + i * DRAW_RETURN_BYTES, true),
    units: view.getFloat64(at + i * DRAW_RETURN_BYTES + 8, true),
  }));
}

export function hearReplies(frames: readonly HeardFrame[], replies: Uint8Array): HeardReply[] {
  let at = 0;
  return frames.map(({ type }) => {
    const end = at + operationReplyLength(type, replies, at, replies.length);
    const reply = hearReply(type, replies.subarray(at, end));
    at = end;
    return reply;
  });
}

function hearReply(type: number, reply: Uint8Array): HeardReply {
  const isSuccess = reply[0] === STATUS_SUCCESS;
  const nothing = { isSuccess, isAllowed: false, units: 0, draw: 0 };
  if (!isSuccess) return nothing;
  const view = new DataView(
    reply.buffer,
    reply.byteOffset + HEADER_OF_REPLY,
    reply.length - HEADER_OF_REPLY,
  );
  if (type === Command.limit) return { ...nothing, isAllowed: readDecision(view, 0).allowed };
  if (type !== Command.draw) return nothing;
  const { units, draw } = readDrawn(view);
  return { isSuccess, isAllowed: readDecision(view, 0).allowed, units, draw: draw ?? 0 };
}
