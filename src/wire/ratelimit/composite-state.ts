/**
 * States of composites: `51|primary$secondary`, with parts of any version.
 *
 * Older releases of the library wrote `cmp1|primary$secondary`; both are read.
 */
import { checkSize, StateError, type Codec } from "./state.ts";

export interface CompositeState<Primary, Secondary> {
  readonly primary: Primary;
  readonly secondary: Secondary;
}

const COMPOSITE = /^(?:51|cmp1)\|([^$]*)\$([^$]*)$/;

export function compositeCodec<Primary, Secondary>(
  primaryCodec: Codec<Primary>,
  secondaryCodec: Codec<Secondary>,
): Codec<CompositeState<Primary, Secondary>> {
  return {
    encode: ({ primary, secondary }) =>
      `51|${primaryCodec.encode(primary)}$${secondaryCodec.encode(secondary)}`,
    decode: (text) => {
      checkSize("composite", text);
      const parts = COMPOSITE.exec(text);
      if (parts === null) {
        throw new StateError("composite", "51|primary$secondary or cmp1|primary$secondary", text);
      }
      return {
        primary: primaryCodec.decode(parts[1]!),
        secondary: secondaryCodec.decode(parts[2]!),
      };
    },
  };
}
