/** Commands of the edge dialect as bytes, written from the text of their format, and their replies. */
import { ByteWriter } from "../../../src/wire/bytes.ts";
import { Command, Flag } from "../../../src/wire/edge/command.ts";
import { writeConfiguration } from "../../../src/wire/ratelimit/binary.ts";
import type { RateLimitConfiguration } from "../../../src/wire/ratelimit/configuration.ts";
import { bytesOf, concat, f64, u16, u32, u64 } from "./bytes.ts";
import { HOURS, MILLISECONDS } from "./throttr.ts";

/** A TTL in a body. */
export interface Ttl {
  readonly unit: number;
  readonly count: bigint;
}

export const FOREVER: Ttl = { unit: HOURS, count: 1_000_000n };
export const ttlMs = (count: number): Ttl => ({ unit: MILLISECONDS, count: BigInt(count) });

export const ttlBytes = ({ unit, count }: Ttl): Uint8Array =>
  concat([Uint8Array.of(unit), u64(count)]);

export interface CommandOptions {
  /** Idempotency key, one character a byte. */
  readonly once?: string | undefined;
  /** Does not wait for the disk. */
  readonly relaxed?: boolean | undefined;
  /** In place of those that `once` and `relaxed` ask for. */
  readonly flags?: number | undefined;
}

/** A command. The key has one character a byte. */
export function commandFrame(
  type: number,
  key: string,
  body: Uint8Array = new Uint8Array(0),
  {
    once,
    relaxed = false,
    flags = (once === undefined ? 0 : Flag.isOnce) | (relaxed ? Flag.isRelaxed : 0),
  }: CommandOptions = {},
): Uint8Array<ArrayBuffer> {
  const whole =
    once === undefined ? body : concat([Uint8Array.of(once.length), bytesOf(once), body]);
  return concat([Uint8Array.of(type, flags, key.length), u32(whole.length), bytesOf(key), whole]);
}

export const read = (key: string, options?: CommandOptions) =>
  commandFrame(Command.read, key, undefined, options);
export const insert = (key: string, quota: bigint, ttl: Ttl, options?: CommandOptions) =>
  commandFrame(Command.insert, key, concat([u64(quota), ttlBytes(ttl)]), options);
export const increment = (key: string, amount: bigint, ttl: Ttl, options?: CommandOptions) =>
  commandFrame(Command.increment, key, concat([u64(amount), ttlBytes(ttl)]), options);
export const change = (key: string, kind: number, amount: bigint, options?: CommandOptions) =>
  commandFrame(Command.change, key, concat([Uint8Array.of(kind), u64(amount)]), options);
export const expire = (key: string, kind: number, ttl: Ttl, options?: CommandOptions) =>
  commandFrame(Command.expire, key, concat([Uint8Array.of(kind), ttlBytes(ttl)]), options);
export const purge = (key: string, options?: CommandOptions) =>
  commandFrame(Command.purge, key, undefined, options);
export const set = (key: string, value: Uint8Array, ttl: Ttl, options?: CommandOptions) =>
  commandFrame(Command.set, key, concat([ttlBytes(ttl), value]), options);

/** @param flags of `CompareOption` */
export const compareAndSet = (
  key: string,
  flags: number,
  expected: Uint8Array,
  value: Uint8Array,
  ttl: Ttl,
  options?: CommandOptions,
) =>
  commandFrame(
    Command.compareAndSet,
    key,
    concat([Uint8Array.of(flags), ttlBytes(ttl), u32(expected.length), expected, value]),
    options,
  );

export function configurationBytes(configuration: RateLimitConfiguration): Uint8Array {
  const out = new ByteWriter();
  writeConfiguration(out, configuration);
  return out.take();
}

