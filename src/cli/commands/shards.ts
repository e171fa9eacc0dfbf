/** `shards`: which shards a namespace has, and what they do. `split`: gives a part of one to a new shard. */
import type { Command } from "commander";
import type { BegunSplit, ShardRow, Shards } from "../../wire/shards.ts";
import type { Json } from "../output.ts";
import { ExitCode } from "../exit-code.ts";
import { action, type Invocation } from "../invocation.ts";
import { addConnectionOptions, wholeArgument } from "../options.ts";
import { askServer } from "../server-request.ts";
import { tableOf, type Column } from "../table.ts";

const CIRCLE = 2 ** 32;

interface SplitOptions {
  readonly at?: number;
}

export function addShards(program: Command): void {
  const command = program
    .command("shards")
    .description("list the shards of the namespace, their records, calls and splits")
    .action(
      action<object, []>(async (invocation) => {
        const answer = await ask(invocation, "/v1/shards", "shards");
        const { shards } = answer as unknown as Shards;
        await invocation.output.print(answer, () => tableOf(invocation.output, COLUMNS, shards));
        return ExitCode.done;
      }),
    );
  addConnectionOptions(command);
}

export function addSplit(program: Command): void {
  const command = program
    .command("split")
    .description("split a shard in two, while it serves")
    .argument("<shard>", "as `shards` shows it")
    .option(
      "--at <hash>",
      "first hash of the upper part, 1 to 4294967295 (default: the middle of the records)",
      wholeArgument(1, CIRCLE - 1),
    )
    .action(
      action<SplitOptions, [string]>(async (invocation, { at }, shard) => {
        const { namespace } = await ask(invocation, "/v1/overview", "namespace");
        const body = { namespace: namespace!, shard, ...(at === undefined ? {} : { at }) };
        const answer = await ask(invocation, "/v1/shards/split", "newShard", body);
        const { newShard } = answer as unknown as BegunSplit;
        await invocation.output.print(
          answer,
          () =>
            `shard ${shard} gives a part of its range to shard ${newShard}; \`shards\` shows when it is done`,
        );
        return ExitCode.done;
      }),
    );
  addConnectionOptions(command);
}

const COLUMNS: readonly Column<ShardRow>[] = [
  ["shard", ({ shard }) => shard],
  ["of the keys", ({ from, to }) => percent((to - from) / CIRCLE), "right"],
  ["records", ({ records }) => records, "right"],
  ["memory", ({ bytes, bytesMax }) => percent(bytesMax === 0 ? 0 : bytes / bytesMax), "right"],
  ["calls/s", ({ callsPerSecond }) => Math.round(callsPerSecond), "right"],
  ["state", stateOf],
];

function stateOf({ split, splitProblem, isHot }: ShardRow): string {
  const parts = [
    ...(split === null ? [] : [split.isGiven ? "split" : "splits"]),
    ...(isHot ? ["hot"] : []),
    // A server of the release before does not say it.
    ...(splitProblem ? [`can't split: ${splitProblem}`] : []),
  ];
  return parts.join(", ") || "-";
}

const percent = (share: number): string => `${(100 * share).toFixed(1)} %`;

async function ask(
  { settings, signal }: Invocation,
  path: string,
  field: string,
  body?: Json,
): Promise<Record<string, Json>> {
  const request = { path, token: settings.token, field, ...(body === undefined ? {} : { body }) };
  return await askServer(settings, request, signal);
}
