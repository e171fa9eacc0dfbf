/**
 * The server as a process: workerd, from its start to its end.
 *
 * workerd drains on SIGTERM for as long as its connections last, and reports open ports through a pipe. This class sets a
 * limit to the one, and reads the other; restarts
 * are decided in `until-ended.ts`.
 */
import { spawn, type ChildProcess } from "node:child_process";
import { join } from "node:path";
import { createInterface } from "node:readline";
import type { Readable } from "node:stream";
import { childExitCode } from "../exit-code.ts";
import { aborted } from "../interruption.ts";
import { ASSETS_FOLDER, packageFolder, WORKER_FILE } from "../package-folder.ts";
import { addressText, reachableUrl, type Address } from "./address.ts";
import { assetsIn } from "./assets.ts";
import {
  CONFIGURATION_NAME,
  configurationText,
  httpSocketName,
  type Serving,
} from "./configuration.ts";
import type { DataFolder } from "./data-folder.ts";
import { health } from "./health.ts";
import { LogLines } from "./log-lines.ts";
import { portHolder } from "./port-holder.ts";
import type { ServePlan } from "./plan.ts";

/** The pipe through which workerd reports open ports. */
const CONTROL_FD = 3;
/** How long workerd may take to open its ports: it reads and compiles the Worker first. */
const READY_TIMEOUT_MS = 30_000;
/** The exit code of shells for a program that exists and could not be started. */
const NOT_STARTED_EXIT_CODE = 126;
/** What a ready server reports. */
export interface Readiness {
  readonly http: readonly Address[];
  /** What its health check found; null when it is healthy. */
  readonly ailment: string | null;
}

/** The server ended, or did not answer in time, before it was ready. */
export class NotReady extends Error {}

export class ServerProcess {
  /** Its exit code, once it has ended. */
  readonly ended: Promise<number>;
  /** The process of workerd, in a process group of its own. */
  readonly #child: ChildProcess;
  /** The folder that workerd writes to; its claim says which process that is. */
  readonly #data: DataFolder;
  readonly #plan: ServePlan;
  /** What it listens on for HTTP; port 0 where the system chooses. */
  readonly #http: readonly Address[];
  /** An end that was asked for counts as exit code 0, whatever signal ended it. */
  #isStopping = false;
  /**
   * Ends workerd when this process exits by itself, as after an error; a SIGKILL of this process
   * leaves an orphan.
   */
  readonly #killAtExit = (): void => this.kill();

