/** Refuses options with unknown names: they are most likely misspelled, and would be ignored without a word. */
import { isObject, unknownField } from "../wire/edge/argument.ts";
import { ThrottrError } from "../wire/edge/error.ts";
import { RateLimitError } from "../wire/ratelimit/error.ts";

/**
 * Checks the options of a constructor or builder.
 *
 * @param known a table of all names
 * @throws RateLimitError `configuration_invalid` for what is not an object, and for a name that is not known
 */
export function optionsOf<Options>(options: Options, known: object, path = ""): Options {
  const names = Object.keys(known).join(", ");
  if (!isObject(options)) {
    const field = path === "" ? "options" : path.slice(0, -1);
    throw new RateLimitError(
      "configuration_invalid",
      field,
      `expected an object with ${names}`,
      options,
    );
  }
  const name = unknownField(options, known);
  if (name === null) return options;
  throw new RateLimitError(
    "configuration_invalid",
    path + name,
    `expected one of ${names}`,
    (options as Record<string, unknown>)[name],
  );
}

/**
 * Checks the options of a call.
 *
 * @param known a table of all names
 * @throws ThrottrError `argument_invalid` for what is not an object, `option_invalid` for a name that is not
 * known
 */
export function checkCallOptions(options: unknown, known: object): void {
  if (!isObject(options)) {
    throw new ThrottrError("argument_invalid", "options: expected an object");
  }
  const name = unknownField(options, known);
  if (name === null) return;
  const names = Object.keys(known).join(", ");
  throw new ThrottrError("option_invalid", `${name}: unknown option; the options are ${names}`);
}
