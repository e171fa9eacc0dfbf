/**
 * Settings: every variable of the deployment, with its range and default, in one place.
 *
 * `wrangler.toml` repeats the defaults with comments, docs/reference.md lists them; a test keeps the three alike.
 */
import { FRAME_BYTES_LIMIT } from "../wire/bridge.ts";
import { ThrottrError } from "../wire/edge/error.ts";
import { deployment, STAND_ALONE, type Deployment } from "./deployment.ts";
import { logWarning } from "./log.ts";

/** One variable: what it may be. `Given` is its type in code, where a number need not be a text. */
interface Setting<Value, Given = Value> {
  readonly fallback: Value;
  /** For messages. */
  readonly expected: string;
  /** An empty text is a value, and does not stand for the default. */
  readonly mayBeEmpty?: boolean;
  /** The value of a variable that is set, or of what code has given; undefined if it can't have it. */
  readonly parse: (value: unknown) => Value | undefined;
  /** For the type alone. */
  readonly given?: Given;
}

/** Variables of wrangler are texts, those of tests and settings in code may be numbers. */
function integer(fallback: number, min: number, max: number): Setting<number, number | string> {
  return {
    fallback,
    expected: `an integer from ${min} to ${max}`,
    parse: (value) => {
      // `Number` reads white space as 0.
      const isText = typeof value === "string";
      const number = isText && value.trim() !== "" ? Number(value) : value;
      return Number.isInteger(number) && (number as number) >= min && (number as number) <= max
        ? (number as number)
        : undefined;
    },
  };
}

/** A variable that is one of some words. */
function choice<const T extends readonly string[]>(
  fallback: T[number],
  words: T,
): Setting<T[number]> {
  return {
    fallback,
    expected: `one of ${words.map((word) => word || "(empty)").join(", ")}`,
    parse: (value) => words.find((word) => word === value),
  };
}

/** Any text. */
function text(fallback = ""): Setting<string> {
  const parse = (value: unknown): string | undefined =>
    typeof value === "string" ? value : undefined;
  return { fallback, expected: "a text", mayBeEmpty: true, parse };
}

/**
 * Where the platform may put new shards; empty leaves it to where the first request comes from. The platform ignores
 * a hint for an object that exists.
 */
const LOCATION_HINTS = [
  "",
  "wnam",
  "enam",
  "sam",
  "weur",
  "eeur",
  "apac",
  "apac-ne",
  "apac-se",
  "oc",
  "afr",
  "me",
];

const MEBIBYTE = 1 << 20;

/** The ports of the gateway and of `serve`, each with its protocol: see `wire/tcp-ports.ts`. */
const TCP_PORTS =
  "9000=7.3, 9001=7.3/uint8, 9002=7.3/uint16, 9004=7.3/uint32, 9008=7.3/uint64, 9020=2, " +
  "11215=yrmcds, 11216=yrmcds/today";

