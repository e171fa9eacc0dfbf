/** `purge`, `ttl` and `list`: records of both kinds, counters and buffers. */
import { Option, type Command } from "commander";
import type { ListedRecord, Remaining } from "../../wire/edge/operations.ts";
import { ThrottrError } from "../../wire/edge/error.ts";
import { durationMsOf } from "../duration.ts";
import { ExitCode } from "../exit-code.ts";
import { UsageError } from "../failure.ts";
import { action, type AddCommand, type Invocation } from "../invocation.ts";
import { printPages, type Listing } from "../listing.ts";
import {
  addConnectionOptions,
  addEncodingOptions,
  bytesGiven,
  idempotencyOption,
  limitOption,
  onceOf,
  type EncodingOptions,
  type OnceOptions,
} from "../options.ts";
import { declined, isConfirmed } from "../questions.ts";
import { absent, remainingJson, remainingText, shownTime } from "../records.ts";
import { listOf } from "../table.ts";
import { jsonBytes, shownBytes, shownKey } from "../text.ts";

interface PurgeOptions extends EncodingOptions, OnceOptions {
  readonly prefix?: string;
  readonly yes?: boolean;
}

interface TtlOptions extends EncodingOptions, OnceOptions {
  readonly increase?: boolean;
  readonly decrease?: boolean;
}

interface ListOptions extends EncodingOptions {
  readonly prefix?: string;
  readonly limit?: number;
}

/** The commands of this file, in the order of `--help`. */
export const RECORD_COMMANDS: readonly AddCommand[] = [addPurge, addTtl, addList];

function addPurge(program: Command): void {
  const command = program
    .command("purge")
    .description("remove records; exits with 1 if one of them does not exist")
    .argument("[keys...]")
    .option(
      "--prefix <prefix>",
      "remove all records whose keys begin with it; needs the scope admin",
    )
    .option("-y, --yes", "do not ask for confirmation")
    .addOption(idempotencyOption())
    .action(
      action<PurgeOptions, [readonly string[]]>(async (invocation, options, names) => {
        if (names.length > 0 === (options.prefix !== undefined)) {
          throw new UsageError("keys_invalid", "expected either keys or --prefix");
        }
        return options.prefix === undefined
          ? await purgeKeys(invocation, options, names)
          : await purgePrefix(invocation, options, options.prefix);
      }),
    );
  addConnectionOptions(addEncodingOptions(command, "keys and prefix"));
}

async function purgeKeys(
  { client, output, call }: Invocation,
  options: PurgeOptions,
  names: readonly string[],
): Promise<ExitCode> {
  const keys = names.map((name) => bytesGiven(name, options));
  // Calls made together go out in one message.
  const purged = await Promise.all(
    keys.map((key) => client.purge(key, { ...onceOf(options), ...call })),
  );
  for (const [i, key] of keys.entries()) {
    await output.print(
      { ...jsonBytes("key", key), purged: purged[i]! },
      () => `${purged[i]! ? output.good("purged") : output.bad("absent")}  ${shownKey(key)}`,
    );
  }
  return purged.every(Boolean) ? ExitCode.done : ExitCode.refused;
}

async function purgePrefix(
  invocation: Invocation,
  options: PurgeOptions,
  text: string,
): Promise<ExitCode | void> {
  const { client, output, call, settings } = invocation;
  const prefix = bytesGiven(text, options);
  const which = prefix.length === 0 ? "all records" : `all records under ${shownBytes(prefix)}`;
  // Names the address: the wrong profile is the mistake that this question is for.
  const question = `This removes ${which} at ${settings.url}.`;
  if (!(await isConfirmed(invocation, question, options.yes))) return declined(invocation);
  const removed = await client.removeAll(prefix, call);
  await output.print({ ...jsonBytes("prefix", prefix), removed }, () => `${removed} removed`);
}

function addTtl(program: Command): void {
  const command = program
    .command("ttl")
    .description("show or change the TTL of a record; exits with 1 if there is none")
    .argument("<key>")
    .argument("[duration]", "new TTL, such as 30s or 1h", durationMsOf)
    .option("--increase", "extend the TTL by the duration")
    .addOption(new Option("--decrease", "shorten the TTL by the duration").conflicts("increase"))
    .addOption(idempotencyOption())
    .action(
      action<TtlOptions, [string, number | undefined]>(
        async (invocation, options, name, duration) => {
          const { output } = invocation;
          const key = bytesGiven(name, options);
          const remaining =
            duration === undefined
              ? await shownRemaining(invocation, options, key)
              : await changedRemaining(invocation, options, key, duration);
          if (remaining === null) return await absent(output, key);
          const json = { ...jsonBytes("key", key), found: true, ...remainingJson(remaining) };
          await output.print(json, () => listOf(output, remainingText(remaining)));
        },
      ),
    );
  addConnectionOptions(addEncodingOptions(command, "the key"));
}

async function changedRemaining(
  { client, call }: Invocation,
  options: TtlOptions,
  key: Uint8Array,
  ttlMs: number,
): Promise<Remaining | null> {
  const moved = options.decrease === true ? "decrease" : "patch";
  const change = options.increase === true ? "increase" : moved;
  return await client.ttl(key, { ttlMs, change, ...onceOf(options), ...call });
}

/**
 * The remaining time of a record of either kind. No request reads the TTL of both kinds, so it tries a counter first.
 */
async function shownRemaining(
  { client, call }: Invocation,
  { increase, decrease }: TtlOptions,
  key: Uint8Array,
): Promise<Remaining | null> {
  if (increase === true || decrease === true) {
    throw new UsageError("duration_missing", "duration: --increase and --decrease need one");
  }
  try {
    return await client.query(key, call);
  } catch (error) {
    if (!(error instanceof ThrottrError) || error.code !== "kind_mismatch") throw error;
    return await client.get(key, call);
  }
}

function addList(program: Command): void {
  const command = program
    .command("list")
    .description("list records, in the order of their keys while the namespace has few")
    .option("--prefix <prefix>", "only keys that begin with it")
    .addOption(limitOption())
    .action(
      action<ListOptions, []>(async ({ client, call, output }, options) => {
        const prefix = bytesGiven(options.prefix ?? "", options);
        const listed = await printPages(output, RECORDS, options.limit, async (limit, behind) => {
          const page = await client.list({ prefix, limit, ...behind, ...call });
          return { rows: page.records, cursor: page.cursor };
        });
        output.note(output.faint(listed === 1 ? "1 record" : `${listed} records`));
      }),
    );
  addConnectionOptions(addEncodingOptions(command, "the prefix"));
}

/** The listing of `list`. The size of a record is its quota or its bytes, in one column. */
const RECORDS: Listing<ListedRecord> = {
  json: ({ key, ...fields }) => ({ ...jsonBytes("key", key), ...fields }),
  columns: [
    ["KEY", ({ key }) => shownKey(key)],
    ["KIND", ({ kind }) => kind],
    ["QUOTA, BYTES", ({ quota, bytes }) => quota ?? `${bytes} B`, "right"],
    ["EXPIRES", ({ expiresAtMs }) => shownTime(expiresAtMs)],
  ],
};
