/**
 * `serve`: the whole server on your own machine, under workerd, with its data on disk.
 *
 * This file reads flags and runs the steps of a start in the order that keeps data safe: the folder is claimed before
 * anything in it is touched, and released only after workerd has ended.
 */
import { resolve } from "node:path";
import { InvalidArgumentError, Option, type Command } from "commander";
import { outliveReaders } from "../closed-output.ts";
import { ExitCode } from "../exit-code.ts";
import { action, type Invocation } from "../invocation.ts";
import { addJsonOption, collected, timerArgument } from "../options.ts";
import { askServer } from "./claim.ts";
import { DataFolder } from "./data-folder.ts";
import { removeEmptyObjects } from "./empty-objects.ts";
import { Events } from "./events.ts";
import { health } from "./health.ts";
import { openFilesMax } from "./open-files.ts";
import { planOf, type ServeFlags } from "./plan.ts";
import { ServerProcess } from "./server.ts";
import { RESTART_PAUSES_MS, untilEnded } from "./until-ended.ts";
import { findWorkerd } from "./workerd.ts";

/** Loopback: a server without a decision about access is not open to the network. */
const HTTP_UNLESS_GIVEN = "127.0.0.1:8787";
/** How long `--check` waits: less than a container's health check usually allows. */
const HEALTH_TIMEOUT_MS = 5000;

/**
 * The flags as commander has parsed them. Lists are missing rather than empty where a flag was not
 * given.
 */
interface ServeOptions extends Omit<ServeFlags, "http" | "tcp" | "var"> {
  readonly http?: readonly string[];
  readonly tcp?: readonly string[];
  readonly var?: readonly string[];
  readonly drainTimeout: number;
  readonly workerd?: string;
  readonly check?: boolean;
}

/** Adds the command. */
export function addServe(program: Command): void {
  const command = program
    .command("serve")
    .description("run the server on this machine, under workerd, with its data on disk")
    .option(
      "--http <address>",
      `address for HTTP and WebSockets; may be repeated (default: ${HTTP_UNLESS_GIVEN})`,
      collected,
    )
    .option(
      "--tcp <ports>",
      'TCP ports, each with dialect, size and namespace: "9000=7.3/uint16@orders, 9001=2@old"; anyone who can connect to a port may do everything in its namespace; may be repeated',
      collected,
    )
    .option("--tcp-host <ip>", "address of the TCP ports", "127.0.0.1")
    .option("--open-to-network", "allow other machines to connect where no token is needed", false)
    .addOption(
      new Option("--access <who>", "who has access over HTTP: callers with a token, or anyone")
        .choices(["token", "open"])
        .default("token"),
    )
    .option(
      "--token-secret-file <path>",
      "file with TOKEN_SECRET, instead of the environment variable",
    )
    .option(
      "--token-secret-previous-file <path>",
      "file with TOKEN_SECRET_PREVIOUS, instead of the environment variable",
    )
    .option(
      "--shard-secret-file <path>",
      "file with SHARD_SECRET, instead of the environment variable",
    )
    .option("--var <name=value>", "a variable of the server; may be repeated", collected)
    .option("--data <folder>", "folder for the data", folderArgument, "./throttr-data")
    .option("--behind-proxy", "trust X-Forwarded-Proto and CF-Connecting-IP of requests", false)
    .addOption(
      new Option("--drain-timeout <duration>", "how long a stop waits for requests under way")
        .argParser(timerArgument(0))
        .default(5000, "5s"),
    )
    .option("--workerd <path>", "path of workerd (default: the one of the package workerd)")
    .option("--check", "check the server that runs on --data; exit code 1 unless it is healthy")
    .action(
      action<ServeOptions, []>(async (invocation, options) =>
        options.check === true
          ? await check(invocation, options.data)
          : await serve(invocation, options),
      ),
    );
  addJsonOption(command);
}

/** Reads `--data`. An empty path, as of a variable that is not set, would be the current folder. @throws InvalidArgumentError */
function folderArgument(text: string): string {
  if (text !== "") return text;
  throw new InvalidArgumentError("Expected the path of a folder.");
}

/**
 * `--check`: asks the server of the folder for its health. Needs no address: the folder's socket
 * tells it.
 */
async function check({ output }: Invocation, dataFolder: string): Promise<ExitCode> {
  const { url, refusal } = await checked(dataFolder);
  await output.print({ url, healthy: refusal === null, detail: refusal }, () =>
    refusal === null ? `${url} is healthy` : refusal,
  );
  return refusal === null ? ExitCode.done : ExitCode.refused;
}

/** The address of the server of a folder, if it is ready, and why it is not healthy, if so. */
async function checked(folder: string): Promise<{ url: string | null; refusal: string | null }> {
  let url: string | null;
  try {
    url = (await askServer(resolve(folder)))?.url ?? null;
  } catch (error) {
    // Most likely the server belongs to another user, who alone may connect to its socket.
    return { url: null, refusal: (error as Error).message };
  }
  if (url === null) return { url, refusal: `no server is ready on ${folder}` };
  return { url, refusal: await health(url, AbortSignal.timeout(HEALTH_TIMEOUT_MS)) };
}

/** Runs the steps of a start, then serves. The order keeps data safe: see the head of this file. */
async function serve(
  { host, output, signal }: Invocation,
  options: ServeOptions,
): Promise<ExitCode> {
  outliveReaders(host);
  const { http = [HTTP_UNLESS_GIVEN], tcp = [], var: variables = [], drainTimeout } = options;
  const flags = { ...options, http, tcp, var: variables };
  const plan = planOf(flags, host.environment, openFilesMax());
  const workerd = findWorkerd(options.workerd);
  const events = new Events(output);
  for (const warning of plan.warnings) events.tell("warning", { detail: warning }, warning);
  const data = await DataFolder.open(plan.dataFolder, drainTimeout, signal);
  if (data === null) {
    const text = "stopped before it started workerd: one whose serve was killed is still draining";
    events.tell("ended", { exitCode: ExitCode.done }, text);
    return ExitCode.done;
  }
  try {
    for (const pid of data.endedOrphans) tellOrphan(events, pid);
    tellRemoved(events, await removeEmptyObjects(data.objectsFolder));
    return await untilEnded((http) => ServerProcess.start(workerd, plan, http, data), {
      plan,
      events,
      signal,
      drainTimeoutMs: drainTimeout,
      restartPausesMs: RESTART_PAUSES_MS,
    });
  } finally {
    data.close();
  }
}

/** Reports how many objects a start has removed; says nothing for none. */
function tellRemoved(events: Events, objects: number): void {
  if (objects === 0) return;
  const detail = `removed the files of ${objects} objects that held nothing`;
  events.tell("objects_removed", { objects }, detail);
}

/** Reports an orphan that this start has ended. */
function tellOrphan(events: Events, pid: number): void {
  const detail = `ended workerd, process ${pid}: it still used the data folder after its serve was killed`;
  events.tell("warning", { detail }, detail);
}
