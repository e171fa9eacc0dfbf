/**
 * Stored states: a header that names strategy and version, then fields, all between `|`.
 *
 * Only the current form is written; every form that a release of the library has written is read. The
 * oldest headers, `v1` and `v2`, don't name a strategy: the configuration of the limiter does.
 * Source: data format of the library, "Header Format" and "Internal Version History".
 */
import { shown } from "./error.ts";

/** Whose state follows a header. `v1` and `v2` are not here: they don't say it. */
const STRATEGY_BY_HEADER: ReadonlyMap<string, string> = new Map([
  ["11", "token_bucket"],
  ["12", "token_bucket"],
  ["21", "fixed_window"],
  ["22", "fixed_window"],
  ["23", "fixed_window"],
  ["31", "leaky_bucket"],
  ["32", "leaky_bucket"],
  ["41", "gcra"],
  ["42", "gcra"],
  ["51", "composite"],
  ["cmp1", "composite"],
  ["61", "sliding_window"],
]);
const HEADER = /^([a-z0-9]{2,4})\|/;

/** A stored state is of another strategy, of no known version, or damaged. */
export class StateError extends Error {
  override readonly name = "StateError";
  readonly code = "state_invalid";
  readonly #strategy: string;
  readonly #expected: string;
  /** The strategy whose state the text looks like; null where it looks like none. */
  readonly #found: string | null;

  /** @param expected the forms that would have been read */
  constructor(strategy: string, expected: string, text: string) {
    super(`state_invalid: ${strategy}: expected ${expected}, got ${shown(text)}`);
    this.#strategy = strategy;
    this.#expected = expected;
    this.#found = STRATEGY_BY_HEADER.get(HEADER.exec(text)?.[1] ?? "") ?? null;
  }

  /**
   * The message for who asks for a decision: what is there and what to do, without what was read, which
   * not everybody may see who asks.
   *
   * @param key that the state is stored under
   */
  publicMessage(key: string): string {
    const buffer = `state_invalid: the buffer under ${shown(key)}`;
    if (this.#found === null || this.#found === this.#strategy) {
      return `${buffer} does not hold a state of ${this.#strategy} (expected ${this.#expected}): reset the limit, which deletes the buffer, or use another key`;
    }
    return `${buffer} holds the state of another strategy (it looks like ${this.#found}, not ${this.#strategy}): reset the limit, or use another key`;
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
