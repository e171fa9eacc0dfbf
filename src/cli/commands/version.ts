/** `version`: the same as `--version`, as a command and with `--json`. */
import type { Command } from "commander";
import { VERSION } from "../../base/version.ts";
import { action } from "../invocation.ts";
import { addJsonOption } from "../options.ts";

export function addVersion(program: Command): void {
  const command = program
    .command("version")
    .description("print the version")
    .action(
      action<object, []>(async ({ output }) => {
        await output.print({ version: VERSION }, () => VERSION);
      }),
    );
  addJsonOption(command);
}
