/**
 * `token`: creates access tokens.
 *
 * It signs with the deployment's secret and asks no server, so an operator can create tokens offline. The claims are
 * those that src/worker/token.ts checks.
 */
import { InvalidArgumentError, Option, type Command } from "commander";
import { sign } from "hono/jwt";
import { Scope, type ScopeName } from "../../wire/throttr/requests.ts";
import { durationMsOf } from "../duration.ts";
import { UsageError } from "../failure.ts";
import { isInteractive } from "../host.ts";
import { action, type Invocation } from "../invocation.ts";
import { addJsonOption, collected } from "../options.ts";
import { askSecret } from "../questions.ts";
import { shownTime } from "../records.ts";

interface TokenOptions {
  readonly ns: string;
  readonly scopes: readonly ScopeName[];
  /** In milliseconds. */
  readonly ttl: number;
  readonly keyPrefix?: readonly string[];
  readonly channelPrefix?: readonly string[];
}

/** All scopes, as the server knows them. */
const SCOPES = Object.keys(Scope) as readonly ScopeName[];
const HOUR_MS = 3_600_000;
/** As many as the server accepts in a token. */
const PREFIXES_MAX = 16;
/** As long as a key can be. */
const PREFIX_BYTES_MAX = 255;

export function addToken(program: Command): void {
  const command = program
    .command("token")
    .description("create a token; reads the secret from TOKEN_SECRET, or asks for it")
    .requiredOption("--ns <namespace>", "namespace of the token; '*' for all", namespaceArgument)
    .addOption(
      new Option("--scopes <list>", `comma-separated: ${SCOPES.join(", ")}`)
        .argParser(scopesArgument)
        .default(["read", "write"], "read,write"),
    )
    .addOption(
      new Option("--ttl <duration>", "lifetime; at most 5m for use as ?ticket=")
        .argParser(lifetimeArgument)
        .default(HOUR_MS, "1h"),
    )
    .option("--key-prefix <prefix>", "only keys that begin with it; may be repeated", collected)
    .option(
      "--channel-prefix <prefix>",
      "only channels that begin with it; may be repeated",
      collected,
    )
    .action(
      action<TokenOptions, []>(async (invocation, options) => {
        const { ns, scopes, ttl, keyPrefix, channelPrefix } = options;
        // RFC 7519 counts in seconds. Rounded down: a token from the future would be refused.
        const iat = Math.floor(Date.now() / 1000);
        const claims = {
          ns,
          scopes,
          ...prefixClaim("keyPrefixes", keyPrefix),
          ...prefixClaim("channelPrefixes", channelPrefix),
          iat,
          exp: iat + ttl / 1000,
        };
        const token = await sign({ ...claims }, await secretOf(invocation), "HS256");
        const { output } = invocation;
        await output.print({ token, ...claims }, () => token);
        output.note(output.faint(`expires ${shownTime(claims.exp * 1000)}`));
      }),
    );
  addJsonOption(command);
}

/** The secret to sign with. There is no flag for it: process lists would show it. */
async function secretOf(invocation: Invocation): Promise<string> {
  const { host, output } = invocation;
  const given = host.environment.TOKEN_SECRET;
  if (given) return given;
  const asked = isInteractive(host) && !output.isJson ? await askSecret(invocation, "Secret") : "";
  if (asked !== "") return asked;
  throw new UsageError("secret_missing", "TOKEN_SECRET: the environment variable is not set");
}

/** The claim for prefixes; absent where none limit the token. */
function prefixClaim(
  name: "keyPrefixes" | "channelPrefixes",
  prefixes: readonly string[] = [],
): Record<string, readonly string[]> {
  if (prefixes.length > PREFIXES_MAX) {
    throw new UsageError(
      "prefix_invalid",
      `${name}: expected at most ${PREFIXES_MAX} prefixes, got ${prefixes.length}`,
    );
  }
  if (prefixes.some((prefix) => Buffer.byteLength(prefix) > PREFIX_BYTES_MAX)) {
    throw new UsageError(
      "prefix_invalid",
      `${name}: a prefix is longer than ${PREFIX_BYTES_MAX} bytes`,
    );
  }
  return prefixes.length === 0 ? {} : { [name]: prefixes };
}

/** Reads a namespace, in the characters that the server accepts, or the sign for all of them. */
function namespaceArgument(text: string): string {
  if (/^(?:\*|[\w.-]{1,64})$/.test(text)) return text;
  throw new InvalidArgumentError(
    "Expected 1 to 64 letters, digits, dots, dashes or underscores, or * for all namespaces.",
  );
}

/** Reads scopes. An unknown one would make a token that the server refuses. */
function scopesArgument(text: string): readonly ScopeName[] {
  const names = text.split(",") as ScopeName[];
  const unknown = names.find((name) => !SCOPES.includes(name));
  if (unknown === undefined) return names;
  throw new InvalidArgumentError(`Expected ${SCOPES.join(", ")}, got ${unknown}.`);
}

/** Reads a lifetime. JWT counts whole seconds (RFC 7519, `exp`), so fractions of a second are refused. */
function lifetimeArgument(text: string): number {
  const ms = durationMsOf(text);
  if (ms > 0 && ms % 1000 === 0) return ms;
  const isPlain = /^\d+$/.test(text.trim()) && ms > 0;
  const meant = isPlain
    ? ` A plain number counts milliseconds: for ${ms} seconds write ${ms}s.`
    : "";
  throw new InvalidArgumentError(`Expected whole seconds, such as 90s, 1h or 1d.${meant}`);
}
