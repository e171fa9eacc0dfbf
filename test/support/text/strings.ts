/** Any text that has UTF-8. */
import fc from "fast-check";

/** `fc.string({ unit: "binary" })` first lists all code points, which takes seconds. */
const codePoint = fc.oneof(
  fc.nat(0xff),
  fc.integer({ min: 0, max: 0xd7ff }),
  fc.integer({ min: 0xe000, max: 0x10ffff }),
);

/** @param constraints in code points */
export const textArbitrary = (constraints: fc.ArrayConstraints = {}): fc.Arbitrary<string> =>
  fc.array(codePoint, constraints).map((points) => String.fromCodePoint(...points));
