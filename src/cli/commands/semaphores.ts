/** `semaphores`, `semaphore` and `holders`: shows how much of semaphores is in use, and by which holders. */
import type { Command } from "commander";
import type { Holder, ListedSemaphore } from "../../wire/edge/semaphores.ts";
import { ExitCode } from "../exit-code.ts";
import { action, type AddCommand } from "../invocation.ts";
import { printPages, type Listing } from "../listing.ts";
import {
  addConnectionOptions,
  addEncodingOptions,
  bytesGiven,
  limitOption,
  type EncodingOptions,
} from "../options.ts";
import { shownTime } from "../records.ts";
import { listOf } from "../table.ts";
import { jsonBytes, shownBytes } from "../text.ts";

/** The flags of the two listings. */
interface ListOptions extends EncodingOptions {
  readonly prefix?: string;
  readonly limit?: number;
}

/** The commands of this file, in the order of `--help`. */
export const SEMAPHORE_COMMANDS: readonly AddCommand[] = [addList, addOne, addHolders];

function addList(program: Command): void {
  const command = program
    .command("semaphores")
    .description("list semaphores in the order of their names")
    .option("--prefix <prefix>", "only names that begin with it")
    .addOption(limitOption())
    .action(
      action<ListOptions, []>(async ({ client, call, output }, options) => {
        const prefix = bytesGiven(options.prefix ?? "", options);
        await printPages(output, SEMAPHORES, options.limit, async (limit, behind) => {
          const page = await client.semaphores({ prefix, limit, ...behind, ...call });
          return { rows: page.semaphores, cursor: page.cursor };
        });
      }),
    );
  addConnectionOptions(addEncodingOptions(command, "the prefix"));
}

/** A semaphore for scripts. `maximum` is the former name of `mostHeld`: the most that was held at once lately. */
const semaphoreJson = ({ name, consumption, mostHeld }: ListedSemaphore) => ({
  ...jsonBytes("name", name),
  consumption,
  mostHeld,
  maximum: mostHeld,
});

/** The listing of `semaphores`. */
const SEMAPHORES: Listing<ListedSemaphore> = {
  json: semaphoreJson,
  columns: [
    ["NAME", ({ name }) => shownBytes(name)],
    ["IN USE", ({ consumption }) => consumption, "right"],
    ["MOST HELD", ({ mostHeld }) => mostHeld, "right"],
  ],
};

/** The listing of `holders`: leases by id, and connections, which hold without an expiry. */
const HOLDERS: Listing<Holder> = {
  json: ({ kind, id, resources, expiresAtMs }) => ({ kind, id, resources, expiresAtMs }),
  columns: [
    ["KIND", ({ kind }) => kind],
    ["ID", ({ id }) => id],
    ["HOLDS", ({ resources }) => resources, "right"],
    ["EXPIRES", ({ expiresAtMs }) => (expiresAtMs === null ? "" : shownTime(expiresAtMs))],
  ],
};

function addOne(program: Command): void {
  const command = program
    .command("semaphore")
    .description("show how much of a semaphore is in use; exits with 1 if there is none")
    .argument("<name>")
    .action(
      action<EncodingOptions, [string]>(async ({ client, call, output }, options, text) => {
        const name = bytesGiven(text, options);
        const state = await client.inspectSemaphore(name, call);
        if (state === null) {
          await output.print({ ...jsonBytes("name", name), found: false }, () => null);
          output.note(output.faint("no such semaphore"));
          return ExitCode.refused;
        }
        const { consumption, mostHeld } = state;
        const json = { ...semaphoreJson({ name, ...state }), found: true };
        await output.print(json, () =>
          listOf(output, [
            ["in use", String(consumption)],
            ["most held", String(mostHeld)],
          ]),
        );
      }),
    );
  addConnectionOptions(addEncodingOptions(command, "the name"));
}

function addHolders(program: Command): void {
  const command = program
    .command("holders")
    .description("list the holders of a semaphore")
    .argument("<name>")
    .addOption(limitOption())
    .action(
      action<ListOptions, [string]>(async ({ client, call, output }, options, text) => {
        const name = bytesGiven(text, options);
        await printPages(output, HOLDERS, options.limit, async (limit, behind) => {
          const page = await client.holders(name, { limit, ...behind, ...call });
          return { rows: page.holders, cursor: page.cursor };
        });
      }),
    );
  addConnectionOptions(addEncodingOptions(command, "the name"));
}
