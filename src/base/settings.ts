/**
 * Settings: every variable of the deployment, with its range and default, in one place.
 *
 * `wrangler.toml` repeats the defaults with comments, docs/reference.md lists them; a test keeps the three alike.
 */
import * as v from "valibot";
import { FRAME_BYTES_LIMIT } from "../wire/bridge.ts";
import { ThrottrError } from "../wire/edge/error.ts";
import { logWarning } from "./log.ts";

/** Variables of wrangler are texts, those of tests may be numbers. An empty text stands for the default. */
function integer(name: string, fallback: number, min: number, max: number) {
  const message = `${name}: expected an integer from ${min} to ${max}`;
  return v.pipe(
    v.optional(v.union([v.string(), v.number()]), fallback),
    v.transform((value) => (value === "" ? fallback : Number(value))),
    v.number(message),
    v.integer(message),
    v.minValue(min, message),
    v.maxValue(max, message),
  );
}

/** A variable that is one of some words. An empty text stands for the default, as with numbers. */
function choice<const T extends readonly string[]>(name: string, fallback: T[number], names: T) {
  return v.pipe(
    v.optional(v.string(), fallback),
    v.transform((value) => (value === "" ? fallback : value)),
    v.picklist(names, `${name}: expected one of ${names.map((n) => n || "(empty)").join(", ")}`),
  );
}

/** Any text; empty where it is not set. */
const text = v.optional(v.string(), "");

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
const schema = v.object({
  ACCESS: choice("ACCESS", "token", ["token", "open"]),
  OPEN_NAMESPACES: choice("OPEN_NAMESPACES", "default", ["default", "any"]),
  /** Checked where it is used: a deployment with `ACCESS=open` needs none. */
  TOKEN_SECRET: text,
  TOKEN_SECRET_PREVIOUS: text,
  CORS_ORIGINS: text,
  HOSTS: text,
  /** Part of the placement: data of another number is refused, not searched for. */
  SHARDS: integer("SHARDS", 4, 1, 128),
  /** Part of the placement, too. */
  SHARD_SECRET: text,
  /** Table and records, in memory. An isolate has 128 MB, and needs room for code, batches and answers. */
  SHARD_BYTES_MAX: integer("SHARD_BYTES_MAX", 24 * MEBIBYTE, MEBIBYTE, 112 * MEBIBYTE),
  ACCEPT_DATA_LOSS: choice("ACCEPT_DATA_LOSS", "off", ["on", "off"]),
  /** `relaxed`: answers come before their row, which follows within 50 ms. */
  DURABILITY: choice("DURABILITY", "strict", ["strict", "relaxed"]),
  LOCATION_HINT: choice("LOCATION_HINT", "", LOCATION_HINTS),
  JURISDICTION: choice("JURISDICTION", "", ["", "eu", "fedramp"]),
  /** The largest frame that a client may send; it has to be in memory as a whole. */
  FRAME_BYTES_MAX: integer("FRAME_BYTES_MAX", MEBIBYTE, 1024, FRAME_BYTES_LIMIT),
  /** Of one HTTP request; below 32 MiB, which a call to an object carries. */
  BODY_BYTES_MAX: integer("BODY_BYTES_MAX", 8 * MEBIBYTE, 1024, 24 * MEBIBYTE),
  /** Of all HTTP requests that an isolate serves at once. */
  BODIES_BYTES_MAX: integer("BODIES_BYTES_MAX", 32 * MEBIBYTE, 24 * MEBIBYTE, 1024 * MEBIBYTE),
  /** Of one connection: a WebSocket can't be told to wait, so one that sends more is closed. */
  UNANSWERED_BYTES_MAX: integer("UNANSWERED_BYTES_MAX", 4 * MEBIBYTE, 3 * MEBIBYTE, 16 * MEBIBYTE),
  METRICS: choice("METRICS", "on", ["on", "off"]),
  /** Of one process, under `serve`; 0 for no limit. */
  CONNECTIONS_MAX: integer("CONNECTIONS_MAX", 0, 0, 1_000_000),
  HUBS_MAX: integer("HUBS_MAX", 16, 1, 256),
  /** The runtime keeps up to 32,768 sockets for an object. */
  HUB_CONNECTIONS_MAX: integer("HUB_CONNECTIONS_MAX", 10_000, 1, 32_000),
  /** Of one Hub, beside those that every connection begins with. */
  HUB_SUBSCRIPTIONS_MAX: integer("HUB_SUBSCRIPTIONS_MAX", 100_000, 1, 1_000_000),
  /** What a subscriber may leave unread: it stays in the memory of its Hub. */
  PUSH_BYTES_MAX: integer("PUSH_BYTES_MAX", 8 * MEBIBYTE, MEBIBYTE / 4, 64 * MEBIBYTE),
  IDEMPOTENCY_TTL_MS: integer("IDEMPOTENCY_TTL_MS", 600_000, 1000, 86_400_000),
  /** Of one channel, kept for a day; each publication is a row then. */
  REPLAY_MESSAGES_MAX: integer("REPLAY_MESSAGES_MAX", 0, 0, 1000),
  /** For a peer that stops in the middle of a frame, or stops reading. */
  STALL_TIMEOUT_MS: integer("STALL_TIMEOUT_MS", 30_000, 1000, 120_000),
  YRMCDS_ENABLE: choice("YRMCDS_ENABLE", "off", ["on", "off"]),
  YRMCDS_CONNECTIONS_MAX: integer("YRMCDS_CONNECTIONS_MAX", 0, 0, 32_000),
  YRMCDS_STATS_INTERVAL_MS: integer(
    "YRMCDS_STATS_INTERVAL_MS",
    86_400_000,
    10_000,
    31 * 86_400_000,
  ),
  /** Within it, what a lost connection held is released. */
  HOLDER_TIMEOUT_MS: integer("HOLDER_TIMEOUT_MS", 15_000, 3000, 600_000),
  TCP_PORTS: v.optional(v.string(), TCP_PORTS),
  TCP_DEFAULT_SIZE: choice("TCP_DEFAULT_SIZE", "uint16", ["uint8", "uint16", "uint32", "uint64"]),
});

