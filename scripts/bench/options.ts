/** What a run measures: the flags of `npm run bench`. */
import { parseArgs } from "node:util";
import { FRAMES, OPERATIONS, type Operation } from "./frames.ts";

/** What can be measured. */
export const PARTS = [
  "table",
  "figures",
  "fan-out",
  "list",
  "metrics",
  "limits",
  "local",
  "semaphores",
  "split",
  "memory",
] as const;
export type Part = (typeof PARTS)[number];

export interface Options {
  readonly isJson: boolean;
  /** Fewer rounds and depths of what is not in the table, too. */
  readonly isQuick: boolean;
  readonly parts: readonly Part[];
  readonly operations: readonly Operation[];
  readonly depths: readonly number[];
  readonly connections: readonly number[];
  readonly shards: readonly number[];
  readonly warmUpMs: number;
  readonly durationMs: number;
  /** Each cell is measured so often, with the others in between; the median counts. */
  readonly rounds: number;
  /** A commit whose sources are measured beside these; null for none. */
  readonly against: string | null;
  /** A document to write what was measured to; null for none. */
  readonly writeTo: string | null;
  /** The command that measures the same. */
  readonly command: string;
}

const USAGE = `Usage: npm run bench -- [flags]

  --quick              UPDATE only, 1 connection, 1 shard, short durations, fewer keys and rounds
  --json               JSON instead of Markdown
  --write FILE         writes the Markdown to a document, too, with charts (docs/performance.md)
  --parts LIST         of table, figures (bytes per key, cold start, rows per operation), fan-out,
                       list (of 1,000,000 keys), metrics (what METRICS=on costs),
                       limits (rate limits over a service binding),
                       local (each way to decide, beside a Map and counter objects of one's own; its price),
                       semaphores (the yrmcds protocol, beside yrmcdsd),
                       split (of a shard with 24 MiB, under load),
                       memory (of idle connections)           (all)
  --operations LIST    of UPDATE, QUERY, INSERT, SET            (all)
  --depths LIST        requests under way per connection        (1,32,1024,8192)
  --connections LIST                                            (1,16)
  --shards LIST        values of SHARDS                         (1,4)
  --duration MS        measured time of a cell and round        (700; 500 with --quick)
  --warm-up MS         before each measurement                  (300)
  --rounds N           measurements of a cell; the median counts (3)
  --against COMMIT     split also compares UPDATEs of one shard with the sources of a commit
  --table-only         as --parts table
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
    isQuick,
    parts: namesOf(
      "parts",
      flags.parts ?? (flags["table-only"] ? "table" : PARTS.join(",")),
      PARTS,
    ),
    operations: namesOf(
      "operations",
      (flags.operations ?? (isQuick ? "UPDATE" : OPERATIONS.join(","))).toUpperCase(),
      OPERATIONS,
    ),
    depths: integers("depths", flags.depths ?? "1,32,1024,8192", FRAMES),
    connections: integers("connections", flags.connections ?? (isQuick ? "1" : "1,16"), 1000),
    shards: integers("shards", flags.shards ?? (isQuick ? "1" : "1,4"), 128),
    warmUpMs: integer("warm-up", flags["warm-up"] ?? "300", 60_000),
    durationMs: integer("duration", flags.duration ?? (isQuick ? "500" : "700"), 600_000),
    rounds: integer("rounds", flags.rounds ?? "3", 100),
    against: flags.against ?? null,
    writeTo: flags.write ?? null,
    command: commandOf(args),
  };
}

/** The command of a run, without where it writes. */
function commandOf(args: readonly string[]): string {
  const flags = args.filter(
    (arg, index) => !arg.startsWith("--write") && args[index - 1] !== "--write",
  );
  return ["npm run bench", ...(flags.length === 0 ? [] : ["--", ...flags])].join(" ");
}

function parseFlags(args: readonly string[]) {
  try {
    return parseArgs({
      args: [...args],
      options: {
        quick: { type: "boolean" },
        json: { type: "boolean" },
        against: { type: "string" },
        write: { type: "string" },
        parts: { type: "string" },
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

function namesOf<T extends string>(flag: string, list: string, valid: readonly T[]): T[] {
  const names = list.split(",");
  const unknown = names.find((name) => !valid.includes(name as T));
  if (unknown !== undefined) {
    throw new UsageError(`--${flag}: ${unknown} is not one of ${valid.join(", ")}`);
  }
  return names as T[];
}

function integers(flag: string, list: string, max: number): number[] {
  return list.split(",").map((text) => integer(flag, text, max));
}

function integer(flag: string, text: string, max: number): number {
  const value = Number(text);
  if (Number.isInteger(value) && value >= 1 && value <= max) return value;
  throw new UsageError(`--${flag}: ${text} is not an integer from 1 to ${max}`);
}
