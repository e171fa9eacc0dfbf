/**
 * Settings: every variable of the deployment, with its range and default, in one place.
 *
 * `wrangler.toml` repeats the defaults with comments, docs/reference.md lists them; a test keeps the three alike.
 */
import * as v from "valibot";

function integer(name: string, fallback: number, min: number, max: number) {
  const message = `${name}: an integer from ${min} to ${max} is expected`;
  return v.pipe(
    v.optional(v.union([v.string(), v.number()]), fallback),
    v.transform((value) => (value === "" ? fallback : Number(value))),
    v.number(message),
    v.integer(message),
    v.minValue(min, message),
    v.maxValue(max, message),
  );
}

function choice<const T extends readonly string[]>(name: string, fallback: T[number], names: T) {
  return v.pipe(
    v.optional(v.string(), fallback),
    v.transform((value) => (value === "" ? fallback : value)),
    v.picklist(names, `${name}: one of ${names.map((n) => n || "(empty)").join(", ")} is expected`),
  );
}

const text = v.optional(v.string(), "");

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

const TCP_PORTS =
  "9000=7.3, 9001=7.3/uint8, 9002=7.3/uint16, 9004=7.3/uint32, 9008=7.3/uint64, 9020=2, " +
  "11215=yrmcds, 11216=yrmcds/today";

const schema = v.object({
  ACCESS: choice("ACCESS", "token", ["token", "open"]),
  OPEN_NAMESPACES: choice("OPEN_NAMESPACES", "default", ["default", "any"]),
  TOKEN_SECRET: text,
  TOKEN_SECRET_PREVIOUS: text,
  CORS_ORIGINS: text,
  HOSTS: text,
  SHARDS: integer("SHARDS", 4, 1, 128),
  SHARD_SECRET: text,
  SHARD_BYTES_MAX: integer("SHARD_BYTES_MAX", 24 * MEBIBYTE, MEBIBYTE, 112 * MEBIBYTE),
  ACCEPT_DATA_LOSS: choice("ACCEPT_DATA_LOSS", "off", ["on", "off"]),
  DURABILITY: choice("DURABILITY", "strict", ["strict", "relaxed"]),
  LOCATION_HINT: choice("LOCATION_HINT", "", LOCATION_HINTS),
  JURISDICTION: choice("JURISDICTION", "", ["", "eu", "fedramp"]),
  FRAME_BYTES_MAX: integer("FRAME_BYTES_MAX", MEBIBYTE, 1024, 1_800_000),
  BODY_BYTES_MAX: integer("BODY_BYTES_MAX", 8 * MEBIBYTE, 1024, 24 * MEBIBYTE),
  BODIES_BYTES_MAX: integer("BODIES_BYTES_MAX", 32 * MEBIBYTE, 24 * MEBIBYTE, 1024 * MEBIBYTE),
  UNANSWERED_BYTES_MAX: integer("UNANSWERED_BYTES_MAX", 4 * MEBIBYTE, 3 * MEBIBYTE, 16 * MEBIBYTE),
  METRICS: choice("METRICS", "on", ["on", "off"]),
  CONNECTIONS_MAX: integer("CONNECTIONS_MAX", 0, 0, 1_000_000),
  HUBS_MAX: integer("HUBS_MAX", 16, 1, 256),
  HUB_CONNECTIONS_MAX: integer("HUB_CONNECTIONS_MAX", 10_000, 1, 32_000),
  HUB_SUBSCRIPTIONS_MAX: integer("HUB_SUBSCRIPTIONS_MAX", 100_000, 1, 1_000_000),
  PUSH_BYTES_MAX: integer("PUSH_BYTES_MAX", 8 * MEBIBYTE, MEBIBYTE / 4, 64 * MEBIBYTE),
  IDEMPOTENCY_TTL_MS: integer("IDEMPOTENCY_TTL_MS", 600_000, 1000, 86_400_000),
  REPLAY_MESSAGES_MAX: integer("REPLAY_MESSAGES_MAX", 0, 0, 1000),
  STALL_TIMEOUT_MS: integer("STALL_TIMEOUT_MS", 30_000, 1000, 120_000),
  COUNTER_ENABLE: choice("COUNTER_ENABLE", "off", ["on", "off"]),
  COUNTER_CONNECTIONS_MAX: integer("COUNTER_CONNECTIONS_MAX", 0, 0, 32_000),
  COUNTER_STATS_INTERVAL_MS: integer(
    "COUNTER_STATS_INTERVAL_MS",
    86_400_000,
    10_000,
    31 * 86_400_000,
  ),
  HOLDER_TIMEOUT_MS: integer("HOLDER_TIMEOUT_MS", 15_000, 3000, 600_000),
  TCP_PORTS: v.optional(v.string(), TCP_PORTS),
  TCP_DEFAULT_SIZE: choice("TCP_DEFAULT_SIZE", "uint16", ["uint8", "uint16", "uint32", "uint64"]),
});

/** The variables as they are set, checked, with defaults filled in. */
export type Settings = v.InferOutput<typeof schema>;

/** A variable has a value that it can't have. */
export class SettingsError extends Error {
  override readonly name = "SettingsError";
}

const read = new WeakMap<object, Settings>();

/**
 * The settings of an environment.
 *
 * @throws SettingsError that names the variable and its range
 */
export function readSettings(env: object): Settings {
  let settings = read.get(env);
  if (settings === undefined) {
    const result = v.safeParse(schema, env);
    if (!result.success) {
      throw new SettingsError(`config_invalid: ${result.issues.map((i) => i.message).join("; ")}`);
    }
    settings = result.output;
    read.set(env, settings);
  }
  return settings;
}
