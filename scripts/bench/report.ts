/** What a run was measured on, and how its figures compare with the aims. */
import { statfsSync, readFileSync } from "node:fs";
import { cpus, totalmem } from "node:os";
import { ROOT } from "../server.ts";
import type { Figures } from "./figures.ts";
import { count, percent } from "./format.ts";
import type { LocalFigures, Way, WayFigures } from "./local.ts";
import { list, section, table } from "./markdown.ts";
import type { Cell } from "./matrix.ts";
import type { MetricsFigures } from "./metrics.ts";
import type { Options } from "./options.ts";

export interface Machine {
  readonly date: string;
  readonly processor: string;
  readonly processors: number;
  readonly memoryBytes: number;
  readonly throttrEdge: string;
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
  return {
    date: new Date().toISOString(),
    processor: cpus()[0]?.model.trim() ?? "unknown",
    processors: cpus().length,
    memoryBytes: totalmem(),
    throttrEdge: versionOf("package.json"),
    node: process.version,
    workerd: versionOf("node_modules/workerd/package.json"),
    redis,
    filesInMemory: statfsSync(folder).type === TMPFS,
  };
}

function versionOf(manifest: string): string {
  return (JSON.parse(readFileSync(`${ROOT}${manifest}`, "utf8")) as { version: string }).version;
}

export function headerText(machine: Machine): string {
  const { processors, processor, memoryBytes, throttrEdge, node, workerd, redis } = machine;
  return list([
    `${machine.date.slice(0, 16).replace("T", " ")} UTC, ` +
      `${processors} x ${processor}, ${count(memoryBytes / (1 << 30))} GiB of memory`,
    `Throttr Edge ${throttrEdge}, workerd ${workerd}, Node ${node}` +
      (redis === null ? "; Redis is not installed, so its columns are empty" : `, Redis ${redis}`),
    machine.filesInMemory
      ? "Files are kept in memory here, so a commit costs less than on a disk"
      : "Files are on a disk; each commit of ours is synced before its reply leaves",
  ]);
}

const TABLE_TITLES = [
  "operation",
  "depth",
  "connections",
  "shards",
  "ops/s",
  "p50 ms",
  "p99 ms",
  "echo ops/s",
  "x echo",
  "Redis everysec",
  "x",
  "Redis always",
  "x",
  "p50 x echo",
];

export function tableText(cells: readonly Cell[], { rounds, durationMs }: Options): string {
  return section(
    "Throughput and latency over TCP",
    list([
      `Each figure is the median of ${rounds} rounds of ${durationMs} ms. Depth is the number of requests under way on ` +
        "each connection.",
      "Echo is a Durable Object that sends back what it receives, behind the same TCP door: the limit of the platform.",
      "Redis writes an append-only file, synced every second (`everysec`) or before each reply (`always`). " +
        "UPDATE is DECRBY there, QUERY is GET, and the others are SET.",
      "INSERT creates a new key each time, which expires after 200 ms. SHARD_BYTES_MAX is 112 MiB.",
    ]),
    table(TABLE_TITLES, cells.map(fieldsOf)),
  );
}

function fieldsOf(cell: Cell): string[] {
  const { server, echo, redis, redisAlways } = cell;
  const beside = (other: Cell["redis"]): string[] =>
    other === null ? ["-", "-"] : [count(other.opsPerS), times(server.opsPerS / other.opsPerS)];
  const refused = server.refusedShare > 0 ? ` (${percent(server.refusedShare)} refused)` : "";
  return [
    cell.operation,
    count(cell.depth),
    String(cell.connections),
    String(cell.shards),
    count(server.opsPerS) + refused,
    server.p50Ms.toFixed(3),
    server.p99Ms.toFixed(3),
    count(echo.opsPerS),
    times(server.opsPerS / echo.opsPerS),
    ...beside(redis),
    ...beside(redisAlways),
    cell.depth === 1 ? times(server.p50Ms / echo.p50Ms) : "-",
  ];
}

const times = (ratio: number): string => ratio.toFixed(2);

export function figuresText({ million, coldStart, rows }: Figures): string {
  const { counters, keyBytes, bytes, overheadBytes } = million;
  const { emptyMs, millionMs } = coldStart;
  return section(
    "Memory, cold start and rows",
    list([
      `${count(counters)} counters under keys of ${keyBytes} bytes take ${count(bytes)} bytes in one shard, by its own ` +
        `count: ${(overheadBytes + keyBytes).toFixed(1)} each, ${overheadBytes.toFixed(1)} without the key.`,
      `The first QUERY after \`kill -9\` and a restart takes ${millionMs.toFixed(0)} ms with these counters and ` +
        `${emptyMs.toFixed(0)} ms without records, from opening the connection, with files in the page cache: loading ` +
        `takes ${(millionMs - emptyMs).toFixed(0)} ms (${count(million.journalRows)} rows of journal, ` +
        `${count(million.journalBytes)} bytes).`,
    ]),
    "Rows of the journal per million UPDATEs on one connection, without rows of alarms and of cuts (at most 1 in 10):",
    table(
      ["depth", "rows", "counted over"],
      rows.map(({ depth, operations, rowsPerMillion }) => [
        count(depth),
        count(rowsPerMillion),
        count(operations),
      ]),
    ),
  );
}

/** What of a run has aims; null for parts that were not measured. */
export interface Measured {
  readonly cells: readonly Cell[];
  readonly figures: Figures | null;
  readonly metrics: MetricsFigures | null;
  readonly local: LocalFigures | null;
}

/** Compares with the aims: UPDATE, 1 connection, 1 shard; memory; cold start; what metrics cost; local decisions. */
export function aimsOf({ cells, figures, metrics, local }: Measured): Aim[] {
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
  const ratio = (value: number): string => `${times(value)} x`;
  const dollars = (value: number): string => `$${value.toPrecision(2)}`;
  const bytes = (value: number): string => `${value.toFixed(1)} bytes`;
  const wayOf = (name: Way): WayFigures | undefined => local?.ways.find(({ way }) => way === name);
  const localPrice = local?.prices.find(
    ({ way, askedPerS }) => way === "local" && askedPerS === 10_000,
  );
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
      ratio,
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
    atLeast("`local` decisions/s: a `Map`'s", 0.5, wayOf("local")?.timesMap ?? undefined, ratio),
    atMost("`local` at 10,000/s on a key: per million", 0.02, localPrice?.dollars, dollars),
    atLeast(
      "lone `limit` inside the Worker: own counter's",
      0.9,
      wayOf("embedded")?.loneTimesCounter,
      ratio,
    ),
  ];
}

type Format = (value: number) => string;

function atLeast(
  name: string,
  wanted: number | undefined,
  measured: number | undefined,
  format: Format,
): Aim {
  return aim(name, "at least", wanted, measured, format, 1);
}

function atMost(
  name: string,
  wanted: number | undefined,
  measured: number | undefined,
  format: Format,
): Aim {
  return aim(name, "at most", wanted, measured, format, -1);
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
  const verdict = ({ isMet, margin }: Aim): string => {
    if (isMet === null) return "not measured";
    const distance = percent(Math.abs(margin!));
    return isMet ? `met, ${distance} to spare` : `missed by ${distance}`;
  };
  return section(
    "Aims",
    "With one connection, one shard and strict durability:",
    table(
      ["aim", "wanted", "measured", "verdict"],
      aims.map((its) => [its.name, its.wanted, its.measured, verdict(its)]),
    ),
  );
}
