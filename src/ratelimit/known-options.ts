/** Refuses options with unknown names: they are most likely misspelled, and would be ignored without a word. */
import { isObject, unknownField } from "../wire/edge/argument.ts";
import { configurationInvalid } from "../wire/ratelimit/error.ts";

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
    throw configurationInvalid(field, `expected an object with ${names}`, options);
  }
  const name = unknownField(options, known);
  if (name === null) return options;
  throw configurationInvalid(path + name, `unknown option: expected one of ${names}`, name);
}
