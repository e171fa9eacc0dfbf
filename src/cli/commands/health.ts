/** `health`: whether the server can be reached and is ready, as load balancers check it. */
import type { Command } from "commander";
import { ExitCode } from "../exit-code.ts";
import { action } from "../invocation.ts";
import { addConnectionOptions } from "../options.ts";
import type { Json } from "../output.ts";
import { askServer } from "../server-request.ts";
import type { ConnectionSettings } from "../settings.ts";
import { listOf } from "../table.ts";

export function addHealth(program: Command): void {
  const command = program
    .command("health")
    .description("check whether the server is ready; needs no token")
    .action(
      action<object, []>(async ({ output, settings, signal }) => {
        const { status, tookMs, ...rest } = await askHealth(settings, signal);
        await output.print({ status, tookMs, url: settings.url, ...rest }, () =>
          listOf(output, [
            ["status", status === "ok" ? output.good(status) : output.bad(status)],
            ["took", `${tookMs} ms`],
            ...Object.entries(rest).map(([name, value]) => [name, textOf(value)] as const),
          ]),
        );
        return status === "ok" ? ExitCode.done : ExitCode.server;
      }),
    );
  addConnectionOptions(command);
}

/** A field of the answer for people. */
const textOf = (value: Json): string => (typeof value === "string" ? value : JSON.stringify(value));

/** The server's answer and how long it took. A newer server may add fields; they are passed on as they are. */
type Health = Record<string, Json> & { readonly status: string; readonly tookMs: number };

/**
 * Asks a server how it is.
 *
 * @throws ThrottrError as `askServer`
 */
async function askHealth(settings: ConnectionSettings, signal: AbortSignal): Promise<Health> {
  const startMs = performance.now();
  const told = await askServer(settings, { path: "/health", field: "status" }, signal);
  const status = typeof told["status"] === "string" ? told["status"] : "unknown";
  return { ...told, status, tookMs: Math.round(performance.now() - startMs) };
}
