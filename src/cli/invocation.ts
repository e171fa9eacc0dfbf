/** An invocation: one command being carried out, and what it needs for that. */
import type { Command } from "commander";
import type { CallOptions } from "../client/call.ts";
import type { ThrottrClient } from "../client/client.ts";
import type { Clients } from "./connection.ts";
import { ExitCode } from "./exit-code.ts";
import { printFailure } from "./failure.ts";
import type { Host } from "./host.ts";
import type { ConnectionOptions } from "./options.ts";
import { Output } from "./output.ts";
import { connectionSettings, type ConnectionSettings } from "./settings.ts";

/** A command line being carried out. Its program knows it. */
export interface Run {
  readonly host: Host;
  readonly clients: Clients;
  /** Options that hold unless the command line says otherwise. */
  readonly flags: ConnectionOptions;
  /** Aborted by SIGINT and SIGTERM. */
  readonly signal: AbortSignal;
  /** Gives a signal that is not aborted yet, for what comes after an interruption. */
  readonly renewSignal: () => AbortSignal;
  /** It is a line of the prompt. */
  readonly isPrompt: boolean;
  exitCode: ExitCode;
}

const runs = new WeakMap<Command, Run>();

/** Ties a program to the run that it is made for. */
export function setRun(program: Command, run: Run): void {
  runs.set(program, run);
}

export class Invocation {
  readonly command: Command;
  readonly run: Run;
  readonly host: Host;
  readonly output: Output;
  /** Aborted by SIGINT and SIGTERM. */
  readonly signal: AbortSignal;
  readonly #options: ConnectionOptions;
  #settings: ConnectionSettings | null = null;

  constructor(command: Command, run: Run) {
    this.command = command;
    this.run = run;
    this.host = run.host;
    this.signal = run.signal;
    this.#options = { ...run.flags, ...optionsWithAncestors(command) };
    this.output = new Output(run.host, this.#options.json === true);
  }

  /** Which server. @throws UsageError `profile_unknown`, `profiles_invalid` */
  get settings(): ConnectionSettings {
    return (this.#settings ??= connectionSettings(this.host, this.#options));
  }

  /** Options of connections as flags say them. */
  get flags(): ConnectionOptions {
    return this.#options;
  }

  /** A client of that server. It is closed when the run ends. */
  get client(): ThrottrClient {
    return this.run.clients.clientOf(this.settings);
  }

  /** Prints a failure that does not end the command. Gives its exit code. */
  report(error: unknown): ExitCode {
    return printFailure(error, this.host.stderr, this.output.isJson);
  }

  /** For every call: it ends when the run is interrupted. */
  get call(): CallOptions {
    return { signal: this.signal };
  }
}

/** Options of a command; those before its name come after its own. */
function optionsWithAncestors(command: Command): ConnectionOptions {
  const before = command.parent === null ? {} : optionsWithAncestors(command.parent);
  return { ...before, ...command.opts<ConnectionOptions>() };
}

/**
 * What a command does.
 *
 * It gets the options and the arguments as commander has read them; what it returns is the exit code, 0
 * where it returns nothing.
 */
export type CarryOut<Options, Operands extends unknown[]> = (
  invocation: Invocation,
  options: Options,
  ...operands: Operands
) => Promise<ExitCode | void>;

/** The action of a command: what to give to `Command.action`. */
export function action<Options, Operands extends unknown[]>(
  carryOut: CarryOut<Options, Operands>,
): (...args: unknown[]) => Promise<void> {
  return async (...args) => {
    const command = args.at(-1) as Command;
    const run = runs.get(rootOf(command));
    if (run === undefined) throw new Error("the program was not made for a run");
    const invocation = new Invocation(command, run);
    const operands = args.slice(0, -2) as Operands;
    run.exitCode =
      (await carryOut(invocation, command.opts() as Options, ...operands)) ?? ExitCode.done;
  };
}

function rootOf(command: Command): Command {
  return command.parent === null ? command : rootOf(command.parent);
}
