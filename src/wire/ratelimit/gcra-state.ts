/**
 * States of GCRA: `42|theoretical arrival time`, int64 ns since the epoch.
 *
 * Version 1 had emission interval and limit behind, both ns; the configuration has them now.
 */
import { readInt64 } from "./numbers.ts";
import { configuredForm, endedForm, readState, type Codec, type Form } from "./state.ts";

const current: Form<bigint> = {
  fields: "time",
  read: (fields) => (fields.length === 1 ? readInt64(fields[0]!) : null),
};
const first = configuredForm(current, ["emission interval", "limit"], readInt64);

const forms = new Map([
  ["42", current],
  ["41", first],
  ["v2", endedForm(current)],
  ["v1", first],
]);

export const gcraCodec: Codec<bigint> = {
  encode: (arrivalNs) => `42|${arrivalNs}`,
  decode: (text) => readState("gcra", forms, text),
};
