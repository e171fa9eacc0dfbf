/**
 * Commands on one key, as operations: what counters, buffers, limits and listings have in common.
 */
import { ByteWriter } from "../bytes.ts";
import { idempotencyKeyOf, nameOf, type Text } from "./argument.ts";
import { commandOf, type CommandReply, type Operation } from "./operation.ts";

/** A call that may be sent again without being applied twice. */
export interface Once {
  /**
   * 1 to 64 bytes. Another call with the same key for the same record, within `IDEMPOTENCY_TTL_MS`, is
   * not applied: it gets the answer of the first one.
   */
  readonly idempotencyKey?: Text | undefined;
}

/** Frames are written here, one after the other: making one awaits nothing, so no two are written at once. */
const scratch = new ByteWriter(1024);
const MILLISECONDS = 3;

export function onKey<Result>(
  type: number,
  key: Text,
  { idempotencyKey }: Once,
  read: (reply: CommandReply) => Result,
  body: (out: ByteWriter) => void,
): Operation<Result> {
  const parts = {
    type,
    key: nameOf(key, "key"),
    idempotencyKey: idempotencyKeyOf(idempotencyKey),
    body,
  };
  return commandOf(scratch, parts, read);
}

export function reading<Result>(
  type: number,
  key: Text,
  read: (reply: CommandReply) => Result,
  body: (out: ByteWriter) => void = () => {},
): Operation<Result> {
  return commandOf(scratch, { type, key: nameOf(key, "key"), isRead: true, body }, read);
}

export function writeU64(out: ByteWriter, value: bigint): void {
  const at = out.reserve(8);
  out.view.setBigUint64(at, value, true);
}

export function writeTtl(out: ByteWriter, ttlMs: number): void {
  out.u8(MILLISECONDS);
  out.u64(ttlMs);
}
