/**
 * `insert`, `query`, `update` and `increment`: counters.
 *
 * A counter's value is called quota, as in the Throttr protocol: clients count it up, or down from what is allowed.
 */
import { Argument, Option, type Command } from "commander";
import type { ChangeName, CounterRecord } from "../../wire/edge/operations.ts";
import { ExitCode } from "../exit-code.ts";
import { action, type AddCommand } from "../invocation.ts";
import {
  addConnectionOptions,
  addEncodingOptions,
  bytesGiven,
  idempotencyOption,
  onceOf,
  ttlOption,
  u64Argument,
  type EncodingOptions,
  type OnceOptions,
} from "../options.ts";
import { absent, remainingJson, remainingText } from "../records.ts";
import { jsonBytes } from "../text.ts";
import { listOf } from "../table.ts";
import type { Output } from "../output.ts";

/** `--quota` is a bigint: counters have 64 bits, and JavaScript's numbers 53. */
interface InsertOptions extends EncodingOptions, OnceOptions {
  readonly quota: bigint;
  readonly ttl: number;
}

/** `--ttl` is in milliseconds, and for new counters only. */
interface IncrementOptions extends EncodingOptions, OnceOptions {
  readonly by: bigint;
  readonly ttl: number;
}

/** The commands of this file, in the order of `--help`. */
export const COUNTERS: readonly AddCommand[] = [addInsert, addIncrement, addQuery, addUpdate];

function addInsert(program: Command): void {
  const command = program
    .command("insert")
    .description("create a counter; exits with 1 if the key has a record")
    .argument("<key>")
    .requiredOption("--quota <n>", "initial value", u64Argument)
    .addOption(ttlOption())
    .addOption(idempotencyOption())
    .action(
      action<InsertOptions, [string]>(async ({ client, output, call }, options, name) => {
        const key = bytesGiven(name, options);
        const { quota, ttl: ttlMs } = options;
        const inserted = await client.insert(key, { quota, ttlMs, ...onceOf(options), ...call });
        const json = { ...jsonBytes("key", key), inserted };
        return await output.outcome(json, inserted, "inserted", "the key already has a record");
      }),
    );
  addConnectionOptions(addEncodingOptions(command, "the key"));
}

function addIncrement(program: Command): void {
  const command = program
    .command("increment")
    .description("add to a counter, creating it if necessary")
    .argument("<key>")
    .addOption(new Option("--by <n>", "amount to add").argParser(u64Argument).default(1n, "1"))
    .addOption(ttlOption("TTL of a new counter; an existing one keeps its own"))
    .addOption(idempotencyOption())
    .action(
      action<IncrementOptions, [string]>(async ({ client, output, call }, options, name) => {
        const key = bytesGiven(name, options);
        const { by, ttl: ttlMs } = options;
        const quota = await client.increment(key, { by, ttlMs, ...onceOf(options), ...call });
        await output.print({ ...jsonBytes("key", key), quota }, () => String(quota));
      }),
    );
  addConnectionOptions(addEncodingOptions(command, "the key"));
}

function addQuery(program: Command): void {
  const command = program
    .command("query")
    .description("show a counter; exits with 1 if there is none")
    .argument("<key>")
    .action(
      action<EncodingOptions, [string]>(async ({ client, output, call }, options, name) => {
        const key = bytesGiven(name, options);
        const counter = await client.query(key, call);
        if (counter === null) return await absent(output, key);
        await output.print({ ...jsonBytes("key", key), found: true, ...counterJson(counter) }, () =>
          counterText(output, counter),
        );
      }),
    );
  addConnectionOptions(addEncodingOptions(command, "the key"));
}

function addUpdate(program: Command): void {
  const command = program
    .command("update")
    .description(
      "change a counter; exits with 1 if there is none, or if the result would be out of range",
    )
    .argument("<key>")
    .addArgument(
      new Argument("<change>", "how to change the value").choices([
        "patch",
        "increase",
        "decrease",
      ] satisfies ChangeName[]),
    )
    .argument("<amount>", "0 to 2^64 - 1", u64Argument)
    .addOption(idempotencyOption())
    .action(
      action<EncodingOptions & OnceOptions, [string, ChangeName, bigint]>(
        async ({ client, output, call }, options, name, change, amount) => {
          const key = bytesGiven(name, options);
          // The three changes are methods of the client with the same parameters.
          const counter = await client[change](key, amount, { ...onceOf(options), ...call });
          if (counter === null) return await absent(output, key);
          const { applied } = counter;
          const json = { ...jsonBytes("key", key), found: true, applied, ...counterJson(counter) };
          await output.print(json, () =>
            applied
              ? counterText(output, counter)
              : output.bad(`not applied: the quota is ${counter.quota}`),
          );
          return applied ? ExitCode.done : ExitCode.refused;
        },
      ),
    );
  addConnectionOptions(addEncodingOptions(command, "the key"));
}

/** A counter for scripts. */
const counterJson = (counter: CounterRecord) => ({
  quota: counter.quota,
  ...remainingJson(counter),
});

/** A counter for people. */
function counterText(output: Output, counter: CounterRecord): string {
  return listOf(output, [["quota", String(counter.quota)], ...remainingText(counter)]);
}
