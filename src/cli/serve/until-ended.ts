/** The life of a server: workerd gets ready, is started again when it ends by itself, and is told to stop. */
import { setTimeout as sleep } from "node:timers/promises";
import type { ExitCode } from "../exit-code.ts";
import { addressText, type Address } from "./address.ts";
import type { Events } from "./events.ts";
import type { ServePlan } from "./plan.ts";
import { NotReady, type ServerProcess } from "./server.ts";

/** Pauses before the starts that follow one short life after another. */
export const RESTART_PAUSES_MS: readonly number[] = [
  250, 500, 1000, 2000, 4000, 8000, 15_000, 30_000, 30_000, 30_000,
];
/** A workerd that has lived so long has not ended because of its start. */
const LONG_LIFE_MS = 60_000;

/** What a server lives with. */
export interface Life {
  readonly plan: ServePlan;
  readonly events: Events;
  /** Aborted by what asks the server to stop. */
  readonly signal: AbortSignal;
  readonly drainTimeoutMs: number;
  /** When there is none left, the server has ended. */
  readonly restartPausesMs: readonly number[];
}

/** What a life needs of a workerd. */
type Workerd = Pick<ServerProcess, "ended" | "pid" | "isStopping" | "ready" | "stop" | "kill">;

/** Starts workerd, with what is to be served. */
type Start = (plan: ServePlan) => Workerd;

/**
 * Serves until it is asked to stop, workerd does not get ready the first time, or ends again and again.
 *
 * @returns 0 when it was asked to stop, else the exit code of workerd
 */
export async function untilEnded(start: Start, life: Life): Promise<ExitCode> {
  const keeper = new Keeper(start, life);
  const stop = (): void => keeper.stop();
  life.signal.addEventListener("abort", stop);
  // A terminal that is closed.
  process.on("SIGHUP", stop);
  try {
    if (life.signal.aborted) stop();
    const exitCode = await keeper.run();
    await life.events.tell("ended", { exitCode }, `workerd has ended, with exit code ${exitCode}`);
    return exitCode;
  } catch (error) {
    // Nothing may go on writing to a folder that is let go of.
    await keeper.kill();
    throw error;
  } finally {
    life.signal.removeEventListener("abort", stop);
    process.off("SIGHUP", stop);
  }
}

class Keeper {
  readonly #start: Start;
  readonly #life: Life;
  readonly #stopping = new AbortController();
  #server: Workerd | null = null;
  #shortLives = 0;

  constructor(start: Start, life: Life) {
    this.#start = start;
    this.#life = life;
  }

  async run(): Promise<ExitCode> {
    const { events } = this.#life;
    let { plan } = this.#life;
    for (let isFirst = true; !this.#isStopping; isFirst = false) {
      const startedMs = performance.now();
      this.#server = this.#start(plan);
      const http = await this.#announceReady(this.#server);
      const exitCode = await this.#server.ended;
      const pauseMs = this.#pauseAfter(performance.now() - startedMs);
      if (this.#isStopping) break;
      // What has never been ready is not mended by another start: a port is taken, a file is unreadable.
      if ((isFirst && http === null) || pauseMs === null) return exitCode;
      // Ports that the system has chosen stay the same.
      if (http !== null) plan = { ...plan, http };
      const text = `workerd has ended, with exit code ${exitCode}: it is started again in ${pauseMs} ms`;
      await events.tell("restarting", { exitCode, pauseMs }, text);
      // Rejects when the server is asked to stop meanwhile.
      await sleep(pauseMs, null, { signal: this.#stopping.signal }).catch(() => {});
    }
    return 0;
  }

  stop(): void {
    if (this.#isStopping) return;
    this.#stopping.abort();
    const { events, drainTimeoutMs } = this.#life;
    this.#server?.stop(drainTimeoutMs);
    void events.tell("stopping", { drainTimeoutMs }, "stopping");
  }

  /** Ends workerd at once. */
  async kill(): Promise<void> {
    this.#server?.kill();
    await this.#server?.ended;
  }

  get #isStopping(): boolean {
    return this.#stopping.signal.aborted;
  }

  /** The pause before the next start; null when it is over. */
  #pauseAfter(livedMs: number): number | null {
    if (livedMs >= LONG_LIFE_MS) this.#shortLives = 0;
    return this.#life.restartPausesMs[this.#shortLives++] ?? null;
  }

  /** Gives the addresses of HTTP; null for a server that does not get ready, which is ended. */
  async #announceReady(server: Workerd): Promise<readonly Address[] | null> {
    const { plan, events } = this.#life;
    try {
      const { http, ailment } = await server.ready();
      if (ailment !== null) await events.tell("warning", { detail: ailment }, ailment);
      await tellReady(http, server.pid, plan, events);
      return http;
    } catch (error) {
      if (!(error instanceof NotReady)) throw error;
      if (server.isStopping) return null;
      await events.tell("not_ready", { detail: error.message }, error.message);
      server.kill();
      return null;
    }
  }
}

async function tellReady(
  http: readonly Address[],
  workerdPid: number | undefined,
  plan: ServePlan,
  events: Events,
): Promise<void> {
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
  await events.tell(
    "ready",
    { http: urls, tcp, data: dataFolder, connectionsMax, openFiles, pid: process.pid, workerdPid },
    `ready\n${lines.map((line) => `  ${line}`).join("\n")}`,
  );
}
