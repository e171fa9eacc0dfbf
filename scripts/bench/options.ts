/** What a run measures: the flags of `npm run bench`. */
import { parseArgs } from "node:util";
import { FRAMES, OPERATIONS, type Operation } from "./frames.ts";

export interface Options {
  readonly isJson: boolean;
  readonly operations: readonly Operation[];
  readonly depths: readonly number[];
  readonly connections: readonly number[];
  readonly shards: readonly number[];
  readonly warmUpMs: number;
  readonly durationMs: number;
  /** Each cell is measured so often, with the others in between; the median counts. */
  readonly rounds: number;
  /** Measure what is not in the table, too: bytes per key, cold start, rows per operation. */
  readonly hasFigures: boolean;
}

const USAGE = `Usage: npm run bench -- [flags]

  --quick              UPDATE only, 1 connection, 1 shard, short durations
  --json               JSON instead of a table
  --operations LIST    of UPDATE, QUERY, INSERT, SET            (all)
  --depths LIST        requests under way per connection        (1,32,1024,8192)
  --connections LIST                                            (1,16)
  --shards LIST        values of SHARDS                         (1,4)
  --duration MS        measured time of a cell and round        (700; 500 with --quick)
  --warm-up MS         before each measurement                  (300)
  --rounds N           measurements of a cell; the median counts (3)
  --table-only         no bytes per key, cold start and rows per operation
`;

/** A flag has a value that it can't have, or the flags are asked for. */
export class UsageError extends Error {
  readonly isHelp: boolean;

  constructor(message: string, isHelp = false) {
    super(message);
    this.isHelp = isHelp;
  }
}

/** @throws UsageError for flags that make no sense, with how to use them, and for --help */
export function readOptions(args: readonly string[]): Options {
  const flags = parseFlags(args);
  if (flags.help === true) throw new UsageError(USAGE, true);
  const isQuick = flags.quick === true;
  return {
    isJson: flags.json === true,
    operations: operationsOf(flags.operations ?? (isQuick ? "UPDATE" : OPERATIONS.join(","))),
    depths: integers("depths", flags.depths ?? "1,32,1024,8192", FRAMES),
    connections: integers("connections", flags.connections ?? (isQuick ? "1" : "1,16"), 1000),
    shards: integers("shards", flags.shards ?? (isQuick ? "1" : "1,4"), 128),
    warmUpMs: integer("warm-up", flags["warm-up"] ?? "300", 60_000),
    durationMs: integer("duration", flags.duration ?? (isQuick ? "500" : "700"), 600_000),
    rounds: integer("rounds", flags.rounds ?? "3", 100),
    hasFigures: flags["table-only"] !== true,
  };
}

function parseFlags(args: readonly string[]) {
  try {
    return parseArgs({
      args: [...args],
      options: {
        quick: { type: "boolean" },
        json: { type: "boolean" },
        operations: { type: "string" },
        depths: { type: "string" },
        connections: { type: "string" },
        shards: { type: "string" },
        duration: { type: "string" },
        "warm-up": { type: "string" },
        rounds: { type: "string" },
        "table-only": { type: "boolean" },
        help: { type: "boolean", short: "h" },
      },
    }).values;
  } catch (error) {
    throw new UsageError(`${(error as Error).message}\n\n${USAGE}`);
  }
}

function operationsOf(list: string): Operation[] {
  const names = list.toUpperCase().split(",");
  const unknown = names.find((name) => !OPERATIONS.includes(name as Operation));
  if (unknown !== undefined) {
    throw new UsageError(`--operations: ${unknown} is none of ${OPERATIONS.join(", ")}`);
  }
  return names as Operation[];
}

function integers(flag: string, list: string, max: number): number[] {
  return list.split(",").map((text) => integer(flag, text, max));
}

function integer(flag: string, text: string, max: number): number {
  const value = Number(text);
  if (Number.isInteger(value) && value >= 1 && value <= max) return value;
  throw new UsageError(`--${flag}: ${text} is no integer from 1 to ${max}`);
}
