/** Arbitrary requests of the yrmcds protocol, good and bad, as the bytes of their frames. */
import fc from "fast-check";
import { bytesOf, concat } from "../frames/bytes.ts";
import { namedBody, rawFrame } from "../frames/yrmcds.ts";

const SHORT_NAMES = ["a", "ab", "b", "\0\u00ff|\n", "a\0"].map(bytesOf);
/** They differ in their last byte. */
const LONGEST_NAMES = [1, 2].map((last) => new Uint8Array(65_535).fill(last, 65_534));
const LONG_NAMES = [...LONGEST_NAMES, new Uint8Array(65_519)];

/** Names of semaphores: few, so that requests meet. */
export const nameArbitrary: fc.Arbitrary<Uint8Array> = fc.oneof(
  { weight: 40, arbitrary: fc.constantFrom(...SHORT_NAMES) },
  { weight: 1, arbitrary: fc.constantFrom(...LONG_NAMES) },
);

/** Resources, or a maximum. */
export const amountArbitrary: fc.Arbitrary<number> = fc.oneof(
  { weight: 6, arbitrary: fc.nat(6) },
  { weight: 1, arbitrary: fc.constantFrom(100, 0x7fffffff, 0x80000000, 0xfffffffe, 0xffffffff) },
);

const opaque = fc.nat(0xffffffff);
const trailing = fc.oneof(
  { weight: 9, arbitrary: fc.constant(new Uint8Array(0)) },
  { weight: 1, arbitrary: fc.uint8Array({ maxLength: 9 }) },
);

/** A frame of the opcode with its fixed numbers, a name, and bytes behind it. */
const named = (opcode: number, numbers: number): fc.Arbitrary<Uint8Array> =>
  fc
    .tuple(
      opaque,
      fc.tuple(amountArbitrary, amountArbitrary),
      nameArbitrary,
      trailing,
      fc.nat(255),
      fc.nat(255),
    )
    .map(([opaque, amounts, name, trailing, flags, reserved]) => {
      const body = concat([namedBody(amounts.slice(0, numbers), name), trailing]);
      return rawFrame({ magic: 0x90, opcode, flags, reserved, opaque, body });
    });

/** Anything that has the length of a frame: mostly malformed. */
export const anyFrameArbitrary: fc.Arbitrary<Uint8Array> = fc
  .record({
    magic: fc.oneof(
      { weight: 5, arbitrary: fc.constant(0x90) },
      { weight: 1, arbitrary: fc.nat(255) },
    ),
    opcode: fc.oneof(fc.constantFrom(0, 1, 2, 3), fc.nat(255)),
    flags: fc.nat(255),
    reserved: fc.nat(255),
    opaque,
    body: fc.uint8Array({ maxLength: 16 }),
  })
  .map(rawFrame);

/** A frame that a shard answers. */
export const frameArbitrary: fc.Arbitrary<Uint8Array> = fc.oneof(
  { weight: 6, arbitrary: named(0x02, 2) },
  { weight: 5, arbitrary: named(0x03, 1) },
  { weight: 3, arbitrary: named(0x01, 0) },
  {
    weight: 1,
    arbitrary: anyFrameArbitrary.filter(
      ([magic, opcode]) => magic !== 0x90 || (opcode !== 0x10 && opcode !== 0x11),
    ),
  },
);