/** Each variable with its default and range; docs/reference.md says what it is for. */
const SETTINGS = {
  ACCESS: choice("token", ["token", "open"]),
  OPEN_NAMESPACES: choice("default", ["default", "any"]),
  /** Checked where it is used: a deployment with `ACCESS=open` needs none. */
  TOKEN_SECRET: text(),
  TOKEN_SECRET_PREVIOUS: text(),
  CORS_ORIGINS: text(),
  HOSTS: text(),
  /** Counts at the first write of a namespace alone. */
  SHARDS: integer(1, 1, 128),
  /** Part of the placement: data of another one is refused, not searched for. */
  SHARD_SECRET: text(),
  /** No shard splits where its parts might make more shards than these. */
  SHARDS_MAX: integer(1024, 1, 4096),
  /** A shard with more calls for half a minute splits; 0 for never, where one thread serves all shards anyway. */
  SPLIT_CALLS_PER_SECOND: integer(400, 0, 1_000_000),
  /** Table and records, in memory. An isolate has 128 MB, and needs room for code, batches and answers. */
  SHARD_BYTES_MAX: integer(24 * MEBIBYTE, MEBIBYTE, 112 * MEBIBYTE),
  ACCEPT_DATA_LOSS: choice("off", ["on", "off"]),
  /** `relaxed`: answers come before their row, which follows within 50 ms. */
  DURABILITY: choice("strict", ["strict", "relaxed"]),
  LOCATION_HINT: choice("", LOCATION_HINTS),
  JURISDICTION: choice("", ["", "eu", "us", "fedramp", "fedramp-high"]),
  /** The largest frame that a client may send; it has to be in memory as a whole. */
  FRAME_BYTES_MAX: integer(MEBIBYTE, 1024, FRAME_BYTES_LIMIT),
  /** Of one HTTP request; below 32 MiB, which a call to an object carries. */
  BODY_BYTES_MAX: integer(8 * MEBIBYTE, 1024, 24 * MEBIBYTE),
  /** Of all HTTP requests that an isolate serves at once. */
  BODIES_BYTES_MAX: integer(32 * MEBIBYTE, 24 * MEBIBYTE, 1024 * MEBIBYTE),
  /** Of one connection: a WebSocket can't be told to wait, so one that sends more is closed. */
  UNANSWERED_BYTES_MAX: integer(4 * MEBIBYTE, 3 * MEBIBYTE, 16 * MEBIBYTE),
  METRICS: choice("on", ["on", "off"]),
  /** Minutes of the last hour, and totals of what no shard counts: a call of each awake object a minute, and a row. */
  HISTORY: choice("on", ["on", "off"]),
  /** Of one process, under `serve`; 0 for no limit. */
  CONNECTIONS_MAX: integer(0, 0, 1_000_000),
  HUBS_MAX: integer(16, 1, 256),
  /** The runtime keeps up to 32,768 sockets for an object. */
  HUB_CONNECTIONS_MAX: integer(10_000, 1, 32_000),
  /** Of one Hub, beside those that every connection begins with. */
  HUB_SUBSCRIPTIONS_MAX: integer(100_000, 1, 1_000_000),
  /** What a subscriber may leave unread: it stays in the memory of its Hub. */
  PUSH_BYTES_MAX: integer(8 * MEBIBYTE, MEBIBYTE / 4, 64 * MEBIBYTE),
  IDEMPOTENCY_TTL_MS: integer(600_000, 1000, 86_400_000),
  /** Of one channel, kept for a day; each publication is a row then. */
  REPLAY_MESSAGES_MAX: integer(0, 0, 1000),
  /** For a peer that stops in the middle of a frame, or stops reading. */
  STALL_TIMEOUT_MS: integer(30_000, 1000, 120_000),
  YRMCDS_ENABLE: choice("off", ["on", "off"]),
  YRMCDS_CONNECTIONS_MAX: integer(0, 0, 32_000),
  YRMCDS_STATS_INTERVAL_MS: integer(86_400_000, 10_000, 31 * 86_400_000),
  /** Within it, what a lost connection held is released. */
  HOLDER_TIMEOUT_MS: integer(15_000, 3000, 600_000),
  TCP_PORTS: text(TCP_PORTS),
  TCP_DEFAULT_SIZE: choice("uint16", ["uint8", "uint16", "uint32", "uint64"]),
};

type Table = typeof SETTINGS;
type Name = keyof Table;

/** The variables as they are set, checked, with defaults filled in. */
export type Settings = {
  readonly [Key in Name]: Table[Key] extends Setting<infer Value, infer _> ? Value : never;
};

/**
 * Settings in code, by the names of the variables without a prefix.
 *
 * docs/reference.md describes each of them. A variable of the environment wins over its setting in code.
 */
export type GivenSettings = {
  readonly [Key in Name]?:
    (Table[Key] extends Setting<infer _, infer Given> ? Given : never) | undefined;
};

/** Names that variables had in release 0.4, and what they are called now. 0.5 reads both, 0.6 the new ones. */
export const RENAMED_VARIABLES: Readonly<Record<string, Name>> = {
  COUNTER_ENABLE: "YRMCDS_ENABLE",
  COUNTER_CONNECTIONS_MAX: "YRMCDS_CONNECTIONS_MAX",
  COUNTER_STATS_INTERVAL_MS: "YRMCDS_STATS_INTERVAL_MS",
};

