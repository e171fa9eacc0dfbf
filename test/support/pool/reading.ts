/** Reading replies field by field, and the fragments of long ones. */
import { expect } from "vitest";
import { uintAt, unhex } from "../frames/index.ts";
import type { Door } from "./doors.ts";

export const u64At = (bytes: Uint8Array, at: number): bigint => uintAt(bytes, at, 8);
export const u16At = (bytes: Uint8Array, at: number): number => Number(uintAt(bytes, at, 2));
export const u32At = (bytes: Uint8Array, at: number): number => Number(uintAt(bytes, at, 4));

/** The text of a field that is padded with NULs; fails when something follows a NUL. */
export function paddedText(bytes: Uint8Array, at: number, width: number): string {
  const text = String.fromCharCode(...bytes.subarray(at, at + width));
  expect(text).toMatch(/^[^\0]*\0*$/);
  return text.replaceAll("\0", "");
}

/** Bytes written as hex, with spaces between the fields. */
export const bytesOfHex = (fields: string): Uint8Array<ArrayBuffer> =>
  unhex(fields.replaceAll(" ", ""));

/** An integer as the little-endian bytes of a field, in hex. */
export function hexUint(value: bigint | number, width: number): string {
  let rest = BigInt(value);
  let out = "";
  for (let i = 0; i < width; i++, rest >>= 8n)
    out += Number(rest & 255n)
      .toString(16)
      .padStart(2, "0");
  return out;
}

/** A reply of so many bytes, and nothing after it. */
export async function replyOf(door: Door, fields: string, bytes: number): Promise<Uint8Array> {
  const reply = await door.exchange(bytesOfHex(fields), bytes);
  expect(reply.length).toBe(bytes);
  return reply;
}

/** One row of a fragment, with the name that belongs to it when rows have names. */
export interface Row {
  bytes: Uint8Array;
  name: string;
}

/**
 * The rows of a whole fragmented answer, behind its status. Fails unless indexes count from 1 and
 * nothing is left over.
 *
 * @param rowBytes length of a row
 * @param hasNames each row begins with the size of a name, and the names follow the rows
 */
export function rowsOf(reply: Uint8Array, rowBytes: number, hasNames: boolean): Row[] {
  const rows: Row[] = [];
  const fragments = u64At(reply, 0);
  let at = 8;
  for (let index = 1n; index <= fragments; index++) {
    expect(u64At(reply, at)).toBe(index);
    const count = Number(u64At(reply, at + 8));
    at += 16;
    let nameAt = at + count * rowBytes;
    for (let i = 0; i < count; i++, at += rowBytes) {
      const bytes = reply.subarray(at, at + rowBytes);
      const size = hasNames ? bytes[0]! : 0;
      rows.push({ bytes, name: String.fromCharCode(...reply.subarray(nameAt, nameAt + size)) });
      nameAt += size;
    }
    at = nameAt;
  }
  expect(at).toBe(reply.length);
  return rows;
}
