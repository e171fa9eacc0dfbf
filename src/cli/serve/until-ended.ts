/**
 * The life of a server: workerd is started, started again when it ends by itself, and stopped on a signal.
 *
 * workerd ends with all its connections when a limit of the system is reached, such as that of open files. A restart brings
 * the service back without an operator; pauses that grow keep a broken start from using up the machine.
 */
import { setTimeout as sleep } from "node:timers/promises";
import type { ExitCode } from "../exit-code.ts";
import { addressText, type Address } from "./address.ts";
import type { Events } from "./events.ts";
import type { ServePlan } from "./plan.ts";
import { NotReady, type ServerProcess } from "./server.ts";

/** Pauses before restarts in a row, after workerd ended soon each time. */
export const RESTART_PAUSES_MS: readonly number[] = [
  250, 500, 1000, 2000, 4000, 8000, 15_000, 30_000, 30_000, 30_000,
];
/** After running so long, workerd did not end because of its start: pauses begin anew. */
const LONG_LIFE_MS = 60_000;

/** The circumstances of a server. */
export interface Life {
  readonly plan: ServePlan;
  readonly events: Events;
  /** Aborted when the server is asked to stop. */
  readonly signal: AbortSignal;
  readonly drainTimeoutMs: number;
  /** Without a further pause the server ends for good. */
  readonly restartPausesMs: readonly number[];
}

/** The part of `ServerProcess` that is needed here; tests pass their own. */
type Workerd = Pick<ServerProcess, "ended" | "pid" | "isStopping" | "ready" | "stop" | "kill">;

/** Starts workerd; after its first start at the HTTP addresses that were opened then. */
type Start = (http: readonly Address[]) => Workerd;

/**
 * Serves until it is asked to stop, or workerd does not become ready the first time, or ends too often in a row.
 *
 * @returns 0 when it was asked to stop, else the exit code of workerd
 */
export async function untilEnded(start: Start, life: Life): Promise<ExitCode> {
  const keeper = new Keeper(start, life);
  const stop = (): void => keeper.stop();
  life.signal.addEventListener("abort", stop);
  // SIGHUP comes when the terminal is closed.
  process.on("SIGHUP", stop);
  try {
    if (life.signal.aborted) stop();
    const exitCode = await keeper.run();
    life.events.tell("ended", { exitCode }, `workerd ended with exit code ${exitCode}`);
    return exitCode;
  } catch (error) {
    // The folder is released next: no process may still write to it.
    await keeper.kill();
    throw error;
  } finally {
    life.signal.removeEventListener("abort", stop);
    process.off("SIGHUP", stop);
  }
}

/** Keeps one workerd running: starts, announces, restarts and stops it. */
class Keeper {
  readonly #start: Start;
  readonly #life: Life;
  /** Aborted by `stop`; also ends a pause between two starts. */
  readonly #stopping = new AbortController();
  /** The workerd that runs now, or ran last. */
  #server: Workerd | null = null;
  /** Ends in a row after a short life: the index of the next pause. */
  #shortLives = 0;

  constructor(start: Start, life: Life) {
    this.#start = start;
    this.#life = life;
  }

  /**
   * Starts workerd until it is to stop, or another start would not help. Returns its last exit
   * code.
   */
  async run(): Promise<ExitCode> {
    const { events, plan } = this.#life;
    let opened = plan.http;
    for (let isFirst = true; !this.#isStopping; isFirst = false) {
      const startedMs = performance.now();
      this.#server = this.#start(opened);
      const http = await this.#announceReady(this.#server);
      const exitCode = await this.#server.ended;
      const pauseMs = this.#pauseAfter(performance.now() - startedMs);
      if (this.#isStopping) break;
      // Another start does not help a server that was never ready: a port is taken, or a file is unreadable.
      if ((isFirst && http === null) || pauseMs === null) return exitCode;
      // Keep the ports that the system chose: clients know them.
      if (http !== null) opened = http;
      const text = `workerd ended with exit code ${exitCode}: serve restarts it in ${pauseMs} ms`;
      events.tell("restarting", { exitCode, pauseMs }, text);
      // Rejects when the server is asked to stop during the pause.
      await sleep(pauseMs, null, { signal: this.#stopping.signal }).catch(() => {});
    }
    return 0;
  }

  /**
   * Asks workerd to drain, once. The second signal of a person ends the process elsewhere
   * (`interruption.ts`).
   */
  stop(): void {
    if (this.#isStopping) return;
    this.#stopping.abort();
    const { events, drainTimeoutMs } = this.#life;
    this.#server?.stop(drainTimeoutMs);
    events.tell("stopping", { drainTimeoutMs }, "stopping");
  }

  /** Ends workerd at once. */
  async kill(): Promise<void> {
    this.#server?.kill();
    await this.#server?.ended;
  }

  get #isStopping(): boolean {
    return this.#stopping.signal.aborted;
  }

  /** The pause before the next start; null when no start is left. */
  #pauseAfter(livedMs: number): number | null {
    if (livedMs >= LONG_LIFE_MS) this.#shortLives = 0;
    return this.#life.restartPausesMs[this.#shortLives++] ?? null;
  }

  /** Returns the HTTP addresses; null for a server that did not become ready, which is killed. */
  async #announceReady(server: Workerd): Promise<readonly Address[] | null> {
    const { plan, events } = this.#life;
    try {
      const { http, ailment } = await server.ready();
      // It was asked to stop meanwhile, and has closed its ports: the health check failed for that.
      if (server.isStopping) return http;
      if (ailment !== null) events.tell("warning", { detail: ailment }, ailment);
      tellReady(http, server.pid, plan, events);
      return http;
    } catch (error) {
      if (!(error instanceof NotReady)) throw error;
      if (server.isStopping) return null;
      events.tell("not_ready", { detail: error.message }, error.message);
      server.kill();
      return null;
    }
  }
}

/**
 * Reports the addresses, the folder and the room for connections: all that a person needs to
 * connect.
 */
function tellReady(
  http: readonly Address[],
  workerdPid: number | undefined,
  plan: ServePlan,
  events: Events,
): void {
  const { tcpHost, dataFolder, variables, openFiles } = plan;
  const connectionsMax = Number(variables.CONNECTIONS_MAX ?? 0);
  const urls = http.map((address) => `http://${addressText(address)}`);
  const tcp = plan.tcp.map(({ port, spoken, namespace }) => ({
    address: addressText({ host: tcpHost, port }),
    spoken,
    namespace: namespace ?? "default",
  }));
  const files = openFiles === null ? "" : `, of ${openFiles} open files`;
  const lines = [
    ...urls.map((url) => `HTTP  ${url}${variables.ACCESS === "open" ? ", without tokens" : ""}`),
    ...tcp.map(
      ({ address, spoken, namespace }) =>
        `TCP   ${address}, ${spoken}, namespace ${namespace}, without tokens`,
    ),
    `data  ${dataFolder}`,
    ...(connectionsMax === 0 ? [] : [`room  for ${connectionsMax} connections${files}`]),
  ];
  events.tell(
    "ready",
    { http: urls, tcp, data: dataFolder, connectionsMax, openFiles, pid: process.pid, workerdPid },
    `ready\n${lines.map((line) => `  ${line}`).join("\n")}`,
  );
}
