/** The life of a server: it gets ready, is told to stop, and ends. */
import type { ExitCode } from "../exit-code.ts";
import { addressText, type Address } from "./address.ts";
import type { Events } from "./events.ts";
import type { ServePlan } from "./plan.ts";
import { NotReady, type ServerProcess } from "./server.ts";

/** What a server lives with. */
export interface Life {
  readonly plan: ServePlan;
  readonly events: Events;
  /** Aborted by what asks the server to stop. */
  readonly signal: AbortSignal;
  readonly drainTimeoutMs: number;
}

/** Waits until the server has ended; gives its exit code, 0 when it was asked to stop. */
export async function untilEnded(server: ServerProcess, life: Life): Promise<ExitCode> {
  const { events, signal, drainTimeoutMs } = life;
  const stop = (): void => {
    if (server.isStopping) return;
    server.stop(drainTimeoutMs);
    void events.tell("stopping", { drainTimeoutMs }, "stopping");
  };
  signal.addEventListener("abort", stop);
  // A terminal that is closed.
  process.on("SIGHUP", stop);
  try {
    if (signal.aborted) stop();
    await announceReady(server, life);
    const exitCode = await server.ended;
    await events.tell("ended", { exitCode }, `workerd has ended, with exit code ${exitCode}`);
    return exitCode;
  } catch (error) {
    // Nothing may go on writing to a folder that is let go of.
    server.kill();
    await server.ended;
    throw error;
  } finally {
    signal.removeEventListener("abort", stop);
    process.off("SIGHUP", stop);
  }
}

/** A server that does not get ready is ended. */
async function announceReady(server: ServerProcess, { plan, events }: Life): Promise<void> {
  try {
    await tellReady(await server.ready(), server.pid, plan, events);
  } catch (error) {
    if (!(error instanceof NotReady)) throw error;
    if (server.isStopping) return;
    await events.tell("not_ready", { detail: error.message }, error.message);
    server.kill();
  }
}

async function tellReady(
  http: readonly Address[],
  workerdPid: number | undefined,
  plan: ServePlan,
  events: Events,
): Promise<void> {
  const { tcpHost, dataFolder, variables } = plan;
  const urls = http.map((address) => `http://${addressText(address)}`);
  const tcp = plan.tcp.map(({ port, spoken, namespace }) => ({
    address: addressText({ host: tcpHost, port }),
    spoken,
    namespace: namespace ?? "default",
  }));
  const lines = [
    ...urls.map((url) => `HTTP  ${url}${variables.ACCESS === "open" ? ", without tokens" : ""}`),
    ...tcp.map(
      ({ address, spoken, namespace }) =>
        `TCP   ${address}, ${spoken}, namespace ${namespace}, without tokens`,
    ),
    `data  ${dataFolder}`,
  ];
  await events.tell(
    "ready",
    { http: urls, tcp, data: dataFolder, pid: process.pid, workerdPid },
    `ready\n${lines.map((line) => `  ${line}`).join("\n")}`,
  );
}
