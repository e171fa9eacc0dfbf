/** Operations on buffers. */
import { invalid, objectOf, ttlOf, valueOf, type Text } from "./argument.ts";
import { Command, CompareOption } from "./command.ts";
import { onKey, reading, writeTtl, type Once } from "./on-key.ts";
import type { CommandReply, Operation } from "./operation.ts";
import { isApplied } from "./outcome.ts";
import { bufferOf, type BufferRecord } from "./records.ts";

export interface SetOptions extends Once {
  readonly ttlMs: number;
}

export interface CompareAndSetOptions extends Once {
  /** Value that the buffer must hold; null: no record may exist. */
  readonly expected: Text | null;
  /** Its new value; null: the record is removed. */
  readonly value: Text | null;
  /** TTL of the new value; needed unless `value` is null. */
  readonly ttlMs?: number | undefined;
}

export interface CompareAndSetResult {
  readonly applied: boolean;
  /** The value of the buffer, where nothing was applied; null for no record. */
  readonly current: Uint8Array | null;
}

export function set(key: Text, value: Text, options: SetOptions): Operation<void> {
  const bytes = valueOf(value);
  const ttlMs = ttlOf(objectOf(options, "options", "ttlMs").ttlMs);
  const read = (): void => {};
  return onKey(Command.set, key, options, read, (out) => {
    writeTtl(out, ttlMs);
    out.copy(bytes);
  });
}

export function get(key: Text): Operation<BufferRecord | null> {
  return reading(Command.read, key, (reply) => bufferOf(reply));
}

/** A value, or null, which has a meaning of its own: plain JavaScript may leave either out. */
function valueOrNull(value: Text | null | undefined, field: string): Uint8Array | null {
  if (value === undefined) throw invalid(field, "text or a Uint8Array, or null", value);
  return value === null ? null : valueOf(value, field);
}

export function compareAndSet(
  key: Text,
  options: CompareAndSetOptions,
): Operation<CompareAndSetResult> {
  objectOf(options, "options", "expected and value");
  const expected = valueOrNull(options.expected, "expected");
  const value = valueOrNull(options.value, "value");
  const ttlMs = value === null ? 0 : ttlOf(options.ttlMs!);
  const isExpected = expected === null ? 0 : CompareOption.isExpected;
  const isRemoval = value === null ? CompareOption.isRemoval : 0;
  const read = (reply: CommandReply): CompareAndSetResult => {
    const applied = isApplied(reply);
    return { applied, current: applied ? null : (bufferOf(reply)?.value ?? null) };
  };
  return onKey(Command.compareAndSet, key, options, read, (out) => {
    out.u8(isExpected | isRemoval);
    writeTtl(out, ttlMs);
    out.u32(expected?.length ?? 0);
    if (expected !== null) out.copy(expected);
    if (value !== null) out.copy(value);
  });
}
