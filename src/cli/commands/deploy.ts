/**
 * `deploy`: deploys the stand-alone server to Cloudflare, with the secrets of the environment, and says so where no
 * caller could come in.
 *
 * Without a configuration it deploys the server of this package, as it was built. With one, as in a checkout of the
 * server, it checks the variables of that, and wrangler builds and deploys what it says.
 */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { InvalidArgumentError, type Command } from "commander";
import { parseSettings, SettingsError, type Settings } from "../../base/settings.ts";
import { writePackageConfig } from "../deploy/package-config.ts";
import { runWrangler } from "../deploy/wrangler.ts";
import type { ExitCode } from "../exit-code.ts";
import { UsageError } from "../failure.ts";
import { isInteractive } from "../host.ts";
import { readConfig } from "../init/config-file.ts";
import { isObject, type ConfigObject } from "../init/json.ts";
import { action, type Invocation } from "../invocation.ts";
import { collected } from "../options.ts";
import { askSecret } from "../questions.ts";
import { warningsOf } from "../serve/plan.ts";
import { tcpPorts } from "../../worker/ports.ts";
import { assertKnown, assignmentOf } from "../variables.ts";

interface DeployOptions {
  readonly config?: string;
  readonly env?: string;
  readonly name?: string;
  readonly var?: readonly string[];
  readonly dryRun?: boolean;
}

/** What wrangler deploys. */
interface Target {
  /** Path of the configuration. */
  readonly config: string;
  /** Flags that name the Worker for every command of wrangler. */
  readonly flags: readonly string[];
  /** The same, as a person adds them to `wrangler secret put`. */
  readonly shownFlags: string;
  /** As far as they are known here. */
  readonly variables: Readonly<Record<string, unknown>>;
}

const NAME_UNLESS_GIVEN = "throttr-edge";
/** Set with a deployment, and never deleted by one. */
const SECRETS = ["TOKEN_SECRET", "TOKEN_SECRET_PREVIOUS", "SHARD_SECRET"] as const;

export function addDeploy(program: Command): void {
  program
    .command("deploy")
    .description("deploy the server to Cloudflare with wrangler, which gets all other flags")
    .argument("[flags...]", "flags of `wrangler deploy`")
    .option("--name <name>", `name of the Worker (default: ${NAME_UNLESS_GIVEN})`, workerName)
    .option("-e, --env <name>", "environment: deploys NAME-ENV, with data and secrets of its own")
    .option(
      "--var <name=value>",
      "a variable of the server; stays until changed; may be repeated",
      collected,
    )
    .option("--dry-run", "show what would be deployed")
    .option("-c, --config <path>", "deploy what a configuration of wrangler says instead")
    .allowUnknownOption()
    .action(action<DeployOptions, [readonly string[]]>(deploy));
}

async function deploy(
  invocation: Invocation,
  options: DeployOptions,
  flags: readonly string[],
): Promise<ExitCode> {
  const folder = mkdtempSync(join(tmpdir(), "throttr-deploy-"));
  const remove = (): void => rmSync(folder, { recursive: true, force: true });
  // Secrets are in the folder: neither a second signal nor a terminal that is closed may leave it behind.
  process.once("exit", remove);
  process.on("SIGHUP", endAsBySigterm);
  try {
    return await deployFrom(folder, invocation, options, flags);
  } finally {
    process.off("SIGHUP", endAsBySigterm);
    process.off("exit", remove);
    remove();
  }
}

const endAsBySigterm = (): void => void process.kill(process.pid, "SIGTERM");

async function deployFrom(
  folder: string,
  invocation: Invocation,
  options: DeployOptions,
  flags: readonly string[],
): Promise<ExitCode> {
  const { host, output, signal } = invocation;
  const given = variablesOf(options.var ?? []);
  const environment = options.env ?? host.environment.CLOUDFLARE_ENV ?? "";
  const target =
    options.config === undefined
      ? packageTarget(folder, options, environment, given)
      : configTarget(options.config, options, environment, given);
  const settings = settingsOf(target.variables);
  const isOpen = settings.ACCESS === "open";
  const isDryRun = options.dryRun === true;
  const secrets = secretsOf(host.environment);
  const needsSecret = !isOpen && secrets.TOKEN_SECRET === undefined;
  const hasSecret = needsSecret && !isDryRun && (await isSecretSet(target, signal));
  if (needsSecret && !hasSecret && !isDryRun && isInteractive(host)) {
    const secret = await askSecret(invocation, "TOKEN_SECRET, which signs tokens (empty for none)");
    if (secret !== "") secrets.TOKEN_SECRET = secret;
  }
  for (const warning of warningsOf({ ...target.variables, ...secrets })) output.note(warning);
  if (isOpen) output.note("ACCESS is open: anyone may do anything in namespace default.");
  const args = [
    "deploy",
    ...target.flags,
    ...secretFlags(folder, secrets),
    ...(isDryRun ? ["--dry-run"] : []),
    ...flags,
  ];
  const { status } = await runWrangler(args, signal);
  const isMissing = needsSecret && secrets.TOKEN_SECRET === undefined && !hasSecret;
  if (status === 0 && isMissing) output.note(missingSecret(target, isDryRun));
  return status;
}

