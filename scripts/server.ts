/** Starts `wrangler dev`: for `npm start`, the crash test and the benchmark. */
import { spawn, type ChildProcess, type StdioOptions } from "node:child_process";
import { readFileSync } from "node:fs";
import { connect } from "node:net";
import { fileURLToPath } from "node:url";

export const ROOT = fileURLToPath(new URL("..", import.meta.url));

export interface ServerOptions {
  /** Configuration file; the project's own by default. */
  config?: string;
  /** HTTP port, 8787 by default. TCP ports are those of the configuration. */
  port?: number;
  /** Folder where data is kept; `.wrangler/state` by default. */
  persistTo?: string;
  /** Variables that differ from the configuration's. `ACCESS` is `open` unless said otherwise. */
  variables?: Readonly<Record<string, string>>;
  stdio?: StdioOptions;
}

export interface Server {
  process: ChildProcess;
  /** Ends the server and everything it started, at once. */
  kill(): Promise<void>;
}

export function startServer(options: ServerOptions = {}): Server {
  const variables = { ACCESS: "open", ...options.variables };
  const args = [
    `${ROOT}node_modules/wrangler/bin/wrangler.js`,
    "dev",
    "--ip=127.0.0.1",
    `--port=${options.port ?? 8787}`,
    "--inspector-port=0",
    "--show-interactive-dev-session=false",
    "--log-level=warn",
    ...(options.config === undefined ? [] : [`--config=${options.config}`]),
    ...(options.persistTo === undefined ? [] : [`--persist-to=${options.persistTo}`]),
    ...Object.entries(variables).map(([name, value]) => `--var=${name}:${value}`),
  ];
  const child = spawn(process.execPath, args, {
    cwd: ROOT,
    stdio: options.stdio ?? ["ignore", "ignore", "inherit"],
    // A group of its own: the runtime is a child of wrangler and must end with it.
    detached: options.stdio !== "inherit",
    env: { ...process.env, WRANGLER_SEND_METRICS: "false", CI: "true" },
  });
  return {
    process: child,
    kill: async () => {
      const ended = new Promise((resolve) => child.once("exit", resolve));
      if (child.exitCode !== null || child.signalCode !== null) return;
      process.kill(-child.pid!, "SIGKILL");
      await ended;
    },
  };
}

/** Waits until a server answers `GET /health` at a port and accepts connections at others. */
export async function waitUntilReady(port: number, tcpPorts: readonly number[], timeoutMs = 60_000): Promise<void> {
  const deadline = performance.now() + timeoutMs;
  for (;;) {
    try {
      const response = await fetch(`http://127.0.0.1:${port}/health`);
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

/** The project's configuration with other ports, as text: several servers can run side by side. */
export function configWithPorts(tcpPorts: Readonly<Record<number, number>>): string {
  return readFileSync(`${ROOT}wrangler.toml`, "utf8")
    .replace(/^main = "(.*)"/m, (_, main: string) => `main = ${JSON.stringify(ROOT + main)}`)
    .replace(/^port = (\d+)/gm, (_, port: string) => `port = ${tcpPorts[Number(port)] ?? 0}`);
}
