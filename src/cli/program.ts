/**
 * The program: its commands, and how one command line is executed.
 *
 * Commander parses and prints help; it never exits the process or prints errors here (`exitOverride`), so that the
 * prompt and tests can run many command lines in one process, and all errors look alike.
 */
import { Command, CommanderError } from "commander";
import { addBench } from "./commands/bench.ts";
import { BUFFERS } from "./commands/buffers.ts";
import { CHANNELS } from "./commands/channels.ts";
import { addCompletion } from "./commands/completion.ts";
import { addClock } from "./commands/clock.ts";
import { COUNTERS } from "./commands/counters.ts";
import { addDeploy } from "./commands/deploy.ts";
import { addDraw } from "./commands/draw.ts";
import { FIGURES } from "./commands/figures.ts";
import { addHealth } from "./commands/health.ts";
import { addInit } from "./commands/init.ts";
import { LEASES } from "./commands/leases.ts";
import { addLimit } from "./commands/limit.ts";
import { addLimitAll } from "./commands/limit-all.ts";
import { LIMIT_FIGURES } from "./commands/limits.ts";
import { addMonitor } from "./commands/monitor.ts";
import { addNamespaces } from "./commands/namespaces.ts";
import { addProfile } from "./commands/profile.ts";
import { RECORD_COMMANDS } from "./commands/records.ts";
import { addRepl } from "./commands/repl.ts";
import { RESERVATIONS } from "./commands/reservations.ts";
import { SEMAPHORE_COMMANDS } from "./commands/semaphores.ts";
import { addToken } from "./commands/token.ts";
import { addShards, addSplit } from "./commands/shards.ts";
import { addVersion } from "./commands/version.ts";
import { addGateway } from "./gateway/command.ts";
import { addServe } from "./serve/command.ts";
import { TRANSFERS } from "./transfer/command.ts";
import { isInteractive } from "./host.ts";
import { ExitCode } from "./exit-code.ts";
import { NAME, printFailure } from "./failure.ts";
import { setRun, type AddCommand, type Run } from "./invocation.ts";
import { addConnectionOptions, hasJsonFlag } from "./options.ts";
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
      // `report` prints errors, usage errors among them.
      outputError: () => {},
    });
  setRun(program, run);
  for (const [heading, adders] of GROUPS) {
    program.commandsGroup(heading);
    for (const add of adders) add(program);
  }
  program.helpCommand(true);
  // A server or a second prompt inside the prompt would take its terminal away.
  if (run.isPrompt) return program;
  program.commandsGroup(SERVER);
  addInit(program);
  addDeploy(program);
  addServe(program);
  addGateway(program);
  program.commandsGroup(OWN);
  addRepl(program, { programOf, carryOut, report });
  addCompletion(program);
  return program;
}

/** Heading of the commands that run or manage servers. */
const SERVER = "Server:";
/** Heading of the commands that ask no server. */
const OWN = "This command line:";

/** The commands in the order and under the headings of `--help`. */
const GROUPS: readonly (readonly [heading: string, adders: readonly AddCommand[]])[] = [
  ["Records:", [...COUNTERS, ...BUFFERS, ...RECORD_COMMANDS]],
  ["Rate limits:", [addLimit, addLimitAll, addDraw, ...RESERVATIONS, ...LIMIT_FIGURES]],
  ["Semaphores:", [...LEASES, ...SEMAPHORE_COMMANDS]],
  ["Channels:", [...CHANNELS]],
  ["Figures:", [...FIGURES, addMonitor, addBench]],
  [SERVER, [addHealth, addShards, addSplit, addClock, addToken, addNamespaces, ...TRANSFERS]],
  [OWN, [addProfile, addVersion]],
];

/** Executes a command line, prints errors, and returns the exit code. */
export async function carryOut(args: readonly string[], run: Run): Promise<ExitCode> {
  const line = withCommand(args, run);
  try {
    const program = programOf(run);
    assertTopic(program, line);
    await program.parseAsync(line, { from: "user" });
    return run.exitCode;
  } catch (error) {
    return report(firstWrong(error, line, run), args, run);
  }
}

/** Refuses `help nosuch`, for which commander prints the help of the program. @throws CommanderError */
function assertTopic(program: Command, words: readonly string[]): void {
  // Not parsed: that would print the version for `--version`.
  const [help, name] = words.filter((word) => !word.startsWith("-"));
  const topics = ["help", ...program.commands.map((command) => command.name())];
  if (help !== "help" || name === undefined || topics.includes(name)) return;
  throw new CommanderError(1, "commander.unknownCommand", `error: unknown command '${name}'`);
}

/**
 * Chooses the error to report. Commander checks mandatory options first; but `insert --qouta 5` should hear that the
 * option is unknown, and a missing argument matters more than a missing option. So a second parse that demands no
 * option looks for another error.
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

/** Makes a program parse only: no option is mandatory, and no command does anything. */
function withoutDemands(command: Command): Command {
  for (const option of command.options) option.makeOptionMandatory(false);
  command.commands.forEach(withoutDemands);
  return command.commands.length === 0 ? command.action(() => {}) : command;
}

/** A command line without a command opens the prompt, if it is typed at a terminal. */
function withCommand(args: readonly string[], run: Run): string[] {
  if (run.isPrompt || !isInteractive(run.host)) return [...args];
  const { operands, unknown } = programOf(run).parseOptions([...args]);
  return operands.length + unknown.length === 0 ? [...args, "repl"] : [...args];
}

/** Prints an error and returns the exit code. */
function report(error: unknown, args: readonly string[], run: Run): ExitCode {
  // Commander throws after it has printed help or the version.
  if (error instanceof CommanderError && error.exitCode === 0) return ExitCode.done;
  if (error instanceof CommanderError && error.code === "commander.help") return ExitCode.usage;
  const isInJson = isJson(args, run);
  const exitCode = printFailure(error, run.host.stderr, isInJson);
  if (error instanceof CommanderError && !isInJson && !run.isPrompt) {
    run.host.stderr.write(`See ${pathOf(commandOf(programOf(run), args))} --help\n`);
  }
  return exitCode;
}

/** The command that a line names, as far as its words can be read. */
function commandOf(command: Command, words: readonly string[]): Command {
  const { operands, unknown } = parsed(command, words);
  const next = command.commands.find((some) => some.name() === operands[0]);
  return next === undefined ? command : commandOf(next, [...operands.slice(1), ...unknown]);
}

/** Splits words into operands and the rest; an option that cannot be read leaves all words as they are. */
function parsed(command: Command, words: readonly string[]): ReturnType<Command["parseOptions"]> {
  try {
    return command.parseOptions([...words]);
  } catch {
    return { operands: [...words], unknown: [] };
  }
}

/** The words that lead to a command, for `--help` in a message. */
function pathOf(command: Command): string {
  return command.parent === null ? command.name() : `${pathOf(command.parent)} ${command.name()}`;
}

/** Whether `--json` was given. Reads the words themselves, because the line may be one that failed to parse. */
function isJson(args: readonly string[], run: Run): boolean {
  return run.flags.json === true || hasJsonFlag(args);
}
