/** Bytes as text, and back. */
import * as fc from "fast-check";
import { expect, it } from "vitest";
import { bytesOfHex, hexOf } from "../../src/wire/bytes.ts";

it("hex digits of either case give the bytes that they were written from", () => {
  const property = fc.property(fc.uint8Array(), (bytes) => {
    expect(bytesOfHex(hexOf(bytes))).toEqual(bytes);
    expect(bytesOfHex(hexOf(bytes).toUpperCase())).toEqual(bytes);
  });
  fc.assert(property);
});