/** The variables as they are set, checked, with defaults filled in. */
export type Settings = v.InferOutput<typeof schema>;

/** Names that variables had in release 0.4, and what they are called now. 0.5 reads both, 0.6 the new ones. */
export const RENAMED_VARIABLES: Readonly<Record<string, keyof Settings>> = {
  COUNTER_ENABLE: "YRMCDS_ENABLE",
  COUNTER_CONNECTIONS_MAX: "YRMCDS_CONNECTIONS_MAX",
  COUNTER_STATS_INTERVAL_MS: "YRMCDS_STATS_INTERVAL_MS",
};

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
const read = new WeakMap<object, Settings>();
/** Old names that this isolate has logged. */
const logged = new Set<string>();

/**
 * The settings of a Worker's or an object's environment. They are read once for each environment; variables with an
 * old name are logged then, once for each isolate.
 *
 * @throws SettingsError that names the variable and its range
 */
export function readSettings(env: object): Settings {
  let settings = read.get(env);
  if (settings === undefined) {
    settings = parseSettings(env);
    read.set(env, settings);
    for (const { variable, name } of oldNamesIn(env)) {
      if (logged.has(variable)) continue;
      logged.add(variable);
      logWarning("variable_renamed", { variable, name });
    }
  }
  return settings;
}

/**
 * Checks variables and fills in the defaults; unlike `readSettings` it logs nothing.
 *
 * @throws SettingsError that names the variable and its range
 */
export function parseSettings(variables: object): Settings {
  const result = v.safeParse(schema, withNewNames(variables));
  if (result.success) return result.output;
  throw new SettingsError(result.issues.map(({ message }) => message).join("; "));
}

/** The variables that are set by a name of an earlier release, with the name to set instead. */
export function oldNamesIn(variables: object): { variable: string; name: keyof Settings }[] {
  return Object.entries(RENAMED_VARIABLES).flatMap(([variable, name]) =>
    valueOf(variables, variable) === "" ? [] : [{ variable, name }],
  );
}

/**
 * The variables under their present names.
 *
 * @throws SettingsError when the old and the new name of a variable have different values
 */
function withNewNames(variables: object): object {
  const renamed: Record<string, string> = {};
  for (const { variable, name } of oldNamesIn(variables)) {
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
