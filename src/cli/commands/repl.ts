/** `repl`: opens the prompt, where commands are typed without `throttr-edge` in front. */
import type { Command } from "commander";
import { action } from "../invocation.ts";
import { addConnectionOptions } from "../options.ts";
import { Prompt, type Programs } from "../prompt/prompt.ts";

export function addRepl(program: Command, programs: Programs): void {
  const command = program
    .command("repl")
    .description("open a prompt for commands; the default at a terminal")
    .action(action<object, []>(async (invocation) => await new Prompt(invocation, programs).run()));
  addConnectionOptions(command);
}
