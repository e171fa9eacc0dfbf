/**
 * Options that many commands share, and the parsers of their values.
 *
 * A parser throws commander's `InvalidArgumentError`: commander then names the option, and the command exits with 2
 * before anything is sent.
 */
import { InvalidArgumentError, Option, type Command } from "commander";
import { NAMESPACE } from "../base/names.ts";
import { durationMsOf } from "./duration.ts";
import { bytesOfArgument, type Encoding } from "./text.ts";

/** Options of every command that talks to a server. */
export interface ConnectionOptions {
  /** Address of the server; without one the environment or a profile gives it. */
  readonly url?: string;
  /** Access token. Process lists show it, so the environment or a profile is the better place. */
  readonly token?: string;
  /** The namespace to use, with a token for all of them or without one. */
  readonly namespace?: string;
  /** Name of a profile, which wins over the environment. */
  readonly profile?: string;
  /** Timeout of a call, in milliseconds. */
  readonly timeout?: number;
  /** Prints JSON on both streams. */
  readonly json?: boolean;
}

/** Options that choose how keys and values are written in arguments: as text unless one is set. */
export interface EncodingOptions {
  readonly hex?: boolean;
  readonly base64?: boolean;
}

/**
 * Adds `--url`, `--token`, `--namespace`, `--profile`, `--timeout` and `--json`. They are accepted before the name of a command,
 * too.
 */
export function addConnectionOptions(command: Command): Command {
  return addJsonOption(command)
    .option("--url <url>", "address of the server: http, https, ws or wss")
    .option(
      "--token <token>",
      "access token; safer as THROTTR_TOKEN or in a profile, because process lists show arguments",
    )
    .option(
      "--namespace <name>",
      "namespace to use, with a token for all of them, or on a server that is open to any",
      namespaceArgument,
    )
    .option("--profile <name>", "profile with the address and token to use")
    .option("--timeout <duration>", "timeout of a call (default: 10s)", timerArgument());
}

/** Adds `--json`. */
export function addJsonOption(command: Command): Command {
  return command.option("--json", "print JSON, and errors as JSON");
}

/** Whether words of a command line ask for JSON. They may be words that can't be parsed. */
export function hasJsonFlag(words: readonly string[]): boolean {
  const end = words.indexOf("--");
  return (end < 0 ? words : words.slice(0, end)).includes("--json");
}

/** Adds `--hex` and `--base64`. */
export function addEncodingOptions(command: Command, what = "keys and values"): Command {
  return command
    .addOption(new Option("--hex", `give ${what} in hexadecimal`).conflicts("base64"))
    .addOption(new Option("--base64", `give ${what} in base64`).conflicts("hex"));
}

/** A required `--ttl`. */
export function ttlOption(description = "time to live: 500ms, 30s, 5m, 1h, 1d"): Option {
  return new Option("--ttl <duration>", description).argParser(durationMsOf).makeOptionMandatory();
}

/** `--limit` of a listing. */
export function limitOption(): Option {
  return new Option("--limit <n>", "at most this many").argParser(wholeArgument(1));
}

/** `--idempotency-key`. */
export function idempotencyOption(): Option {
  return new Option(
    "--idempotency-key <text>",
    "makes a retry safe: a repeated call is not applied again and returns the first answer",
  );
}

/** Options of a call that can be repeated safely. */
export interface OnceOptions {
  /**
   * Names a call: the server applies calls of the same name once, and gives the same answer again.
   */
  readonly idempotencyKey?: string;
}

/** The option as the client takes it: missing rather than undefined. */
export function onceOf({ idempotencyKey }: OnceOptions): OnceOptions {
  return idempotencyKey === undefined ? {} : { idempotencyKey };
}

/** The encoding that the flags ask for. Commander has refused both at once. */
export function encodingOf({ hex, base64 }: EncodingOptions): Encoding {
  if (hex === true) return "hex";
  return base64 === true ? "base64" : "text";
}

/** The bytes of an argument, as `--hex` and `--base64` say. @throws InvalidArgumentError */
export function bytesGiven(text: string, options: EncodingOptions): Uint8Array {
  return bytesOfArgument(text, encodingOf(options));
}

/** Reads the name of a namespace. @throws InvalidArgumentError for a name that no server accepts */
export function namespaceArgument(text: string): string {
  if (NAMESPACE.test(text)) return text;
  throw new InvalidArgumentError("Expected 1 to 64 letters, digits, dots, dashes or underscores.");
}

/** Reads an unsigned 64-bit integer. @throws InvalidArgumentError outside 0 to 2^64 - 1 */
export function u64Argument(text: string): bigint {
  const value = /^\d{1,20}$/.test(text) ? BigInt(text) : -1n;
  if (value >= 0n && value < 1n << 64n) return value;
  throw new InvalidArgumentError("Expected an integer from 0 to 18446744073709551615.");
}

/** Makes a parser of integers from `min` to `max`. */
export function wholeArgument(
  min: number,
  max: number = Number.MAX_SAFE_INTEGER,
): (text: string) => number {
  return (text) => {
    const value = /^\d+$/.test(text) ? Number(text) : NaN;
    if (value >= min && value <= max) return value;
    throw new InvalidArgumentError(`Expected an integer from ${min} to ${max}.`);
  };
}

/** Reads a positive number. @throws InvalidArgumentError for anything else */
export function positiveArgument(text: string): number {
  const value = text.trim() === "" ? NaN : Number(text);
  if (Number.isFinite(value) && value > 0) return value;
  throw new InvalidArgumentError("Expected a number above 0.");
}

/** Collects the values of an option that may be repeated. */
export function collected(text: string, before: readonly string[] = []): readonly string[] {
  return [...before, text];
}

/**
 * Makes a parser of durations, in milliseconds. Timers of Node wrap around above 2^31 - 1 ms and fire
 * at once, so no duration of this process is longer.
 */
export function timerArgument(minMs = 1): (text: string) => number {
  return (text) => {
    const ms = durationMsOf(text);
    if (ms >= minMs && ms < 2 ** 31) return ms;
    throw new InvalidArgumentError(`Expected a duration from ${minMs}ms to 24d.`);
  };
}
