/** `semaphores`, `semaphore` and `holders`: shows how much of semaphores is in use, and by which holders. */
import { Option, type Command } from "commander";
import type { Holder, ListedSemaphore } from "../../wire/edge/semaphores.ts";
import { ExitCode } from "../exit-code.ts";
import { action, type Invocation } from "../invocation.ts";
import {
  addConnectionOptions,
  addEncodingOptions,
  encodingOf,
  wholeArgument,
  type EncodingOptions,
} from "../options.ts";
import { pagesOf } from "../pages.ts";
import { shownTime } from "../records.ts";
import { listOf, tableOf } from "../table.ts";
import { bytesOfArgument, jsonBytes, shownBytes } from "../text.ts";

interface ListOptions extends EncodingOptions {
  readonly prefix?: string;
  readonly limit?: number;
}

export function addSemaphores(program: Command): void {
  addList(program);
  addOne(program);
  addHolders(program);
}

const limitOption = (): Option =>
  new Option("--limit <n>", "at most this many").argParser(wholeArgument(1));

function addList(program: Command): void {
  const command = program
    .command("semaphores")
    .description("list semaphores in the order of their names")
    .option("--prefix <prefix>", "only names that begin with it")
    .addOption(limitOption())
    .action(
      action<ListOptions, []>(async ({ client, call, output }, options) => {
        const prefix = bytesOfArgument(options.prefix ?? "", encodingOf(options));
        const pages = pagesOf(options.limit, async (limit, behind) => {
          const page = await client.semaphores({ prefix, limit, ...behind, ...call });
          return { rows: page.semaphores, cursor: page.cursor };
        });
        for await (const { rows, isFirst } of pages) {
          for (const row of output.isJson ? rows : []) {
            await output.print(semaphoreJson(row), () => null);
          }
          const headings = [
            { heading: "NAME" },
            { heading: "IN USE", isNumber: true },
            { heading: "MOST HELD", isNumber: true },
          ];
          const cells = rows.map(({ name, consumption, mostHeld }) => [
            shownBytes(name),
            String(consumption),
            String(mostHeld),
          ]);
          await output.text(tableOf(output, headings, cells, isFirst));
        }
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

function addOne(program: Command): void {
  const command = program
    .command("semaphore")
    .description("show how much of a semaphore is in use; exits with 1 if there is none")
    .argument("<name>")
    .action(
      action<EncodingOptions, [string]>(async ({ client, call, output }, options, text) => {
        const name = bytesOfArgument(text, encodingOf(options));
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
      action<ListOptions, [string]>(async (invocation, options, text) => {
        const { client, call } = invocation;
        const name = bytesOfArgument(text, encodingOf(options));
        const pages = pagesOf(options.limit, async (limit, behind) => {
          const page = await client.holders(name, { limit, ...behind, ...call });
          return { rows: page.holders, cursor: page.cursor };
        });
        for await (const { rows, isFirst } of pages) await printHolders(invocation, rows, isFirst);
      }),
    );
  addConnectionOptions(addEncodingOptions(command, "the name"));
}

async function printHolders(
  { output }: Invocation,
  holders: readonly Holder[],
  isFirst: boolean,
): Promise<void> {
  for (const { kind, id, resources, expiresAtMs } of output.isJson ? holders : []) {
    await output.print({ kind, id, resources, expiresAtMs }, () => null);
  }
  const headings = [
    { heading: "KIND" },
    { heading: "ID" },
    { heading: "HOLDS", isNumber: true },
    { heading: "EXPIRES" },
  ];
  const cells = holders.map(({ kind, id, resources, expiresAtMs }) => [
    kind,
    id,
    String(resources),
    expiresAtMs === null ? "" : shownTime(expiresAtMs),
  ]);
  await output.text(tableOf(output, headings, cells, isFirst));
}
