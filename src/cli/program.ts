/** The program: its commands, and how one command line is carried out. */
import { Command, CommanderError } from "commander";
import { addBench } from "./commands/bench.ts";
import { addBuffers } from "./commands/buffers.ts";
import { addChannels } from "./commands/channels.ts";
import { addCompletion } from "./commands/completion.ts";
import { addClock } from "./commands/clock.ts";
import { addCounters } from "./commands/counters.ts";
import { addFigures } from "./commands/figures.ts";
import { addHealth } from "./commands/health.ts";
import { addLeases } from "./commands/leases.ts";
import { addLimit } from "./commands/limit.ts";
import { addMonitor } from "./commands/monitor.ts";
import { addProfile } from "./commands/profile.ts";
import { addRecords } from "./commands/records.ts";
import { addRepl } from "./commands/repl.ts";
import { addSemaphores } from "./commands/semaphores.ts";
import { addToken } from "./commands/token.ts";
import { addVersion } from "./commands/version.ts";
import { addGateway } from "./gateway/command.ts";
import { addServe } from "./serve/command.ts";
import { addTransfer } from "./transfer/command.ts";
import { isInteractive } from "./host.ts";
import { ExitCode } from "./exit-code.ts";
import { NAME, printFailure } from "./failure.ts";
import { setRun, type Run } from "./invocation.ts";
import { addConnectionOptions } from "./options.ts";
import { VERSION } from "../base/version.ts";

/** The program for one command line. */
export function programOf(run: Run): Command {
  const { stdout, stderr } = run.host;
  const program = addConnectionOptions(new Command(NAME))
    .description("Counters, buffers, rate limits, semaphores and channels of a Throttr Edge server")
    .version(VERSION, "-V, --version", "print the version")
    .enablePositionalOptions()
    .exitOverride()
    .showSuggestionAfterError()
    .configureOutput({
      writeOut: (text) => void stdout.write(text),
      writeErr: (text) => void stderr.write(text),
      getOutHelpWidth: () => stdout.columns ?? 80,
      getErrHelpWidth: () => stderr.columns ?? 80,
      // What is wrong is printed with everything else that is.
      outputError: () => {},
    });
  setRun(program, run);
  for (const [heading, adders] of GROUPS) {
    program.commandsGroup(heading);
    for (const add of adders) add(program);
  }
  program.helpCommand(true);
  if (run.isPrompt) return program;
  program.commandsGroup(SERVER);
  addServe(program);
  addGateway(program);
  program.commandsGroup(OWN);
  addRepl(program, { programOf, carryOut, report });
  addCompletion(program);
  return program;
}

type Add = (program: Command) => void;

const SERVER = "Server:";
const OWN = "This command line:";

/** Commands as the help lists them. */
const GROUPS: readonly (readonly [heading: string, adders: readonly Add[]])[] = [
  ["Records:", [addCounters, addBuffers, addRecords]],
  ["Rate limits:", [addLimit]],
  ["Semaphores:", [addLeases, addSemaphores]],
  ["Channels:", [addChannels]],
  ["Figures:", [addFigures, addMonitor, addBench]],
  [SERVER, [addHealth, addClock, addToken, addTransfer]],
  [OWN, [addProfile, addVersion]],
];

/** Carries out a command line, and prints what goes wrong. Gives the exit code. */
export async function carryOut(args: readonly string[], run: Run): Promise<ExitCode> {
  const line = withCommand(args, run);
  try {
    await programOf(run).parseAsync(line, { from: "user" });
    return run.exitCode;
  } catch (error) {
    return report(firstWrong(error, line, run), args, run);
  }
}

/**
 * What is to be told of a command line: a missing option may be one that is misspelt, and matters less
 * than a missing argument, but commander looks for it first.
 */
function firstWrong(error: unknown, line: readonly string[], run: Run): unknown {
  const isMissing =
    error instanceof CommanderError && error.code === "commander.missingMandatoryOptionValue";
  if (!isMissing) return error;
  try {
    withoutDemands(programOf(run)).parse(line, { from: "user" });
    return error;
  } catch (other) {
    return other;
  }
}

/** A program that reads command lines, does nothing, and misses no option. */
function withoutDemands(command: Command): Command {
  for (const option of command.options) option.makeOptionMandatory(false);
  command.commands.forEach(withoutDemands);
  return command.commands.length === 0 ? command.action(() => {}) : command;
}

/** On a terminal, no command is the prompt. */
function withCommand(args: readonly string[], run: Run): string[] {
  if (run.isPrompt || !isInteractive(run.host)) return [...args];
  const { operands, unknown } = programOf(run).parseOptions([...args]);
  return operands.length + unknown.length === 0 ? [...args, "repl"] : [...args];
}

/** Prints what has gone wrong, and gives the exit code. */
function report(error: unknown, args: readonly string[], run: Run): ExitCode {
  // Help and the version have been printed.
  if (error instanceof CommanderError && error.exitCode === 0) return ExitCode.done;
  if (error instanceof CommanderError && error.code === "commander.help") return ExitCode.usage;
  const isInJson = isJson(args, run);
  const exitCode = printFailure(error, run.host.stderr, isInJson);
  if (error instanceof CommanderError && !isInJson && !run.isPrompt) {
    run.host.stderr.write(`See ${pathOf(commandOf(programOf(run), args))} --help\n`);
  }
  return exitCode;
}

/** The command that a line is of, as far as its words say. */
function commandOf(command: Command, words: readonly string[]): Command {
  const { operands, unknown } = parsed(command, words);
  const next = command.commands.find((some) => some.name() === operands[0]);
  return next === undefined ? command : commandOf(next, [...operands.slice(1), ...unknown]);
}

/** Options that can't be read hide nothing that comes before them. */
function parsed(command: Command, words: readonly string[]): ReturnType<Command["parseOptions"]> {
  try {
    return command.parseOptions([...words]);
  } catch {
    return { operands: [...words], unknown: [] };
  }
}

function pathOf(command: Command): string {
  return command.parent === null ? command.name() : `${pathOf(command.parent)} ${command.name()}`;
}

/** The command line may be one that could not be read. */
function isJson(args: readonly string[], run: Run): boolean {
  const end = args.indexOf("--");
  const own = end < 0 ? args : args.slice(0, end);
  return run.flags.json === true || own.includes("--json");
}
