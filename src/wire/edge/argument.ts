/** Arguments of calls, checked and brought to the form that commands have. */
import { isClock, type Clock } from "../clock.ts";
import { shown } from "../ratelimit/error.ts";
import { ThrottrError } from "./error.ts";
import { IDEMPOTENCY_KEY_BYTES_MAX, KEY_BYTES_MAX, LEASE_TTL_MS_MAX } from "./command.ts";

/**
 * An argument that is an object. Plain JavaScript may leave it out.
 *
 * @param expected names its fields, for the message
 * @throws ThrottrError `argument_invalid`
 */
export function objectOf<Value>(value: Value, field: string, expected: string): Value {
  if (isObject(value)) return value;
  throw invalid(field, `an object with ${expected}`, value, "argument_invalid");
}

/** The error of an argument that is not what its call expects. */
export function invalid(
  field: string,
  expected: string,
  got: unknown,
  code = `${field}_invalid`,
): ThrottrError {
  return new ThrottrError(code, `${field}: expected ${expected}, got ${shown(got)}`);
}

/** Names of all fields of a type: the compiler keeps such a table complete. */
export type FieldNames<Fields> = { readonly [Name in keyof Required<Fields>]: true };

/** The first field of an object that a table of names lacks; null where it has all. */
export function unknownField(value: object, known: object): string | null {
  for (const name in value) if (!Object.hasOwn(known, name)) return name;
  return null;
}

/**
 * Refuses options of a call that it does not know. The code that reads the options checks their values.
 *
 * @param known a table of all names
 * @param what the options belong to, for the message
 * @throws ThrottrError `argument_invalid` for what is not an object, `option_invalid`
 */
export function checkOptions(options: unknown, known: object, what: string): void {
  if (options === undefined) return;
  if (!isObject(options)) throw invalid(what, "an object", options, "argument_invalid");
  const name = unknownField(options, known);
  if (name === null) return;
  const names = Object.keys(known).join(", ");
  const others = names === "" ? "it has none" : `its options are ${names}`;
  const detail = `${name}: ${what} has no such option; ${others}`;
  throw new ThrottrError("option_invalid", detail);
}

/** A clock that an option gives. @throws ThrottrError `option_invalid` */
export function clockOption(clock: Clock): Clock {
  if (isClock(clock)) return clock;
  throw invalid("clock", "an object with nowMs, setTimer and clearTimer", clock, "option_invalid");
}

/** A signal that an option gives; null where there is none. @throws ThrottrError `option_invalid` */
export function signalOption<Signal extends { addEventListener: unknown }>(
  signal: Signal | null | undefined,
): Signal | null {
  if (signal == null || typeof signal.addEventListener === "function") return signal ?? null;
  throw invalid("signal", "an AbortSignal", signal, "option_invalid");
}

export function isObject(value: unknown): value is object {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** A key, a channel or a value: bytes, or text that stands for its UTF-8 bytes. */
export type Text = string | Uint8Array;

/** No frame is larger, whatever the server's `FRAME_BYTES_MAX` is. */
const VALUE_BYTES_MAX = 1_800_000;
/** Longer text is left to the encoder. */
const ASCII_LENGTH_MAX = 64;
const U64_MAX = (1n << 64n) - 1n;

const encoder = new TextEncoder();

/**
 * The bytes of a text.
 *
 * @throws ThrottrError `key_invalid`, … for a value that is not text, and for half of a surrogate pair: UTF-8 can
 * not hold it, and texts that differ must not become the same bytes
 */
export function bytesOf(text: Text, field: string, code = `${field}_invalid`): Uint8Array {
  if (typeof text === "string") {
    const ascii = asciiOf(text);
    if (ascii !== null) return ascii;
    if (text.isWellFormed()) return encoder.encode(text);
    const detail = `${field}: expected well-formed text, got half a surrogate pair`;
    throw new ThrottrError(code, detail);
  }
  if (text instanceof Uint8Array) return text;
  throw invalid(field, "text or a Uint8Array", text, code);
}

/** The bytes of a short text of ASCII, faster than an encoder has them; null for another. */
function asciiOf(text: string): Uint8Array | null {
  if (text.length > ASCII_LENGTH_MAX) return null;
  const bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) {
    const code = text.charCodeAt(i);
    if (code > 0x7f) return null;
    bytes[i] = code;
  }
  return bytes;
}

