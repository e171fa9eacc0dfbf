/** Replies to commands beside what a model expects of them. */
import { expect } from "vitest";
import { hex, replyAt } from "../frames/index.ts";
import type { Expected } from "../models/body.ts";

/** Checks the reply at `at` and returns where the next one begins. */
export function expectReply(replies: Uint8Array, at: number, expected: Expected): number {
  if ("codes" in expected) {
    const reply = replyAt(replies, at)!;
    expect(expected.codes).toContain(reply.code);
    return at + reply.bytes.length;
  }
  const { bytes } = expected;
  const end = at + bytes.length;
  const reply = [...replies.subarray(at, end)].map((byte, i) => (bytes[i] === null ? null : byte));
  if (hexOrOpen(reply) !== hexOrOpen(bytes)) {
    const refusal = replyAt(replies, at);
    expect(`${refusal?.code ?? ""} ${hexOrOpen(reply)}`).toBe(` ${hexOrOpen(bytes)}`);
  }
  return end;
}

const hexOrOpen = (bytes: readonly (number | null)[]): string =>
  bytes.map((byte) => (byte === null ? ".." : hex([byte]))).join("");
