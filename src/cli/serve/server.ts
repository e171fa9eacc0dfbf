/** A server as a process: workerd, from its start until it has ended. */
import { spawn, type ChildProcess } from "node:child_process";
import { existsSync } from "node:fs";
import { dirname, join } from "node:path";
import { createInterface } from "node:readline";
import type { Readable } from "node:stream";
import { fileURLToPath } from "node:url";
import { UsageError } from "../failure.ts";
import { reachableUrl, type Address } from "./address.ts";
import { assetsIn } from "./assets.ts";
import {
  CONFIGURATION_NAME,
  configurationText,
  httpSocketName,
  WORKER_FILE,
  type Serving,
} from "./configuration.ts";
import type { DataFolder } from "./data-folder.ts";
import { health } from "./health.ts";
import { LogLines } from "./log-lines.ts";
import { portHolder } from "./port-holder.ts";
import type { ServePlan } from "./plan.ts";

/** Files of the dashboard, as they are served, beside the Worker. */
const ASSETS_FOLDER = "assets";
/** The pipe by which workerd says which ports are open. */
const CONTROL_FD = 3;
/** How long workerd may take to open its ports: it reads and compiles the Worker before. */
const READY_TIMEOUT_MS = 30_000;
/** As shells say that a program was there and could not be started. */
const NOT_STARTED_EXIT_CODE = 126;
/** Exit codes of what a signal has ended are those of shells. */
const SIGNAL_EXIT_CODE = 128;
const SIGNAL_NUMBERS: Readonly<Record<string, number>> = {
  SIGHUP: 1,
  SIGINT: 2,
  SIGILL: 4,
  SIGABRT: 6,
  SIGBUS: 7,
  SIGKILL: 9,
  SIGSEGV: 11,
  SIGTERM: 15,
};

/** A server that answers. */
export interface Readiness {
  readonly http: readonly Address[];
  /** What it says of its health; null when it is well. */
  readonly ailment: string | null;
}

/** A server that has ended, or does not answer, does not get ready. */
export class NotReady extends Error {}

export class ServerProcess {
  /** Its exit code, once it has ended. */
  readonly ended: Promise<number>;
  readonly #child: ChildProcess;
  readonly #data: DataFolder;
  readonly #plan: ServePlan;
  #isStopping = false;
  readonly #killAtExit = (): void => this.kill();