/** Whether the server has a variable of this name, or had it by this name before. */
export const isVariable = (name: string): boolean =>
  Object.hasOwn(SETTINGS, name) || Object.hasOwn(RENAMED_VARIABLES, name);

/** A variable has a value that it can't have. */
export class SettingsError extends ThrottrError {
  /** @param detail names the variable and its range */
  constructor(detail: string) {
    super("config_invalid", detail);
  }
}

/**
 * By environment. An object's environment lives as long as the object, and tests make many: so it is not held here.
 */
const read = new WeakMap<object, { readonly of: Deployment; readonly settings: Settings }>();
/** Old names that this isolate has logged. */
const logged = new Set<string>();

/**
 * The settings of a Worker's or an object's environment. They are read once for each environment; variables with an
 * old name are logged then, once for each isolate.
 *
 * @throws SettingsError that names the variable and its range
 */
export function readSettings(env: object): Settings {
  const known = read.get(env);
  if (known !== undefined && known.of === deployment()) return known.settings;
  const settings = parseSettings(env, deployment());
  read.set(env, { of: deployment(), settings });
  for (const { variable, name } of oldNamesIn(env, deployment())) {
    if (logged.has(variable)) continue;
    logged.add(variable);
    logWarning("variable_renamed", { variable, name });
  }
  return settings;
}

/**
 * Checks variables and fills in the defaults; unlike `readSettings` it logs nothing.
 *
 * @throws SettingsError that names the variable and its range
 */
export function parseSettings(variables: object, of: Deployment = STAND_ALONE): Settings {
  const named = withNewNames(variables, of);
  const errors: string[] = [];
  const settings = Object.entries<Setting<unknown>>(SETTINGS).map(([name, setting]) => {
    const isSet = (value: unknown): boolean =>
      value !== undefined && (value !== "" || setting.mayBeEmpty === true);
    const variable = named[of.prefix + name];
    const given = isSet(variable) ? variable : of.settings[name];
    if (!isSet(given)) return [name, setting.fallback];
    const value = setting.parse(given);
    if (value === undefined) {
      const source = isSet(variable) ? of.prefix + name : `settings.${name}`;
      errors.push(`${source}: expected ${setting.expected}`);
    }
    return [name, value];
  });
  if (errors.length > 0) throw new SettingsError(errors.join("; "));
  return Object.fromEntries(settings) as Settings;
}

/**
 * Checks the names and values of settings in code, and fills in the defaults.
 *
 * @throws SettingsError
 */
export function assertSettings(given: GivenSettings): Settings {
  for (const name of Object.keys(given)) {
    if (Object.hasOwn(SETTINGS, name)) continue;
    throw new SettingsError(
      `settings.${name}: there is no such setting; docs/reference.md lists them`,
    );
  }
  return parseSettings({}, { ...STAND_ALONE, settings: given });
}

/**
 * The variables that are set by a name of an earlier release, with the name to set instead. No such release could be
 * embedded.
 */
export function oldNamesIn(
  variables: object,
  { prefix }: Deployment = STAND_ALONE,
): { variable: string; name: Name }[] {
  if (prefix !== "") return [];
  return Object.entries(RENAMED_VARIABLES).flatMap(([variable, name]) =>
    valueOf(variables, variable) === "" ? [] : [{ variable, name }],
  );
}

/**
 * The variables under their present names.
 *
 * @throws SettingsError when the old and the new name of a variable have different values
 */
function withNewNames(variables: object, of: Deployment): Readonly<Record<string, unknown>> {
  const renamed: Record<string, string> = {};
  for (const { variable, name } of oldNamesIn(variables, of)) {
    const value = valueOf(variables, variable);
    const newValue = valueOf(variables, name);
    if (newValue !== "" && newValue !== value) {
      throw new SettingsError(
        `${variable} is ${value}, but ${name} is ${newValue}: ${variable} is the old name of ${name}; set ${name} alone`,
      );
    }
    renamed[name] = value;
  }
  return { ...variables, ...renamed };
}

/** A variable as text; empty where it is not set. */
function valueOf(variables: object, name: string): string {
  const value = (variables as Readonly<Record<string, unknown>>)[name];
  return typeof value === "string" || typeof value === "number" ? String(value) : "";
}
