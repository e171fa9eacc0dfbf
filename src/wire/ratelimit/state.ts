/**
 * Stored states: a header that names strategy and version, then fields, all between `|`.
 *
 * Only the current form is written; every form that a release of the library has written is read. The
 * oldest headers, `v1` and `v2`, don't name a strategy: the configuration of the limiter does.
 * Source: data format of the library, "Header Format" and "Internal Version History".
 */
import { shown } from "./error.ts";

/** A stored state is of another strategy, of no known version, or damaged. */
export class StateError extends Error {
  override readonly name = "StateError";
  readonly code = "state_invalid";
  /** The message without what was read, which not everybody may see who asks for a decision. */
  readonly publicMessage: string;

  /** @param expected the forms that would have been read */
  constructor(strategy: string, expected: string, text: string) {
    const publicMessage = `state_invalid: ${strategy}: expected ${expected}`;
    super(`${publicMessage}, got ${shown(text)}`);
    this.publicMessage = publicMessage;
  }
}

/** How the states of one strategy are written and read. */
export interface Codec<State> {
  /** The current form. */
  encode(state: State): string;
  /** @throws StateError for anything but a state of this strategy, in any of its versions */
  decode(text: string): State;
}

/** One version of a state. */
export interface Form<State> {
  /** Names of the fields, for messages. */
  readonly fields: string;
  /** The state, or null where the fields are not what they should be. */
  read(fields: readonly string[]): State | null;
}

/** Forms by header; the first one is the current one. */
export type Forms<State> = ReadonlyMap<string, Form<State>>;

/** More than any state has: eight windows with the longest names, in a composite, stay below 1000. */
const STATE_CHARACTERS_MAX = 1024;

/** @throws StateError for a text that is not even looked at */
export function checkSize(strategy: string, text: string): void {
  if (text.length <= STATE_CHARACTERS_MAX) return;
  throw new StateError(strategy, `at most ${STATE_CHARACTERS_MAX} characters`, text);
}

/** @throws StateError */
export function readState<State>(strategy: string, forms: Forms<State>, text: string): State {
  checkSize(strategy, text);
  const [header = "", ...fields] = text.split("|");
  const form = forms.get(header);
  const state = form?.read(fields) ?? null;
  if (state !== null) return state;
  const expected =
    form === undefined ? `one of ${[...forms.keys()].join(", ")}` : `${header}|${form.fields}`;
  throw new StateError(strategy, expected, text);
}

/** The form of a writer that ended it with a `|`: that begins no field, and may be missing. */
export function endedForm<State>(form: Form<State>): Form<State> {
  return {
    fields: `${form.fields}|`,
    read: (fields) => form.read(fields.at(-1) === "" ? fields.slice(0, -1) : fields),
  };
}

/**
 * The form of a writer that put the configuration behind the state. The limiter has its own now.
 *
 * @param names of the fields behind
 * @param read gives null where such a field is no number
 */
export function configuredForm<State>(
  form: Form<State>,
  names: readonly string[],
  read: (field: string) => unknown,
): Form<State> {
  return {
    fields: [form.fields, ...names].join("|"),
    read: (fields) => {
      const size = Math.max(0, fields.length - names.length);
      const isConfigured = fields.slice(size).every((field) => read(field) !== null);
      return isConfigured ? form.read(fields.slice(0, size)) : null;
    },
  };
}
