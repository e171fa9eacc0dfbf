/**
 * An invocation: one command being executed, with everything it needs.
 *
 * Commander calls an action with its arguments, options and command, in positions that depend on the command.
 * `action` turns that into one call with an `Invocation`, typed options and typed operands, so commands never touch
 * commander's state or the process.
 */
import type { Command } from "commander";
import type { CallOptions } from "../client/calls/call.ts";
import type { ThrottrClient } from "../client/client.ts";
import type { Clients } from "./connection.ts";
import { ExitCode } from "./exit-code.ts";
import { printFailure } from "./failure.ts";
import type { Host } from "./host.ts";
import type { ConnectionOptions } from "./options.ts";
import { Output } from "./output.ts";
import { connectionSettings, type ConnectionSettings } from "./settings.ts";

/** A command line being executed: what outlives a single command. */
export interface Run {
  /** Streams and environment, in place of `process`. */
  readonly host: Host;
  /** Shared by all lines of a prompt, so that each does not open a connection. */
  readonly clients: Clients;
  /** Default options; the prompt passes its own here. Flags on the command line override them. */
  readonly flags: ConnectionOptions;
  /** Aborted by SIGINT and SIGTERM. */
  readonly signal: AbortSignal;
  /** Returns a signal that is not aborted yet, for work that goes on after an interruption. */
  readonly renewSignal: () => AbortSignal;
  /** Whether this is a line of the prompt rather than a process of its own. */
  readonly isPrompt: boolean;
  /** Set by the command that ran last. */
  exitCode: ExitCode;
}

/** Runs by their program. Weak: the prompt makes a program for each line. */
const runs = new WeakMap<Command, Run>();

/** Ties a program to its run. Commander has no place for such a value, so a weak map holds it. */
export function setRun(program: Command, run: Run): void {
  runs.set(program, run);
}

/** One command being executed: its settings, its output and its client. */
export class Invocation {
  /** What outlives this command. */
  readonly run: Run;
  readonly host: Host;
  /** Prints as `--json` says. */
  readonly output: Output;
  /** Aborted by SIGINT and SIGTERM. */
  readonly signal: AbortSignal;
  /** The connection options as flags gave them, those before the name of the command included. */
  readonly flags: ConnectionOptions;
  /**
   * Resolved with the first use, as commands like `version` must not fail for a broken profile
   * file.
   */
  #settings: ConnectionSettings | null = null;

  constructor(run: Run, flags: ConnectionOptions) {
    this.run = run;
    this.host = run.host;
    this.signal = run.signal;
    this.flags = flags;
    this.output = new Output(run.host, flags.json === true);
  }

  /** The same command in a namespace, for the holder of a token for all of them. */
  inNamespace(namespace: string): Invocation {
    return new Invocation(this.run, { ...this.flags, namespace });
  }

  /** The server to talk to. @throws UsageError `profile_unknown`, `profiles_invalid` */
  get settings(): ConnectionSettings {
    return (this.#settings ??= connectionSettings(this.host, this.flags));
  }

  /** A client of that server. The run closes it. */
  get client(): ThrottrClient {
    return this.run.clients.clientOf(this.settings);
  }

  /** Prints a failure that does not end the command, and returns its exit code. */
  report(error: unknown): ExitCode {
    return printFailure(error, this.host.stderr, this.output.isJson);
  }

  /** Options for every call: an interruption of the run aborts it. */
  get call(): CallOptions {
    return { signal: this.signal };
  }
}

/** Options of a command, with those that stood before its name; its own win. */
function optionsWithAncestors(command: Command): ConnectionOptions {
  const before = command.parent === null ? {} : optionsWithAncestors(command.parent);
  return { ...before, ...command.opts<ConnectionOptions>() };
}

/** Adds a command, its options and its action to a program. */
export type AddCommand = (program: Command) => void;

/**
 * The body of a command.
 *
 * It receives options and arguments as commander parsed them, and returns the exit code; nothing means 0.
 */
export type CarryOut<Options, Operands extends unknown[]> = (
  invocation: Invocation,
  options: Options,
  ...operands: Operands
) => Promise<ExitCode | void>;

/** Makes the function that `Command.action` wants from the body of a command. */
export function action<Options, Operands extends unknown[]>(
  carryOut: CarryOut<Options, Operands>,
): (...args: unknown[]) => Promise<void> {
  return async (...args) => {
    const command = args.at(-1) as Command;
    const run = runs.get(rootOf(command));
    if (run === undefined) throw new Error("the program was not made for a run");
    const invocation = new Invocation(run, { ...run.flags, ...optionsWithAncestors(command) });
    // Commander calls with the operands, then the options, then the command itself.
    const operands = args.slice(0, -2) as Operands;
    run.exitCode =
      (await carryOut(invocation, command.opts() as Options, ...operands)) ?? ExitCode.done;
  };
}

/** The program that a command belongs to; commander knows only the parent. */
function rootOf(command: Command): Command {
  return command.parent === null ? command : rootOf(command.parent);
}
