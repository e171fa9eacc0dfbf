/** Values of a configuration, whether the file is JSON or TOML, and how an addition changes them. */
import { isDeepStrictEqual } from "node:util";

/** A value of a configuration. TOML has dates besides, which no addition touches. */
export type ConfigValue =
  | string
  | number
  | boolean
  | null
  | readonly ConfigValue[]
  | { readonly [name: string]: ConfigValue };

/** A configuration as it was read. */
export type ConfigObject = { readonly [name: string]: ConfigValue };

/**
 * Something that a configuration lacks: the items of a list are appended, the entries of an object are merged, and
 * anything else replaces the value. What is missing on the path is created.
 */
export interface Addition {
  readonly path: readonly string[];
  readonly value: ConfigValue;
}

export function isObject(value: ConfigValue | undefined): value is ConfigObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** A configuration with an addition; the given one stays as it is. */
export function withAddition(config: ConfigObject, { path, value }: Addition): ConfigObject {
  const [name, ...rest] = path;
  if (name === undefined) return { ...config, ...(value as ConfigObject) };
  const before = Object.hasOwn(config, name) ? config[name] : undefined;
  if (rest.length > 0) {
    const inner = withAddition(isObject(before) ? before : {}, { path: rest, value });
    return { ...config, [name]: inner };
  }
  return { ...config, [name]: joined(before, value) };
}

/** A value with another one added to it. */
function joined(before: ConfigValue | undefined, value: ConfigValue): ConfigValue {
  if (Array.isArray(before) && Array.isArray(value)) {
    return [...(before as readonly ConfigValue[]), ...(value as readonly ConfigValue[])];
  }
  return isObject(before) && isObject(value) ? { ...before, ...value } : value;
}

/** Whether two configurations say the same. Parsers make objects of different prototypes, which clones lose. */
export function isSameConfig(one: ConfigObject, other: ConfigObject): boolean {
  return isDeepStrictEqual(structuredClone(one), structuredClone(other));
}
