/** `set` and `get`: buffers, which are bytes that expire. */
import { Option, type Command } from "commander";
import { shownDuration } from "../duration.ts";
import { ExitCode } from "../exit-code.ts";
import { action, type AddCommand, type Invocation } from "../invocation.ts";
import {
  addConnectionOptions,
  addEncodingOptions,
  bytesGiven,
  idempotencyOption,
  onceOf,
  ttlOption,
  type EncodingOptions,
  type OnceOptions,
} from "../options.ts";
import { absent, remainingJson } from "../records.ts";
import { valueOfArgument } from "../standard-input.ts";
import { jsonBytes, shownBytes, shownPayload } from "../text.ts";

/** `--expect` and `--if-absent` make it a compare-and-set. */
interface SetOptions extends EncodingOptions, OnceOptions {
  /** In milliseconds. */
  readonly ttl: number;
  /** The value that the buffer must hold, in the encoding of the flags. */
  readonly expect?: string;
  readonly ifAbsent?: boolean;
}

interface GetOptions extends EncodingOptions {
  /** Prints the bytes alone, for a pipe. */
  readonly raw?: boolean;
}

/** The commands of this file, in the order of `--help`. */
export const BUFFERS: readonly AddCommand[] = [addSet, addGet];

function addSet(program: Command): void {
  const command = program
    .command("set")
    .description(
      "set a buffer; exits with 1 if the condition of --if-absent or --expect is not met",
    )
    .argument("<key>")
    .argument("[value]", "the value; - or no value reads standard input")
    .addOption(ttlOption())
    .addOption(new Option("--if-absent", "only if the key has no record").conflicts("expect"))
    .option("--expect <value>", "only if the buffer holds this value")
    .addOption(idempotencyOption())
    .action(
      action<SetOptions, [string, string | undefined]>(async (invocation, options, name, text) => {
        const { client, output, call } = invocation;
        const key = bytesGiven(name, options);
        const value = await valueOfArgument(invocation, options, "value", text);
        const settings = { ttlMs: options.ttl, ...onceOf(options), ...call };
        if (options.ifAbsent === true || options.expect !== undefined) {
          const { expect } = options;
          const expected = expect === undefined ? null : bytesGiven(expect, options);
          const set = { ...settings, expected, value };
          return await shownComparison(invocation, key, await client.compareAndSet(key, set));
        }
        await client.set(key, value, settings);
        await output.print({ ...jsonBytes("key", key), applied: true, bytes: value.length }, () =>
          output.good("set"),
        );
      }),
    );
  addConnectionOptions(addEncodingOptions(command));
}

/** Prints the outcome of a compare-and-set, with the value that was in the way. */
async function shownComparison(
  { output }: Invocation,
  key: Uint8Array,
  { applied, current }: { readonly applied: boolean; readonly current: Uint8Array | null },
): Promise<ExitCode> {
  const held = current === null ? { current: null } : jsonBytes("current", current);
  await output.print({ ...jsonBytes("key", key), applied, ...(applied ? {} : held) }, () => {
    if (applied) return output.good("set");
    const holds = current === null ? "the key has no record" : `it holds ${shownBytes(current)}`;
    return output.bad(`not set: ${holds}`);
  });
  return applied ? ExitCode.done : ExitCode.refused;
}

function addGet(program: Command): void {
  const command = program
    .command("get")
    .description("print a buffer; exits with 1 if there is none")
    .argument("<key>")
    .option("--raw", "print the bytes as they are and nothing else")
    .action(
      action<GetOptions, [string]>(async ({ client, output, call }, options, name) => {
        const key = bytesGiven(name, options);
        const buffer = await client.get(key, call);
        if (buffer === null) return await absent(output, key);
        const { value } = buffer;
        if (options.raw === true) return await output.write(value);
        const json = { ...jsonBytes("key", key), found: true, ...jsonBytes("value", value) };
        await output.print({ ...json, bytes: value.length, ...remainingJson(buffer) }, () =>
          shownPayload(value),
        );
        const bytes = value.length === 1 ? "1 byte" : `${value.length} bytes`;
        output.note(output.faint(`${bytes}, ${shownDuration(buffer.ttlMs)} left`));
      }),
    );
  addConnectionOptions(addEncodingOptions(command, "the key"));
}
