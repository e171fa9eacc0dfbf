/** `repl`: the prompt. */
import type { Command } from "commander";
import { action } from "../invocation.ts";
import { addConnectionOptions } from "../options.ts";
import { Prompt, type Programs } from "../prompt/prompt.ts";

export function addRepl(program: Command, programs: Programs): void {
  const command = program
    .command("repl")
    .description("a prompt for commands: what comes without one on a terminal")
    .action(action<object, []>(async (invocation) => await new Prompt(invocation, programs).run()));
  addConnectionOptions(command);
}
