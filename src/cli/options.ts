/** Options that many commands have, and how their values are read. */
import { InvalidArgumentError, Option, type Command } from "commander";
import { durationMsOf } from "./duration.ts";
import type { Encoding } from "./text.ts";

/** Options of everything that talks to a server. */
export interface ConnectionOptions {
  readonly url?: string;
  readonly token?: string;
  readonly profile?: string;
  /** Of a call, in ms. */
  readonly timeout?: number;
  readonly json?: boolean;
}

/** Options that say how keys and values are written in arguments. */
export interface EncodingOptions {
  readonly hex?: boolean;
  readonly base64?: boolean;
}

/**
 * Adds `--url`, `--token`, `--profile`, `--timeout` and `--json`. They may stand before the name of a
 * command, too.
 */
export function addConnectionOptions(command: Command): Command {
  return addJsonOption(command)
    .option("--url <url>", "address of the server: http, https, ws or wss")
    .option("--token <token>", "token to show; better given as THROTTR_TOKEN or in a profile")
    .option("--profile <name>", "profile that has address and token")
    .addOption(
      new Option("--timeout <duration>", "how long a call may take (default: 10s)").argParser(
        timeoutMs,
      ),
    );
}

/** Adds `--json`. */
export function addJsonOption(command: Command): Command {
  return command.option("--json", "print JSON, and errors as JSON");
}

/** Adds `--hex` and `--base64`. */
export function addEncodingOptions(command: Command, what = "keys and values"): Command {
  return command
    .addOption(new Option("--hex", `give ${what} in hexadecimal`).conflicts("base64"))
    .addOption(new Option("--base64", `give ${what} in base64`).conflicts("hex"));
}

/** A required `--ttl`. */
export function ttlOption(description = "how long it lives: 500ms, 30s, 5m, 1h, 1d"): Option {
  return new Option("--ttl <duration>", description).argParser(durationMsOf).makeOptionMandatory();
}

/** `--idempotency-key`. */
export function idempotencyOption(): Option {
  return new Option(
    "--idempotency-key <text>",
    "a repeated call with it is not applied again, and gets the first answer",
  );
}

/** Of a call that may be sent again. */
export interface OnceOptions {
  readonly idempotencyKey?: string;
}

export function onceOf({ idempotencyKey }: OnceOptions): OnceOptions {
  return idempotencyKey === undefined ? {} : { idempotencyKey };
}

export function encodingOf({ hex, base64 }: EncodingOptions): Encoding {
  if (hex === true) return "hex";
  return base64 === true ? "base64" : "text";
}

/** @throws InvalidArgumentError for anything but 0 to 2^64 - 1 */
export function u64Argument(text: string): bigint {
  const value = /^\d{1,20}$/.test(text) ? BigInt(text) : -1n;
  if (value >= 0n && value < 1n << 64n) return value;
  throw new InvalidArgumentError("An integer from 0 to 18446744073709551615 is expected.");
}

/** Reads an integer of a range. */
export function wholeArgument(
  min: number,
  max: number = Number.MAX_SAFE_INTEGER,
): (text: string) => number {
  return (text) => {
    const value = /^\d+$/.test(text) ? Number(text) : NaN;
    if (value >= min && value <= max) return value;
    throw new InvalidArgumentError(`An integer from ${min} to ${max} is expected.`);
  };
}

/** @throws InvalidArgumentError for anything but a number above 0 */
export function positiveArgument(text: string): number {
  const value = text.trim() === "" ? NaN : Number(text);
  if (Number.isFinite(value) && value > 0) return value;
  throw new InvalidArgumentError("A number above 0 is expected.");
}

/** For options that may be repeated. */
export function collected(text: string, before: readonly string[] = []): readonly string[] {
  return [...before, text];
}

function timeoutMs(text: string): number {
  const ms = durationMsOf(text);
  if (ms >= 1 && ms < 2 ** 31) return ms;
  throw new InvalidArgumentError("1ms to 24d is expected.");
}
