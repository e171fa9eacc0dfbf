/** What a run says on screen: the machine, the table, the figures beside it, and the aims. */
import { statfsSync, readFileSync } from "node:fs";
import { cpus } from "node:os";
import { ROOT } from "../server.ts";
import type { Figures } from "./figures.ts";
import { count, percent } from "./format.ts";
import type { Cell } from "./matrix.ts";
import type { MetricsFigures } from "./metrics.ts";
import type { Options } from "./options.ts";

export interface Machine {
  readonly date: string;
  readonly processor: string;
  readonly processors: number;
  readonly node: string;
  readonly workerd: string;
  readonly redis: string | null;
  readonly filesInMemory: boolean;
}

/** A figure beside what it should be. */
export interface Aim {
  readonly name: string;
  readonly wanted: string;
  readonly measured: string;
  /** Null when the run did not measure it. */
  readonly isMet: boolean | null;
  /** How far beyond the aim, as a share of it; negative when it is missed. */
  readonly margin: number | null;
}

const TMPFS = 0x01021994;

export function describeMachine(folder: string, redis: string | null): Machine {
  const workerd = readFileSync(`${ROOT}node_modules/workerd/package.json`, "utf8");
  return {
    date: new Date().toISOString(),
    processor: cpus()[0]?.model.trim() ?? "unknown",
    processors: cpus().length,
    node: process.version,
    workerd: (JSON.parse(workerd) as { version: string }).version,
    redis,
    filesInMemory: statfsSync(folder).type === TMPFS,
  };
}

export function headerText(machine: Machine, options: Options): string {
  const { processors, processor, node, workerd, redis } = machine;
  const lines = [
    `${machine.date.slice(0, 16).replace("T", " ")} UTC`,
    `${processors} x ${processor}; node ${node}, workerd ${workerd}${redis === null ? "" : `, Redis ${redis}`}`,
    `strict durability${machine.filesInMemory ? ", but files are kept in memory" : ""}; ` +
      `median of ${options.rounds} x ${options.durationMs} ms per cell`,
    "echo: a Durable Object that sends back what it gets, behind the same TCP door",
    redis === null
      ? "NO REDIS: redis-server is not installed, its columns are skipped"
      : "Redis: append-only file, synced every second; UPDATE is DECRBY, QUERY is GET, the others SET",
    "INSERT: a new key each time, which expires after 200 ms; SHARD_BYTES_MAX is 112 MiB",
  ];
  return lines.join("\n");
}

const COLUMNS: readonly (readonly [title: string, width: number])[] = [
  ["operation", -9],
  ["depth", 6],
  ["conns", 6],
  ["shards", 7],
  ["ops/s", 10],
  ["p50 ms", 9],
  ["p99 ms", 9],
  ["echo ops/s", 11],
  ["x echo", 7],
  ["Redis ops/s", 12],
  ["x Redis", 8],
  ["p50 x echo", 11],
];

export function tableHead(): string {
  const titles = rowText(COLUMNS.map(([title]) => title));
  return `${titles}\n${"-".repeat(titles.length)}`;
}

export function tableRow(cell: Cell): string {
  const { server, echo, redis } = cell;
  const refused = server.refusedShare > 0 ? `  ${percent(server.refusedShare)} refused` : "";
  const row = rowText([
    cell.operation,
    String(cell.depth),
    String(cell.connections),
    String(cell.shards),
    count(server.opsPerS),
    server.p50Ms.toFixed(3),
    server.p99Ms.toFixed(3),
    count(echo.opsPerS),
    (server.opsPerS / echo.opsPerS).toFixed(2),
    redis === null ? "-" : count(redis.opsPerS),
    redis === null ? "-" : (server.opsPerS / redis.opsPerS).toFixed(2),
    cell.depth === 1 ? (server.p50Ms / echo.p50Ms).toFixed(2) : "-",
  ]);
  return row + refused;
}

function rowText(fields: readonly string[]): string {
  return fields
    .map((field, column) => {
      const width = COLUMNS[column]![1];
      return width < 0 ? field.padEnd(-width) : field.padStart(width);
    })
    .join("");
}

