/**
 * `token`: creates access tokens, and revokes them.
 *
 * It signs with the deployment's secret and asks no server, so an operator can create tokens offline. The claims are
 * those that src/worker/token.ts checks. A server keeps the list of revoked tokens.
 */
import { randomBytes } from "node:crypto";
import { InvalidArgumentError, Option, type Command } from "commander";
import { sign } from "hono/jwt";
import { EXPIRED_AGO_MS_MAX } from "../../base/access.ts";
import { Scope, type ScopeName } from "../../wire/throttr/requests.ts";
import { durationMsOf } from "../duration.ts";
import { UsageError } from "../failure.ts";
import { isInteractive } from "../host.ts";
import { action, type Invocation } from "../invocation.ts";
import { addConnectionOptions, addJsonOption, collected } from "../options.ts";
import { askSecret } from "../questions.ts";
import { shownTime } from "../records.ts";
import { askServer } from "../server-request.ts";
import { tableOf, type Column } from "../table.ts";

interface TokenOptions {
  readonly ns?: string;
  readonly scopes: readonly ScopeName[];
  /** In milliseconds. */
  readonly ttl: number;
  readonly keyPrefix?: readonly string[];
  readonly channelPrefix?: readonly string[];
}

interface RevokeOptions {
  readonly id?: string;
  readonly expiresAt?: number;
  readonly allBefore?: number;
}

/** The answer of `GET /v1/tokens/revocations`. */
interface Revoked {
  readonly issuedBeforeMs: number | null;
  readonly tokens: readonly {
    readonly id: string;
    readonly revokedAtMs: number;
    readonly expiresAtMs: number | null;
  }[];
}

const REVOCATIONS = "/v1/tokens/revocations";
/** Random bytes of an ID: two tokens never have the same. */
const ID_BYTES = 12;
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
    .option("--ns <namespace>", "namespace of the token; '*' for all", namespaceArgument)
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
        // Not mandatory for the parser: the commands below this one would demand it, too.
        if (ns === undefined) throw new UsageError("option_missing", "--ns: give a namespace");
        // RFC 7519 counts in seconds. Rounded down: a token from the future would be refused.
        const iat = Math.floor(Date.now() / 1000);
        const claims = {
          ns,
          scopes,
          ...prefixClaim("keyPrefixes", keyPrefix),
          ...prefixClaim("channelPrefixes", channelPrefix),
          iat,
          exp: iat + ttl / 1000,
          jti: randomBytes(ID_BYTES).toString("base64url"),
        };
        const token = await sign({ ...claims }, await secretOf(invocation), "HS256");
        const { output } = invocation;
        await output.print({ token, ...claims }, () => token);
        const end = shownTime(claims.exp * 1000);
        output.note(output.faint(`id ${claims.jti}, expires ${end}`));
      }),
    );
  addJsonOption(command);
  addRevoke(command);
  addRevocations(command);
}

function addRevoke(program: Command): void {
  const command = program
    .command("revoke")
    .description("revoke a token of the namespace, or all of its tokens; needs the scope admin")
    .addOption(
      new Option("--id <id>", "ID of the token, which token printed").conflicts("allBefore"),
    )
    .option(
      "--expires-at <time>",
      "when the token with this ID expires, so that the ID can leave the list",
      momentArgument,
    )
    .option("--all-before <time>", "all that were issued before; now, or a time", momentArgument)
    .action(
      action<RevokeOptions, []>(async (invocation, { id, expiresAt, allBefore }) => {
        if ((id ?? allBefore) === undefined) {
          throw new UsageError("option_missing", "give --id or --all-before");
        }
        if (id === undefined && expiresAt !== undefined) {
          throw new UsageError("option_invalid", "--expires-at: belongs to --id");
        }
        if (expiresAt !== undefined) assertRecent(expiresAt);
        const { settings, signal, output } = invocation;
        const body =
          id === undefined
            ? { issuedBeforeMs: allBefore! }
            : { id, ...(expiresAt === undefined ? {} : { expiresAtMs: expiresAt }) };
        await askServer(settings, { path: REVOCATIONS, token: settings.token, body }, signal);
        await output.print({ revoked: true, ...body }, () =>
          id === undefined ? `revoked: all issued before ${shownTime(allBefore!)}` : "revoked",
        );
      }),
    );
  addConnectionOptions(command);
}

function addRevocations(program: Command): void {
  const command = program
    .command("revocations")
    .description("list the revoked tokens of the namespace; needs the scope admin")
    .action(
      action<object, []>(async ({ settings, signal, output }) => {
        const request = { path: REVOCATIONS, token: settings.token, field: "tokens" };
        const answer = await askServer(settings, request, signal);
        const { issuedBeforeMs, tokens } = answer as unknown as Revoked;
        await output.print(answer, () =>
          issuedBeforeMs === null ? null : `all issued before ${shownTime(issuedBeforeMs)}`,
        );
        if (tokens.length > 0) await output.text(tableOf(output, REVOKED, tokens));
      }),
    );
  addConnectionOptions(command);
}

/** The columns of `token revocations`. */
const REVOKED: readonly Column<Revoked["tokens"][number]>[] = [
  ["ID", ({ id }) => id],
  ["REVOKED", ({ revokedAtMs }) => shownTime(revokedAtMs)],
  ["EXPIRES", ({ expiresAtMs }) => (expiresAtMs === null ? "unknown" : shownTime(expiresAtMs))],
];

/**
 * Refuses the end of a token that is more than a day ago: its ID would leave the list at once, and a token that in truth
 * lives longer would not be revoked. One that has just expired is accepted, as clocks differ.
 *
 * @throws UsageError `option_invalid`
 */
function assertRecent(expiresAtMs: number): void {
  if (expiresAtMs >= Date.now() - EXPIRED_AGO_MS_MAX) return;
  throw new UsageError(
    "option_invalid",
    `--expires-at: ${shownTime(expiresAtMs)} is more than a day ago; expected the time when the token expires`,
  );
}

/**
 * Reads a moment: `now`, a date, or milliseconds since the epoch. Seconds, as `exp` and `iat` of a token count, are
 * refused: as milliseconds they would be in 1970, and revoke nothing.
 */
function momentArgument(text: string): number {
  if (/^\d{1,11}$/.test(text)) {
    throw new InvalidArgumentError(
      `A plain number counts milliseconds since the epoch: for ${text} seconds write ${text}000.`,
    );
  }
  const ms = text === "now" ? Date.now() : /^\d+$/.test(text) ? Number(text) : Date.parse(text);
  if (Number.isSafeInteger(ms) && ms >= 0) return ms;
  throw new InvalidArgumentError("Expected now, or a time such as 2026-05-01T12:00:00Z.");
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
  if (prefixes.includes("")) {
    throw new UsageError(
      "prefix_invalid",
      `${name}: an empty prefix would allow everything; leave the option out for a token without prefixes`,
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
  throw new InvalidArgumentError(
    `Expected whole seconds, at least 1s, such as 90s, 1h or 1d.${meant}`,
  );
}
