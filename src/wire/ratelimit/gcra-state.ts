/**
 * States of GCRA: `42|theoretical arrival time`, int64 ns since the epoch.
 *
 * Version 1 had emission interval and limit behind, both ns; the configuration has them now.
 */
import { readInt64 } from "./numbers.ts";
import { readState, withoutEnd, type Codec, type Form, type Forms } from "./state.ts";

const current: Form<bigint> = {
  fields: "time",
  read: (fields) => (fields.length === 1 ? readInt64(fields[0]!) : null),
};
const second: Form<bigint> = {
  fields: "time|",
  read: (fields) => current.read(withoutEnd(fields)),
};
const first: Form<bigint> = {
  fields: "time|emission interval|limit",
  read: (fields) =>
    fields.length === 3 && fields.every((field) => readInt64(field) !== null)
      ? readInt64(fields[0]!)
      : null,
};

const forms: Forms<bigint> = new Map([
  ["42", current],
  ["41", first],
  ["v2", second],
  ["v1", first],
]);

export const gcraCodec: Codec<bigint> = {
  encode: (arrivalNs) => `42|${arrivalNs}`,
  decode: (text) => readState("gcra", forms, text),
};
