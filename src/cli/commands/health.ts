/** `health`: whether the server can be reached and is ready, as load balancers check it. */
import type { Command } from "commander";
import { ExitCode } from "../exit-code.ts";
import { action } from "../invocation.ts";
import { addConnectionOptions } from "../options.ts";
import type { Json } from "../output.ts";
import { listOf } from "../table.ts";
import { askHealth } from "../health.ts";

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

const textOf = (value: Json): string => (typeof value === "string" ? value : JSON.stringify(value));
