/** Starts `wrangler dev`: for `npm start`, the crash test and the benchmark. */
import { spawn, type ChildProcess, type StdioOptions } from "node:child_process";
import { existsSync, openSync, readFileSync } from "node:fs";
import { connect, createServer } from "node:net";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { childExitCode } from "../src/cli/exit-code.ts";
import { onNpmEnd } from "../src/cli/npm-end.ts";
import { portHolder } from "../src/cli/serve/port-holder.ts";
import { ownRegistry } from "./dev-registry.ts";

export const ROOT = fileURLToPath(new URL("..", import.meta.url));

/** The TCP ports of `wrangler.toml`. */
export const TCP_PORTS = [9000, 9001, 9002, 9004, 9008, 9020, 11215, 11216];

export interface ServerOptions {
  /** Configuration file; the project's own by default. */
  config?: string;
  /** Configuration files of Workers that run beside it, for service bindings. */
  beside?: readonly string[];
  /** HTTP port, 8787 by default. TCP ports are those of the configuration. */
  port?: number;
  /** Folder where data is kept; `.wrangler/state` by default. */
  persistTo?: string;
  /**
   * Variables that differ from the configuration's. `ACCESS` is `open`, `OPEN_NAMESPACES` `any`, `YRMCDS_ENABLE` `on`
   * and `HOSTS` `localhost` unless said otherwise.
   */
  variables?: Readonly<Record<string, string>>;
  /** Environment of the process, beside this one's. */
  environment?: Readonly<Record<string, string>>;
  stdio?: StdioOptions;
  /** It shares the terminal, and signals that come from there; else it has a group of its own. */
  isForeground?: boolean;
  /** `shared`: other projects of the user reach the server by service bindings. */
  registry?: "own" | "shared";
}

export interface Server {
  process: ChildProcess;
  /** Sends SIGKILL to the server and everything it started, and does not wait. */
  killNow(): void;
  /** Ends the server and everything it started, at once; resolves when all of it is gone. */
  kill(): Promise<void>;
}

/**
 * `wrangler dev` writes a trace of every event to a database, in the thread that serves: with a small
 * batch per event that takes most of the time. Its explorer writes a row whenever an object starts.
 */
const LEAN = { X_LOCAL_OBSERVABILITY: "false", X_LOCAL_EXPLORER: "false" };

/** Variables of a server inside a Worker that lets anyone on this machine in, as `npm start` does. */
export const OPEN_INSIDE = {
  THROTTR_ACCESS: "open",
  THROTTR_OPEN_NAMESPACES: "any",
  THROTTR_HOSTS: "localhost",
};

/** How long the ended processes may take to leave. */
const GONE_TIMEOUT_MS = 2000;

export function startServer(options: ServerOptions = {}): Server {
  const variables = {
    ACCESS: "open",
    OPEN_NAMESPACES: "any",
    YRMCDS_ENABLE: "on",
    // One thread serves all shards here.
    SPLIT_CALLS_PER_SECOND: "0",
    ...(hasOwnHosts(options.config) ? {} : { HOSTS: "localhost" }),
    ...options.variables,
  };
  const args = [
    `${ROOT}node_modules/wrangler/bin/wrangler.js`,
    "dev",
    "--ip=127.0.0.1",
    `--port=${options.port ?? 8787}`,
    "--inspector-port=0",
    "--show-interactive-dev-session=false",
    "--log-level=warn",
    ...(options.config === undefined ? [] : [`--config=${options.config}`]),
    ...(options.beside ?? []).map((config) => `--config=${config}`),
    ...(options.persistTo === undefined ? [] : [`--persist-to=${options.persistTo}`]),
    ...Object.entries(variables).map(([name, value]) => `--var=${name}:${value}`),
  ];
  // A group of its own: the runtime is a child of wrangler and must end with it.
  const ownsGroup = options.isForeground !== true;
  const registry = join(options.persistTo ?? join(ROOT, ".wrangler"), "registry");
  const child = spawn(process.execPath, args, {
    cwd: ROOT,
    stdio: options.stdio ?? ["ignore", "ignore", logOf(process.env.SERVER_LOG)],
    detached: ownsGroup,
    env: {
      ...LEAN,
      ...process.env,
      WRANGLER_SEND_METRICS: "false",
      // What a request's `cf` would be is looked up on the internet; nothing here reads it.
      CLOUDFLARE_CF_FETCH_ENABLED: "false",
      CI: "true",
      ...(options.registry === "shared" ? {} : ownRegistry(registry)),
      ...options.environment,
    },
  });
  const ended = new Promise<void>((resolve) => child.once("exit", () => resolve()));
  const killNow = (): void => void signal(child, ownsGroup, "SIGKILL");
  return {
    process: child,
    killNow,
    kill: async () => {
      killNow();
      await ended;
      // The runtime must be gone before its files and ports are used again. A container whose first
      // process reaps nothing keeps the dead ones for ever; they hold nothing any more.
      const deadline = performance.now() + GONE_TIMEOUT_MS;
      while (signal(child, ownsGroup, 0) && performance.now() < deadline) {
        await new Promise((resolve) => setTimeout(resolve, 10));
      }
    },
  };
}

