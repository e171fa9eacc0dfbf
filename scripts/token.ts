/** `npm run token`: mints a token. */
import { parseArgs } from "node:util";
import { sign } from "hono/jwt";

const USAGE = `npm run -s token -- --ns NAMESPACE [options]

  --ns NAMESPACE         namespace that the token opens
  --scopes LIST          of read, write, publish, subscribe, admin; default read,write
  --ttl SECONDS          how long it lives, default 3600; a ?ticket= at most 300
  --key-prefix PREFIX    keys must begin with it; may be repeated
  --channel-prefix PREFIX  channels must begin with it; may be repeated

The secret is read from the environment variable TOKEN_SECRET.`;

function fail(message: string): never {
  console.error(`${message}\n\n${USAGE}`);
  process.exit(2);
}

function optionsOf(args: string[]) {
  try {
    return parseArgs({
      args,
      options: {
        ns: { type: "string" },
        scopes: { type: "string", default: "read,write" },
        ttl: { type: "string", default: "3600" },
        "key-prefix": { type: "string", multiple: true },
        "channel-prefix": { type: "string", multiple: true },
      },
    }).values;
  } catch (error) {
    return fail(error instanceof Error ? error.message : String(error));
  }
}

const options = optionsOf(process.argv.slice(2));
const secret = process.env.TOKEN_SECRET;
if (!secret) fail("TOKEN_SECRET is not set");
if (!/^[\w.-]{1,64}$/.test(options.ns ?? "")) {
  fail("--ns: 1 to 64 letters, digits, dots, dashes or underscores");
}
const ttlS = Number(options.ttl);
if (!Number.isInteger(ttlS) || ttlS <= 0) fail("--ttl: a positive integer of seconds");
const scopes = options.scopes.split(",");
const known = ["read", "write", "publish", "subscribe", "admin"];
const unknown = scopes.find((scope) => !known.includes(scope));
if (unknown !== undefined) fail(`--scopes: ${unknown} is none of ${known.join(", ")}`);

const iat = Math.floor(Date.now() / 1000);
const prefixes = {
  ...(options["key-prefix"] && { keyPrefixes: options["key-prefix"] }),
  ...(options["channel-prefix"] && { channelPrefixes: options["channel-prefix"] }),
};
console.log(
  await sign({ ns: options.ns, scopes, ...prefixes, iat, exp: iat + ttlS }, secret, "HS256"),
);
