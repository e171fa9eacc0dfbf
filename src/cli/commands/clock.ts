/**
 * `clock`: shows how far each shard's time is ahead of the platform's clock, and sets it back.
 *
 * A machine whose clock was ahead for a while leaves such a lag: expired records must stay expired, so shards let time
 * pass a little slower until the clock has caught up. `--reset` ends that at once (docs/operations.md).
 */
import type { Command } from "commander";
import type { Overview } from "../../wire/overview.ts";
import { ExitCode } from "../exit-code.ts";
import { action, type Invocation } from "../invocation.ts";
import { addConnectionOptions } from "../options.ts";
import { askServer } from "../server-request.ts";
import { tableOf, type Column } from "../table.ts";

interface ClockOptions {
  readonly reset?: true;
}

/** The answer of `/v1/admin/clock`. */
interface SetBack {
  readonly shards: readonly { readonly index: number; readonly setBackMs: number }[];
}

export function addClock(program: Command): void {
  const command = program
    .command("clock")
    .description("show how far each shard's time is ahead of the clock")
    .option(
      "--reset",
      "set the times of all records back by that time, once the clock is right again",
    )
    .action(
      action<ClockOptions, []>(async (invocation, { reset = false }) => {
        const overview = await ask<Overview>(invocation, "/v1/overview");
        if (reset) await setBack(invocation, overview);
        else await tell(invocation, overview);
        return ExitCode.done;
      }),
    );
  addConnectionOptions(command);
}

/** Prints the lag of each shard; a shard that does not answer shows its code. */
async function tell({ output }: Invocation, { shards }: Overview): Promise<void> {
  const rows = shards.map((shard) =>
    shard.isUnreachable
      ? { index: shard.index, shard: shard.shard, code: shard.code }
      : { index: shard.index, shard: shard.shard, lagMs: shard.clockLagMs },
  );
  await output.print({ shards: rows }, () =>
    tableOf<(typeof rows)[number]>(
      output,
      [
        ["shard", ({ shard }) => shard],
        ["ahead by", (row) => ("code" in row ? row.code : `${row.lagMs} ms`), "right"],
      ],
      rows,
    ),
  );
}

/** Sets all shards back, and prints by how much. */
async function setBack(
  invocation: Invocation,
  { namespace, shards: known }: Overview,
): Promise<void> {
  const { output } = invocation;
  const { shards } = await ask<SetBack>(invocation, "/v1/admin/clock", { namespace });
  // The answer names no shards, and a split since the overview moves their places.
  const isSame = shards.length === known.length;
  const rows = shards.map((row) => ({ ...row, shard: isSame ? known[row.index]!.shard : null }));
  await output.print({ shards: rows }, () => tableOf(output, SET_BACK, rows));
}

interface NamedSetBack {
  readonly shard: string | null;
  readonly setBackMs: number;
}

/** The columns of `clock --reset`. */
const SET_BACK: readonly Column<NamedSetBack>[] = [
  ["shard", ({ shard }) => shard ?? "-"],
  ["set back by", ({ setBackMs }) => `${setBackMs} ms`, "right"],
];

/**
 * Asks a route as the token's holder. The answer has the shape that the server of this release
 * gives.
 */
async function ask<Answer>(
  { settings, signal }: Invocation,
  path: string,
  body?: { readonly namespace: string },
): Promise<Answer> {
  const request = {
    path,
    token: settings.token,
    field: "shards",
    ...(body === undefined ? {} : { body }),
  };
  return (await askServer(settings, request, signal)) as Answer;
}
