/** `health`: whether the server is there and ready, as load balancers ask it. */
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
    .description("ask the server whether it is ready; needs no token")
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