  private constructor(child: ChildProcess, data: DataFolder, plan: ServePlan) {
    this.#child = child;
    this.#data = data;
    this.#plan = plan;
    this.ended = new Promise((resolve) => {
      const end = (exitCode: number): void => {
        process.off("exit", this.#killAtExit);
        data.describe({ workerdPid: null, url: null });
        resolve(exitCode);
      };
      // Not "exit": its last lines are read before.
      child.once("close", (code, signal) => end(this.#exitCode(code, signal)));
      child.once("error", () => end(NOT_STARTED_EXIT_CODE));
    });
    process.on("exit", this.#killAtExit);
  }

  /**
   * Starts workerd.
   *
   * @param workerd path of its program
   * @throws UsageError `worker_missing` where the package has not been built
   */
  static start(workerd: string, plan: ServePlan, data: DataFolder): ServerProcess {
    const worker = distributedWorker();
    if (worker === null) {
      throw new UsageError("worker_missing", "dist/worker.js is missing: run npm run build");
    }
    const packageFolder = dirname(worker);
    const serving: Serving = {
      ...plan,
      secretNames: Object.keys(plan.secrets),
      objectsFolder: data.objectsFolder,
      packageFolder,
      assets: assetsIn(join(packageFolder, ASSETS_FOLDER)),
    };
    const configuration = data.storeConfiguration(configurationText(serving));
    const args = ["serve", configuration, CONFIGURATION_NAME, `--import-path=${packageFolder}`];
    const child = spawn(workerd, [...args, `--control-fd=${CONTROL_FD}`], {
      // By number: 1 and 2 are its log, the last three are `CONTROL_FD` and what `orphans.ts` looks for.
      stdio: ["ignore", "pipe", "pipe", "pipe", data.claimFd, data.fd],
      env: { ...process.env, ...plan.secrets },
      // A group of its own: SIGINT of a terminal, which ends workerd at once, comes to this process only.
      detached: true,
    });
    const lines = new LogLines(`${worker}.map`);
    lines.copy(child.stdout!, process.stdout);
    lines.copy(child.stderr!, process.stderr);
    return new ServerProcess(child, data, plan);
  }

  get pid(): number | undefined {
    return this.#child.pid;
  }

  /**
   * Waits until all ports are open and the server answers.
   *
   * @returns addresses of HTTP, with the ports that the system has chosen, and what is not well: one damaged
   * file must not keep the server from serving what is in the others
   * @throws NotReady when workerd ends before, or takes too long
   */
  async ready(): Promise<Readiness> {
    const socketCount = this.#plan.http.length + this.#plan.tcp.length;
    const timeout = AbortSignal.timeout(READY_TIMEOUT_MS);
    const ports = await this.#inTime(openedPorts(this.#child, socketCount), timeout);
    const http = this.#plan.http.map((address) => ({
      ...address,
      port: ports.get(httpSocketName(address)) ?? address.port,
    }));
    const url = reachableUrl(http[0]!);
    const refusal = await this.#inTime(health(url, timeout), timeout);
    this.#data.describe({ workerdPid: this.#child.pid ?? null, url });
    return { http, ailment: refusal === null ? null : `${url}/health: ${refusal}` };
  }

  /** It was asked to stop. */
  get isStopping(): boolean {
    return this.#isStopping;
  }

  /** Ends workerd at once. */
  kill(): void {
    this.#child.kill("SIGKILL");
  }

  /**
   * Ends workerd: no more connections, and answers to what is under way.
   *
   * @param drainTimeoutMs after which it is killed: channels and sockets may stay open for ever
   */
  stop(drainTimeoutMs: number): void {
    if (this.#isStopping) return;
    this.#isStopping = true;
    this.#child.kill("SIGTERM");
    const timer = setTimeout(() => this.kill(), drainTimeoutMs);
    void this.ended.then(() => clearTimeout(timer));
  }

  #exitCode(code: number | null, signal: NodeJS.Signals | null): number {
    if (this.#isStopping) return 0;
    return code ?? SIGNAL_EXIT_CODE + (SIGNAL_NUMBERS[signal ?? ""] ?? 0);
  }

  /** Ports that another process has: workerd says which is taken, not by whom. */
  #takenPorts(): string[] {
    return [...this.#plan.http, ...this.#plan.tcp].flatMap(({ port }) => {
      const holder = port === 0 ? null : portHolder(port);
      return holder === null ? [] : [`port ${port} is taken by ${holder}`];
    });
  }

  async #inTime<T>(result: Promise<T>, timeout: AbortSignal): Promise<T> {
    const failed = Promise.withResolvers<never>();
    timeout.addEventListener("abort", () =>
      failed.reject(new NotReady(`workerd was not ready within ${READY_TIMEOUT_MS} ms`)),
    );
    const ended = this.ended.then((code) => {
      const reasons = [
        `workerd ended with ${code} before the server was ready`,
        ...this.#takenPorts(),
      ];
      throw new NotReady(reasons.join("; "));
    });
    return await Promise.race([result, ended, failed.promise]);
  }
}

/** The built Worker: beside this file when it is part of the package, else in the checkout. */
function distributedWorker(): string | null {
  const places = [`./${WORKER_FILE}`, `../../../dist/${WORKER_FILE}`];
  const paths = places.map((place) => fileURLToPath(new URL(place, import.meta.url)));
  return paths.find((path) => existsSync(path)) ?? null;
}

/** Ports of sockets by their names, once all of them listen. */
async function openedPorts(child: ChildProcess, socketCount: number): Promise<Map<string, number>> {
  const ports = new Map<string, number>();
  for await (const line of createInterface({ input: child.stdio[CONTROL_FD] as Readable })) {
    const { event, socket, port } = JSON.parse(line) as Record<string, unknown>;
    if (event === "listen") ports.set(String(socket), Number(port));
    if (ports.size === socketCount) return ports;
  }
  // It ends: whoever waits for that will say so.
  return await new Promise(() => {});
}