/** @throws ThrottrError `key_invalid`, `channel_invalid`, … beyond 255 bytes */
export function nameOf(
  text: Text,
  field: "key" | "name" | "channel" | "prefix" | "cursor",
  bytesMax = KEY_BYTES_MAX,
  code = `${field}_invalid`,
): Uint8Array {
  const bytes = bytesOf(text, field, code);
  if (bytes.length <= bytesMax) return bytes;
  throw invalid(field, `at most ${bytesMax} bytes`, bytes.length, code);
}

/** The cursor of a page; null for the first one. @throws ThrottrError `after_invalid` */
export const cursorOf = (cursor: Text | undefined, bytesMax?: number): Uint8Array | null =>
  cursor === undefined ? null : nameOf(cursor, "cursor", bytesMax, "after_invalid");

/** The name of a semaphore. @throws ThrottrError `name_invalid` */
export function semaphoreNameOf(text: Text): Uint8Array {
  const bytes = bytesOf(text, "name");
  if (bytes.length >= 1 && bytes.length <= KEY_BYTES_MAX) return bytes;
  throw invalid("name", `1 to ${KEY_BYTES_MAX} bytes`, bytes.length);
}

/** @throws ThrottrError `value_invalid` beyond what a frame may have */
export function valueOf(text: Text, field = "value"): Uint8Array {
  const bytes = bytesOf(text, field);
  if (bytes.length <= VALUE_BYTES_MAX) return bytes;
  throw invalid(field, `at most ${VALUE_BYTES_MAX} bytes`, bytes.length);
}

/** @throws ThrottrError `quota_invalid`, `amount_invalid`, … for anything but 0 to 2^64 - 1 */
export function u64Of(value: bigint | number, field: string, code = `${field}_invalid`): bigint {
  const isWhole = typeof value === "bigint" || Number.isSafeInteger(value);
  const whole = isWhole ? BigInt(value) : -1n;
  if (whole >= 0n && whole <= U64_MAX) return whole;
  throw invalid(field, "a bigint or safe integer from 0 to 2^64 - 1", value, code);
}

/**
 * @param min 1 for a record that is created: with 0 it would expire at once, and the call store nothing
 * @throws ThrottrError `ttl_invalid`
 */
export function ttlOf(ttlMs: number, min: 0 | 1 = 1): number {
  return millisecondsOf(ttlMs, min, Number.MAX_SAFE_INTEGER);
}

/** @throws ThrottrError with the code, for anything but an integer from `min` to `max` */
export function integerOf(
  value: number,
  field: string,
  min: number,
  max: number,
  code = `${field}_invalid`,
): number {
  if (Number.isInteger(value) && value >= min && value <= max) return value;
  throw invalid(field, `an integer from ${min} to ${max}`, value, code);
}

/** @throws ThrottrError with the code, for anything but a list of `min` to `max` things */
export function checkList(
  value: unknown,
  field: string,
  min: number,
  max: number,
  code: string,
): void {
  if (!Array.isArray(value)) throw invalid(field, "a list", value, code);
  integerOf(value.length, `${field}.length`, min, max, code);
}

/** The TTL of a lease. @throws ThrottrError `ttl_invalid` */
export function leaseTtlOf(ttlMs: number): number {
  return millisecondsOf(ttlMs, 1, LEASE_TTL_MS_MAX);
}

function millisecondsOf(ttlMs: number, min: number, max: number): number {
  if (Number.isInteger(ttlMs) && ttlMs >= min && ttlMs <= max) return ttlMs;
  throw invalid("ttlMs", `milliseconds, an integer from ${min} to ${max}`, ttlMs, "ttl_invalid");
}

/** @throws ThrottrError `idempotency_key_invalid` */
export function idempotencyKeyOf(text: Text | undefined): Uint8Array | null {
  if (text === undefined) return null;
  const [field, code] = ["idempotencyKey", "idempotency_key_invalid"];
  const bytes = bytesOf(text, field, code);
  if (bytes.length >= 1 && bytes.length <= IDEMPOTENCY_KEY_BYTES_MAX) return bytes;
  throw invalid(field, `1 to ${IDEMPOTENCY_KEY_BYTES_MAX} bytes`, bytes.length, code);
}
