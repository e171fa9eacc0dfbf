/**
 * `npm run deploy`: checks the variables, deploys the server with the secrets that the environment has, and
 * says so where nobody could come in.
 *
 * Flags are those of `wrangler deploy`; the dashboard is built by it: see `[build]` in `wrangler.toml`.
 */
import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { unstable_readConfig } from "wrangler";
import { warningsOf } from "../src/cli/serve/plan.ts";
import { parseSettings, SettingsError, type Settings } from "../src/base/settings.ts";
import { ROOT } from "./server.ts";

const WRANGLER = `${ROOT}node_modules/wrangler/bin/wrangler.js`;
/** Set at once, and never deleted by a deployment. */
const SECRETS = ["TOKEN_SECRET", "TOKEN_SECRET_PREVIOUS", "SHARD_SECRET"];

interface Target {
  /** Configuration file. */
  readonly config: string;
  /** Empty for the one that is above all environments. */
  readonly environment: string;
  /** The arguments name the environment. */
  readonly isNamed: boolean;
  readonly isDryRun: boolean;
}

function targetOf(args: string[]): Target {
  const { values } = parseArgs({
    args,
    options: {
      config: { type: "string", short: "c", default: `${ROOT}wrangler.toml` },
      env: { type: "string", short: "e" },
      "dry-run": { type: "boolean", default: false },
    },
    strict: false,
  });
  return {
    config: String(values.config),
    environment: String(values.env ?? process.env.CLOUDFLARE_ENV ?? ""),
    isNamed: values.env !== undefined,
    isDryRun: values["dry-run"] === true,
  };
}

/** The configuration is not one that wrangler takes: its message says why. */
class ConfigError extends Error {}

/** Variables of the environment. @throws ConfigError */
function variablesOf({ config, environment }: Target): Record<string, unknown> {
  try {
    return unstable_readConfig({ config, env: environment }, { hideWarnings: true }).vars;
  } catch (error) {
    if (!(error instanceof Error)) throw error;
    throw new ConfigError(`${placeOf(error)}${error.message.trimEnd()}`, { cause: error });
  }
}

/** Where a file is no TOML, as wrangler's error tells it. */
function placeOf({ location }: Error & { location?: { file?: string; line: number } }): string {
  return location === undefined ? "" : `${location.file ?? ""}:${location.line}: `;
}

/** Secrets that the environment of this process has. */
function givenSecrets(): Record<string, string> {
  const given = SECRETS.flatMap((name) => {
    const value = process.env[name];
    return value ? [[name, value] as const] : [];
  });
  return Object.fromEntries(given);
}

/** Whether the Worker has a secret already; false where nobody can be asked. */
function hasSecret({ config, environment }: Target, name: string): boolean {
  const { status, stdout } = spawnSync(
    process.execPath,
    [WRANGLER, "secret", "list", "--format=json", `--config=${config}`, `--env=${environment}`],
    { encoding: "utf8", stdio: ["ignore", "pipe", "ignore"] },
  );
  return status === 0 && stdout.includes(`"${name}"`);
}

/** Runs `wrangler deploy`. Gives its exit code. */
function deploy(
  args: string[],
  { environment, isNamed }: Target,
  secrets: Record<string, string>,
): number {
  const folder = mkdtempSync(join(tmpdir(), "throttr-deploy-"));
  try {
    const file = join(folder, "secrets.json");
    writeFileSync(file, JSON.stringify(secrets), { mode: 0o600 });
    const secretArgs = Object.keys(secrets).length === 0 ? [] : [`--secrets-file=${file}`];
    const envArgs = isNamed ? [] : [`--env=${environment}`];
    const command = [WRANGLER, "deploy", ...envArgs, ...secretArgs, ...args];
    return spawnSync(process.execPath, command, { cwd: ROOT, stdio: "inherit" }).status ?? 1;
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

function main(args: string[]): number {
  const target = targetOf(args);
  let variables: Record<string, unknown>;
  let settings: Settings;
  try {
    variables = variablesOf(target);
    settings = parseSettings(variables);
  } catch (error) {
    if (!(error instanceof SettingsError || error instanceof ConfigError)) throw error;
    console.error(`${error.message}\nNothing was deployed.`);
    return error instanceof SettingsError ? 2 : 1;
  }
  const secrets = givenSecrets();
  for (const warning of warningsOf({ ...variables, ...secrets })) console.error(warning);
  const isOpen = settings.ACCESS === "open";
  if (isOpen) console.error("ACCESS is open: anyone may do anything in namespace default.");
  const status = deploy(args, target, secrets);
  if (status !== 0 || isOpen || secrets.TOKEN_SECRET !== undefined) return status;
  if (target.isDryRun || !hasSecret(target, "TOKEN_SECRET")) {
    const flag = target.environment === "" ? "" : ` --env ${target.environment}`;
    console.error(`
TOKEN_SECRET was not given${target.isDryRun ? "" : ", and is not known to be set"}: without it the server refuses
every request from outside with access_not_configured. Set it once:

  npx wrangler secret put TOKEN_SECRET${flag}`);
  }
  return status;
}

process.exit(main(process.argv.slice(2)));