  private constructor(
    child: ChildProcess,
    data: DataFolder,
    plan: ServePlan,
    http: readonly Address[],
  ) {
    this.#child = child;
    this.#data = data;
    this.#plan = plan;
    this.#http = http;
    this.ended = new Promise((resolve) => {
      const end = (exitCode: number): void => {
        process.off("exit", this.#killAtExit);
        data.describe({ workerdPid: null, url: null });
        resolve(exitCode);
      };
      // Not the event "exit": "close" comes after the last lines of the log were read.
      child.once("close", (code, signal) =>
        end(this.#isStopping ? 0 : childExitCode(code, signal)),
      );
      child.once("error", () => end(NOT_STARTED_EXIT_CODE));
    });
    process.on("exit", this.#killAtExit);
  }

  /**
   * Starts workerd.
   *
   * @param workerd path of its program
   * @param http addresses of the plan; a port that the plan leaves to the system may be chosen already. The configuration stays
   *   the same then, as a full disk could not take another one
   * @throws UsageError `worker_missing` where the package has not been built
   */
  static start(
    workerd: string,
    plan: ServePlan,
    http: readonly Address[],
    data: DataFolder,
  ): ServerProcess {
    const folder = packageFolder();
    const serving: Serving = {
      ...plan,
      secretNames: Object.keys(plan.secrets),
      objectsFolder: data.objectsFolder,
      packageFolder: folder,
      assets: assetsIn(join(folder, ASSETS_FOLDER)),
    };
    const configuration = data.storeConfiguration(configurationText(serving));
    const args = [
      "serve",
      configuration,
      CONFIGURATION_NAME,
      `--import-path=${folder}`,
      ...plan.http.map(
        (address, at) => `--socket-addr=${httpSocketName(address)}=${addressText(http[at]!)}`,
      ),
    ];
    const child = spawn(workerd, [...args, `--control-fd=${CONTROL_FD}`], {
      // By number: 1 and 2 are the log, 3 is `CONTROL_FD`, 4 and 5 are how `orphans.ts` recognizes workerd.
      stdio: ["ignore", "pipe", "pipe", "pipe", data.claimFd, data.fd],
      env: { ...process.env, ...plan.secrets },
      // A process group of its own: Ctrl-C in a terminal goes to the whole group, and would end workerd without draining.
      detached: true,
    });
    const lines = new LogLines(join(folder, `${WORKER_FILE}.map`));
    // Through this process rather than inherited, as places in the built Worker are translated.
    const finishings = [
      lines.copy(child.stdout!, process.stdout),
      lines.copy(child.stderr!, process.stderr),
    ];
    // The event "close" comes when both streams were read.
    child.once("exit", () => finishings.forEach((finish) => finish()));
    return new ServerProcess(child, data, plan, http);
  }

  /** Undefined where the program could not be started. */
  get pid(): number | undefined {
    return this.#child.pid;
  }

  /**
   * Waits until all ports are open and the server answers.
   *
   * @returns the HTTP addresses, with the ports that the system chose, and a failed health check. That is no reason to stop:
   *   one damaged file must not keep the server from serving the others
   * @throws NotReady when workerd ends before, or takes too long
   */
  async ready(): Promise<Readiness> {
    const socketCount = this.#plan.http.length + this.#plan.tcp.length;
    const timeout = AbortSignal.timeout(READY_TIMEOUT_MS);
    const ports = await this.#inTime(openedPorts(this.#child, socketCount), timeout);
    // Port 0 becomes the port that the system chose; a restart asks for the same one again.
    const http = this.#plan.http.map((address) => ({
      ...address,
      port: ports.get(httpSocketName(address)) ?? address.port,
    }));
    const url = reachableUrl(http[0]!);
    const refusal = await this.#inTime(health(url, timeout), timeout);
    this.#data.describe({ workerdPid: this.#child.pid ?? null, url });
    return { http, ailment: refusal === null ? null : `${url}/health: ${refusal}` };
  }

  /** Whether the server was asked to stop. */
  get isStopping(): boolean {
    return this.#isStopping;
  }

  /** Ends workerd at once. */
  kill(): void {
    this.#child.kill("SIGKILL");
  }

  /**
   * Stops workerd: it accepts no more connections, and answers the requests under way.
   *
   * @param drainTimeoutMs after which it is killed, as channels and sockets may stay open forever
   */
  stop(drainTimeoutMs: number): void {
    if (this.#isStopping) return;
    this.#isStopping = true;
    this.#child.kill("SIGTERM");
    // workerd waits for all connections to close, and a WebSocket may stay open for days.
    const timer = setTimeout(() => this.kill(), drainTimeoutMs);
    void this.ended.then(() => clearTimeout(timer));
  }

  /** Ports that other processes use: workerd names the port, but not the process. */
  #takenPorts(): string[] {
    return [...this.#http, ...this.#plan.tcp].flatMap(({ port }) => {
      const holder = port === 0 ? null : portHolder(port);
      return holder === null ? [] : [`port ${port} is taken by ${holder}`];
    });
  }

  /** The result, unless workerd ends or the time is over before. @throws NotReady */
  async #inTime<T>(result: Promise<T>, timeout: AbortSignal): Promise<T> {
    const late = aborted(timeout).then(() => {
      throw new NotReady(`workerd was not ready within ${READY_TIMEOUT_MS} ms`);
    });
    const ended = this.ended.then((code) => {
      const reasons = [
        `workerd ended with ${code} before the server was ready`,
        ...this.#takenPorts(),
      ];
      throw new NotReady(reasons.join("; "));
    });
    return await Promise.race([result, ended, late]);
  }
}

/** Ports by the names of their sockets, once all of them listen. */
async function openedPorts(child: ChildProcess, socketCount: number): Promise<Map<string, number>> {
  const ports = new Map<string, number>();
  // workerd writes a line of JSON for each event; only `listen` is of interest here.
  for await (const line of createInterface({ input: child.stdio[CONTROL_FD] as Readable })) {
    const { event, socket, port } = JSON.parse(line) as Record<string, unknown>;
    if (event === "listen") ports.set(String(socket), Number(port));
    if (ports.size === socketCount) return ports;
  }
  // workerd closed the pipe, so it is ending: `#inTime` reports that, with the exit code.
  return await new Promise(() => {});
}