export function figuresText({ million, coldStart, rows }: Figures): string {
  const { counters, keyBytes, bytes, overheadBytes } = million;
  const { emptyMs, millionMs } = coldStart;
  return [
    `${count(counters)} counters, keys of ${keyBytes} bytes, 1 shard, by its own count`,
    `  ${count(bytes)} bytes: ${(overheadBytes + keyBytes).toFixed(1)} per counter, ` +
      `${overheadBytes.toFixed(1)} without the key`,
    "first QUERY after kill -9 and restart, from opening the connection; files in the page cache",
    `  ${millionMs.toFixed(0)} ms with these counters, ${emptyMs.toFixed(0)} ms without records: ` +
      `loading takes ${(millionMs - emptyMs).toFixed(0)} ms ` +
      `(journal: ${count(million.journalRows)} rows, ${count(million.journalBytes)} bytes)`,
    "journal rows per million UPDATEs, 1 connection, from the journal's length before and after",
    `a short run over few keys; rows of alarms and of cuts (at most 1 in 10) are not counted`,
    ...rows.map(
      ({ depth, operations, rowsPerMillion }) =>
        `  depth ${count(depth).padStart(5)}: ${count(rowsPerMillion).padStart(9)} (of ${count(operations)})`,
    ),
  ].join("\n");
}

/** Compares with the aims: UPDATE, 1 connection, 1 shard; memory; cold start; what metrics cost. */
export function aimsOf(
  cells: readonly Cell[],
  figures: Figures | null,
  metrics: MetricsFigures | null,
): Aim[] {
  const at = (depth: number): Cell | undefined =>
    cells.find(
      (cell) =>
        cell.operation === "UPDATE" &&
        cell.depth === depth &&
        cell.connections === 1 &&
        cell.shards === 1,
    );
  const [one, some, many] = [at(1), at(32), at(1024)];
  const opsPerS = (value: number): string => `${count(value)}/s`;
  const times = (value: number): string => `${value.toFixed(2)} x`;
  const bytes = (value: number): string => `${value.toFixed(1)} bytes`;
  const lostAt = (depth: number): number | undefined =>
    metrics?.server.find((cost) => cost.depth === depth)?.lostShare;
  return [
    atLeast("UPDATE, depth 1,024", 1e6, many?.server.opsPerS, opsPerS),
    atLeast("UPDATE, depth 1,024: Redis", many?.redis?.opsPerS, many?.server.opsPerS, opsPerS),
    atLeast("UPDATE, depth 32", 100_000, some?.server.opsPerS, opsPerS),
    atMost(
      "UPDATE, depth 1: p50 to the echo's",
      1.5,
      one && one.server.p50Ms / one.echo.p50Ms,
      times,
    ),
    atMost("bytes per counter beside the key", 64, figures?.million.overheadBytes, bytes),
    atMost(
      "cold start with 1,000,000 counters",
      1000,
      figures?.coldStart.millionMs,
      (value) => `${value.toFixed(0)} ms`,
    ),
    atMost("METRICS=on: UPDATEs lost, depth 1,024", 0.05, lostAt(1024), percent),
    atMost("METRICS=on: UPDATEs lost, depth 8,192", 0.05, lostAt(8192), percent),
    atMost("METRICS=on: bytes per key", 16, metrics?.memory.bytesPerKey, bytes),
  ];
}

type Format = (value: number) => string;

function atLeast(
  name: string,
  wanted: number | undefined,
  measured: number | undefined,
  format: Format,
): Aim {
  return aim(name, ">=", wanted, measured, format, 1);
}

function atMost(
  name: string,
  wanted: number | undefined,
  measured: number | undefined,
  format: Format,
): Aim {
  return aim(name, "<=", wanted, measured, format, -1);
}

function aim(
  name: string,
  relation: string,
  wanted: number | undefined,
  measured: number | undefined,
  format: Format,
  direction: 1 | -1,
): Aim {
  const margin =
    wanted === undefined || measured === undefined
      ? null
      : (direction * (measured - wanted)) / wanted;
  return {
    name,
    wanted: wanted === undefined ? "-" : `${relation} ${format(wanted)}`,
    measured: measured === undefined ? "-" : format(measured),
    isMet: margin === null ? null : margin >= 0,
    margin,
  };
}

export function aimsText(aims: readonly Aim[]): string {
  const lines = aims.map(({ name, wanted, measured, isMet, margin }) => {
    const verdict =
      isMet === null
        ? "not measured"
        : `${isMet ? "met, " : "MISSED by "}${percent(Math.abs(margin!))}${isMet ? " to spare" : ""}`;
    return `  ${name.padEnd(39)}${wanted.padEnd(18)}${measured.padStart(14)}  ${verdict}`;
  });
  return ["aims (1 connection, 1 shard, strict)", ...lines].join("\n");
}