export const limit = (
  key: string,
  configuration: Uint8Array,
  cost: number,
  options?: CommandOptions,
) => commandFrame(Command.limit, key, concat([f64(cost), configuration]), options);
export const refund = (
  key: string,
  configuration: Uint8Array,
  cost: number,
  options?: CommandOptions,
) => commandFrame(Command.refund, key, concat([f64(cost), configuration]), options);
/** The one reservation that these frames make. */
const RESERVATION = Uint8Array.from({ length: 16 }, (_, i) => i);
export const reserve = (
  key: string,
  configuration: Uint8Array,
  cost: number,
  options?: CommandOptions,
) =>
  commandFrame(
    Command.reserve,
    key,
    concat([RESERVATION, u32(60_000), f64(cost), configuration]),
    options,
  );
export const peek = (key: string, configuration: Uint8Array, options?: CommandOptions) =>
  commandFrame(Command.peek, key, configuration, options);

/** @param after one character a byte; null for the first page */
export const scan = (
  prefix: string,
  recordsMax: number,
  after: string | null = null,
  options?: CommandOptions,
) =>
  commandFrame(
    Command.scan,
    prefix,
    concat([u16(recordsMax), Uint8Array.of(after === null ? 0 : 1), bytesOf(after ?? "")]),
    options,
  );
export const remove = (prefix: string, flags: number, options?: CommandOptions) =>
  commandFrame(Command.remove, prefix, Uint8Array.of(flags), options);

/** One reply to a command. */
export interface CommandReply {
  /** Status, size and body. */
  readonly bytes: Uint8Array;
  readonly isError: boolean;
  readonly body: Uint8Array;
  /** Code of an error; "" for none. */
  readonly code: string;
}

/** The reply to a command that begins at `at`; null when the bytes end before it does. */
export function replyAt(bytes: Uint8Array, at: number): CommandReply | null {
  if (at + 5 > bytes.length) return null;
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const end = at + 5 + view.getUint32(at + 1, true);
  if (end > bytes.length) return null;
  const status = bytes[at]!;
  if (status !== 1 && status !== 2) throw new Error(`status ${status} at ${at}`);
  const body = bytes.slice(at + 5, end);
  const isError = status === 2;
  const code = isError ? codeOf(new TextDecoder().decode(body)) : "";
  return { bytes: bytes.slice(at, end), isError, body, code };
}

/** Replies to commands, back to back. */
export function commandReplies(bytes: Uint8Array): CommandReply[] {
  const replies: CommandReply[] = [];
  for (let at = 0; at < bytes.length; at += replies.at(-1)!.bytes.length) {
    const reply = replyAt(bytes, at);
    if (reply === null) throw new Error("a reply is cut short");
    replies.push(reply);
  }
  return replies;
}

/** The stable code that the text of an error begins with. */
function codeOf(text: string): string {
  const code = /^([a-z][a-z0-9_]*): ./.exec(text)?.[1];
  if (code === undefined) throw new Error(`no code: ${text}`);
  return code;
}

/** A row of a page. */
export interface ScanRow {
  readonly key: string;
  readonly kind: number;
  readonly unit: number;
  readonly expiresNs: bigint;
  /** Quota, or bytes. */
  readonly value: bigint;
}

export interface ScanPage {
  readonly isLast: boolean;
  readonly rows: ScanRow[];
}

/** A page that says its cursor; null behind the last one. */
export function openScanPage(body: Uint8Array): {
  rows: ScanRow[];
  cursor: Uint8Array | null;
} {
  const rowsAt = 3 + (body[1]! | (body[2]! << 8));
  const { isLast, rows } = scanPage(body, rowsAt);
  return { rows, cursor: isLast ? null : body.slice(3, rowsAt) };
}

/** The page that the body of a reply to SCAN is. */
export function scanPage(body: Uint8Array, rowsAt = 1): ScanPage {
  const view = new DataView(body.buffer, body.byteOffset, body.byteLength);
  const rows: ScanRow[] = [];
  for (let at = rowsAt; at < body.length;) {
    const keyAt = at + 19;
    const end = keyAt + body[at]!;
    rows.push({
      key: String.fromCharCode(...body.subarray(keyAt, end)),
      kind: body[at + 1]!,
      unit: body[at + 2]!,
      expiresNs: view.getBigUint64(at + 3, true),
      value: view.getBigUint64(at + 11, true),
    });
    at = end;
  }
  return { isLast: body[0] === 1, rows };
}
