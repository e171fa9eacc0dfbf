/** Batches with and without a range, and the answer of a shard that owns another one. */
import { expect, it } from "vitest";
import {
  batchHeaderBytes,
  readPlacement,
  writeBatchHeader,
  type Placement,
} from "../../src/wire/batch.ts";
import { ByteWriter } from "../../src/wire/bytes.ts";
import { readMoved, writeMoved } from "../../src/wire/moved.ts";
import { hex } from "../support/frames/index.ts";

const viewOf = (bytes: Uint8Array): DataView =>
  new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);

function headerOf(placement: Placement): Uint8Array {
  const out = new ByteWriter();
  writeBatchHeader(out, placement);
  expect(out.length).toBe(batchHeaderBytes(placement));
  return out.take();
}

it("a batch without a range has the bytes that releases before 0.5.0 write", () => {
  const placement = { shards: 4, fingerprint: 0x12345678 };
  const header = headerOf(placement);
  expect(hex(header)).toBe("0100040078563412");
  expect(readPlacement(viewOf(header))).toEqual(placement);
});

it("a batch with a range says which one its sender takes the shard to own", () => {
  const placement = { shards: 1, fingerprint: 2, range: { from: 0x80000000, to: 0 } };
  const header = headerOf(placement);
  expect(hex(header)).toBe("02000100020000000000008000000000");
  expect(readPlacement(viewOf(header))).toEqual(placement);
});

it("a batch of another version, or cut short, is refused", () => {
  const whole = headerOf({ shards: 1, fingerprint: 2, range: { from: 0, to: 0 } });
  for (const bytes of [[], [0], [3, ...whole.subarray(1)], whole.subarray(0, 15), [1, 0, 1, 0]]) {
    expect(() => readPlacement(viewOf(Uint8Array.from(bytes)))).toThrow(/^batch_version: /);
  }
});

it("a shard that owns another range says which, and what other ranges it knows of", () => {
  const ranges = { shards: 3, range: { from: 5, to: 9 }, begins: [9, 0x80000000, 0xffffffff] };
  const answer = writeMoved(ranges);
  expect(readMoved(viewOf(answer))).toEqual(ranges);
  expect(readMoved(viewOf(Uint8Array.of(2)))).toBeNull();
});
