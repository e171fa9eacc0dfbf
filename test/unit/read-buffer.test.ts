/** The buffer that a TCP connection reads into: small while it is idle, large while it streams. */
import { expect, it } from "vitest";
import { firstBuffer, nextBuffer } from "../../src/worker/read-buffer.ts";

/** Sizes of the buffers that reads of so many bytes, or as many as fit, are made with. */
function sizesOf(reads: readonly number[]): number[] {
  let buffer = firstBuffer();
  return reads.map((bytes) => {
    const size = buffer.byteLength;
    buffer = nextBuffer(new Uint8Array(buffer, 0, Math.min(bytes, size)));
    return size;
  });
}

it("a read buffer stays small for a connection that sends little at a time", () => {
  expect(sizesOf([20, 300, 900, 20])).toEqual([1024, 1024, 1024, 1024]);
});

it("a read buffer is large by the third read of a stream, and stays so while reads fill an eighth of it", () => {
  const much = 1 << 20;
  const sizes = sizesOf([much, much, much, 8192, much, 30_000]);
  expect(sizes).toEqual([1024, 8192, 65_536, 65_536, 65_536, 65_536]);
});

it("a read buffer is small again after the end of a stream", () => {
  const much = 1 << 20;
  expect(sizesOf([much, much, much, 700, 20])).toEqual([1024, 8192, 65_536, 65_536, 1024]);
});