/** A file to append to, by its path; without one, the standard error of this process. */
function logOf(path: string | undefined): number | "inherit" {
  return path === undefined ? "inherit" : openSync(path, "a");
}

/** Whether `.dev.vars`, beside a configuration, says which names the server answers to: an argument would win. */
function hasOwnHosts(config = `${ROOT}wrangler.toml`): boolean {
  const path = join(dirname(config), ".dev.vars");
  return existsSync(path) && /^\s*HOSTS\s*=/m.test(readFileSync(path, "utf8"));
}

/** Sends a signal to a server's process, or to its group; 0 only asks. False when nobody is there. */
function signal(child: ChildProcess, toGroup: boolean, name: "SIGKILL" | 0): boolean {
  if (child.pid === undefined) return false;
  if (!toGroup) return child.exitCode === null && child.signalCode === null && child.kill(name);
  try {
    return process.kill(-child.pid, name);
  } catch {
    return false;
  }
}

/** How long a server that is given up may take to end the runtime. */
const END_TIMEOUT_MS = 10_000;

/**
 * Waits until a server is ready, as `waitUntilReady`. One that does not get ready is ended, and this process with it: exit
 * code 1.
 *
 * @returns whether it is ready
 */
export async function getReady(
  { process: child }: Pick<Server, "process">,
  ...[port, tcpPorts, timeoutMs]: Parameters<typeof waitUntilReady>
): Promise<boolean> {
  try {
    await waitUntilReady(port, tcpPorts, timeoutMs);
    return true;
  } catch (error) {
    console.error(`The server did not get ready: ${String((error as Error).cause ?? error)}`);
    process.exitCode = 1;
    // wrangler ends its runtime with it.
    child.kill("SIGTERM");
    setTimeout(() => child.kill("SIGKILL"), END_TIMEOUT_MS).unref();
    return false;
  }
}

/** Ends a server with this process, and this process with the server and its exit code, unless it has one already. */
export function endWithSignals({ process: child }: Pick<Server, "process">): void {
  for (const name of ["SIGINT", "SIGTERM"] as const) process.on(name, () => child.kill(name));
  const end = (): void => void child.kill("SIGTERM");
  // It comes when the terminal is closed, and wrangler does not know it.
  process.on("SIGHUP", end);
  child.on("exit", (code, signal) => process.exit(process.exitCode ?? childExitCode(code, signal)));
  onNpmEnd(end);
}

/**
 * Ends the process with a message when a port is taken: what answers there would be taken for the server
 * that is about to start.
 *
 * @param wayOut beside ending what listens there
 */