/** The server of this package. */
function packageTarget(
  folder: string,
  { name = NAME_UNLESS_GIVEN }: DeployOptions,
  environment: string,
  variables: Readonly<Record<string, string>>,
): Target {
  const worker = environment === "" ? name : `${name}-${environment}`;
  const config = writePackageConfig(folder, worker, variables);
  // wrangler would look for an environment of `CLOUDFLARE_ENV` in the configuration.
  const flags = [`--config=${config}`, "--env="];
  return { config, flags, shownFlags: ` --name ${worker}`, variables };
}

/** What a configuration says, or an environment of it. */
function configTarget(
  config: string,
  { name }: DeployOptions,
  environment: string,
  given: Readonly<Record<string, string>>,
): Target {
  const variables = { ...variablesIn(readConfig(config).config, config, environment), ...given };
  const flags = [
    `--config=${config}`,
    `--env=${environment}`,
    ...(name === undefined ? [] : [`--name=${name}`]),
    ...Object.entries(given).map(([variable, value]) => `--var=${variable}:${value}`),
  ];
  const shownFlags = [
    ...(environment === "" ? [] : [` --env ${environment}`]),
    ...(name === undefined ? [] : [` --name ${name}`]),
  ].join("");
  return { config, flags, shownFlags, variables };
}

/** The variables of a configuration. An environment does not inherit them. @throws UsageError `config_invalid` */
function variablesIn(config: ConfigObject, path: string, environment: string): ConfigObject {
  const environments = isObject(config.env) ? config.env : {};
  const scope = environment === "" ? config : environments[environment];
  if (isObject(scope)) return isObject(scope.vars) ? scope.vars : {};
  throw new UsageError(
    "config_invalid",
    `${path} has no environment ${environment}; it has ${Object.keys(environments).join(", ") || "none"}`,
  );
}

/** Reads `--var`. @throws UsageError `variable_invalid`, `variable_unknown` */
function variablesOf(assignments: readonly string[]): Record<string, string> {
  const variables: Record<string, string> = {};
  for (const { name, value } of assignments.map(assignmentOf)) {
    if ((SECRETS as readonly string[]).includes(name)) {
      throw new UsageError(
        "variable_invalid",
        `--var: a variable shows in Cloudflare's dashboard: set ${name} in the environment of this command, and it is deployed as a secret`,
      );
    }
    assertKnown(name);
    variables[name] = value;
  }
  return variables;
}

/** Checks variables exactly as the Worker does at its start. @throws UsageError `config_invalid` */
function settingsOf(variables: object): Settings {
  try {
    const settings = parseSettings(variables);
    // Their form is checked where they are read; the Worker would do that with a connection.
    tcpPorts(settings);
    return settings;
  } catch (error) {
    if (!(error instanceof SettingsError)) throw error;
    throw new UsageError(error.code, `${error.detail}; nothing was deployed`);
  }
}

type Secrets = Partial<Record<(typeof SECRETS)[number], string>>;

/** The secrets that the environment of this process has; an empty one counts as missing. */
function secretsOf(environment: Readonly<Record<string, string | undefined>>): Secrets {
  return Object.fromEntries(
    SECRETS.flatMap((name) => (environment[name] ? [[name, environment[name]]] : [])),
  );
}

/** Flags that deploy secrets. They are in a file, because other users can read the command line of a process. */
function secretFlags(folder: string, secrets: Secrets): string[] {
  if (Object.keys(secrets).length === 0) return [];
  const file = join(folder, "secrets.json");
  writeFileSync(file, JSON.stringify(secrets), { mode: 0o600 });
  return [`--secrets-file=${file}`];
}

/** Whether the Worker has a TOKEN_SECRET already; false where that can't be learned. */
async function isSecretSet({ flags }: Target, signal: AbortSignal): Promise<boolean> {
  const args = ["secret", "list", "--format=json", ...flags];
  const { status, printed } = await runWrangler(args, signal, ["ignore", "pipe", "ignore"]);
  return status === 0 && printed.includes('"TOKEN_SECRET"');
}

const missingSecret = ({ shownFlags }: Target, isDryRun: boolean): string => `
TOKEN_SECRET was not given${isDryRun ? "" : ", and is not known to be set"}: without it the server refuses
every request from outside with access_not_configured, unless it keeps ACCESS=open of an earlier deployment. Set it once:

  npx wrangler secret put TOKEN_SECRET${shownFlags}`;

/** Reads the name of a Worker. @throws InvalidArgumentError */
function workerName(text: string): string {
  if (/^[a-z0-9][a-z0-9-]{0,53}$/.test(text)) return text;
  throw new InvalidArgumentError("Expected 1 to 54 of a-z, 0-9 and -.");
}
