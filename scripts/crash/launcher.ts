/** The two ways to run the server that the crash test kills: `wrangler dev`, as in `npm start`, and the packaged server. */
import { spawnSync, type ChildProcess } from "node:child_process";
import { ROOT, waitUntilReady } from "../server.ts";

/** `start`: what `npm start` runs. `serve`: `throttr-edge serve`. */
export const SERVER_KINDS = ["start", "serve"] as const;
export type ServerKind = (typeof SERVER_KINDS)[number];

/** What a server is started with. */
export interface Launch {
  readonly httpPort: number;
  /** By the port of `wrangler.toml` that they stand in for. */
  readonly tcpPorts: Readonly<Record<number, number>>;
  readonly variables: Readonly<Record<string, string>>;
  /** Where builds go; it exists. */
  readonly buildFolder: string;
  /** Where the server keeps its data. */
  readonly stateFolder: string;
  /** Environment of the server and of builds, beside this process's. */
  readonly environment: Readonly<Record<string, string>>;
}

export interface Launcher {
  /** Where the databases of the shards are. */
  readonly shardsFolder: string;
  /** Builds the server once, so that every start runs the same code whatever happens to the sources meanwhile. */
  build(): void;
  /** Starts the server on the files that are there, and does not wait until it is ready. */
  start(): Running;
}

export interface Running {
  /** Resolves when the server answers; fails when it has ended before. */
  ready(): Promise<void>;
  /** Sends SIGKILL to the server and everything it started, and does not wait. */
  killNow(): void;
  /** Ends the server and everything it started, at once; resolves when all of it is gone. */
  kill(): Promise<void>;
  /** What it has printed. */
  log(): string;
  /** The process that was started. */
  readonly process: Pick<ChildProcess, "exitCode" | "signalCode">;
}

/** Whether its process runs, or how it ended, to follow "the server": `was running`, `had ended with exit code 1`. */
export function stateOf({ process: { exitCode, signalCode } }: Running): string {
  if (signalCode !== null) return `had been ended by ${signalCode}`;
  return exitCode === null ? "was running" : `had ended with exit code ${exitCode}`;
}

/** Waits until a server answers at its ports, unless it ends before. */
export async function untilReady(
  { httpPort, tcpPorts }: Launch,
  ended: Promise<unknown>,
): Promise<void> {
  const isEnded = ended.then(() => {
    throw new Error("the server ended while it started");
  });
  await Promise.race([waitUntilReady(httpPort, Object.values(tcpPorts)), isEnded]);
}

/** @throws Error with what the tool printed when a build fails */
export function runBuild(args: readonly string[], environment: Launch["environment"]): void {
  const { status, stderr, stdout } = spawnSync(process.execPath, args, {
    cwd: ROOT,
    encoding: "utf8",
    env: { ...process.env, ...environment },
  });
  if (status !== 0) throw new Error(`the server could not be built:\n${stdout}${stderr}`);
}