export async function assertPortsFree(ports: readonly number[], wayOut?: string): Promise<void> {
  for (const port of ports) {
    if (await isFree(port)) continue;
    const holder = portHolder(port);
    const by = holder === null ? "" : ` by ${holder}`;
    const hint = wayOut === undefined ? "" : `, ${wayOut}`;
    console.error(`127.0.0.1:${port} is taken${by}: end it, and start again${hint}.`);
    process.exit(1);
  }
}

async function isFree(port: number): Promise<boolean> {
  const server = createServer();
  const { promise, resolve } = Promise.withResolvers<boolean>();
  server.once("error", () => resolve(false));
  server.listen(port, "127.0.0.1", () => server.close(() => resolve(true)));
  return await promise;
}

/** Waits until a server answers `GET /health` at a port and accepts connections at others. */
export async function waitUntilReady(
  port: number,
  tcpPorts: readonly number[],
  timeoutMs = 60_000,
  url = `http://127.0.0.1:${port}`,
): Promise<void> {
  const deadline = performance.now() + timeoutMs;
  for (;;) {
    try {
      const response = await fetch(`${url}/health`, {
        signal: AbortSignal.timeout(5000),
      });
      await response.arrayBuffer();
      await Promise.all(tcpPorts.map(tryConnect));
      return;
    } catch (error) {
      if (performance.now() > deadline) throw error;
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
  }
}

function tryConnect(port: number): Promise<void> {
  return new Promise((resolve, reject) => {
    const socket = connect(port, "127.0.0.1");
    socket.once("connect", () => {
      socket.destroy();
      resolve();
    });
    socket.once("error", reject);
  });
}

/** The table of the configuration that serves the dashboard. */
const ASSETS_TABLE = /^\[assets\]\n(?:[a-z].*\n?)*/m;

/** The table that builds the dashboard whenever a server starts. wrangler runs the command where it was started. */
const BUILD_TABLE = `[build]
command = "npx --no node scripts/build-dashboard.ts"
cwd = ${JSON.stringify(ROOT)}
`;

/**
 * The project's configuration with other ports, as text: several servers can run side by side. It has
 * no dashboard, and so nothing to build.
 *
 * @param tcpPorts by the port that they stand in for; the others are not opened
 * @param main the Worker's entry; the project's own by default
 */
export function configWithPorts(
  tcpPorts: Readonly<Record<number, number>>,
  main = `${ROOT}src/worker/index.ts`,
): string {
  return withPorts(projectConfig(), tcpPorts)
    .replace(ASSETS_TABLE, "")
    .replace(/^main = .*/m, () => `main = ${JSON.stringify(main)}`);
}

/** The project's configuration for `npm start`, as text, to be stored beside it: the dashboard follows its sources. */
export function configForStart(tcpPorts: Readonly<Record<number, number>>): string {
  const build = `${BUILD_TABLE}watch_dir = "src"\n\n`;
  const config = withPorts(projectConfig(), tcpPorts).replace(
    ASSETS_TABLE,
    (table) => build + table,
  );
  return `# Made of wrangler.toml by npm start.\n${config}`;
}

function withPorts(config: string, tcpPorts: Readonly<Record<number, number>>): string {
  return config
    .replace(/^\[\[connect\]\]\nprotocol = "tcp"\nport = (\d+)\n/gm, (block, port: string) => {
      const other = tcpPorts[Number(port)];
      return other === undefined ? "" : block.replace(port, String(other));
    })
    .replace(/^TCP_PORTS = .*/m, (line) =>
      line.replace(/\d+(?==)/g, (port) => String(tcpPorts[Number(port)] ?? port)),
    );
}

/** What a configuration of another folder needs besides, to build and serve the dashboard. */
export function dashboardConfig(): string {
  const [assets] = ASSETS_TABLE.exec(projectConfig())!;
  const directory = assets.replace(/^directory = "(.*)"/m, (_, path: string) => {
    return `directory = ${JSON.stringify(ROOT + path)}`;
  });
  return `${BUILD_TABLE}\n${directory}`;
}

const projectConfig = (): string => readFileSync(`${ROOT}wrangler.toml`, "utf8");
