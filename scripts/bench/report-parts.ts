/** What a run says on screen of fan-out, of listing, of what metrics cost, of semaphores and of memory. */
import type { FanOutCell, FanOutFigures } from "./fan-out.ts";
import { count, mebibytes, percent } from "./format.ts";
import type { ListDoorFigures, ListFigures } from "./list.ts";
import type { ListMeasurement } from "./list-load.ts";
import type { Measurement } from "./load.ts";
import type { IdleMemory, MemoryFigures } from "./memory.ts";
import type { Cost, MetricsFigures } from "./metrics.ts";
import type { SemaphoreCell, SemaphoreFigures } from "./semaphores.ts";

export function fanOutText(figures: FanOutFigures): string {
  const { subscribers, payloadBytes, hubs, isDirect, cells } = figures;
  return [
    `fan-out: 1 publisher, ${count(subscribers)} subscribers over ${hubs.length} Hubs ` +
      `(${hubs.join(", ")} connections); payloads of ${payloadBytes} bytes`,
    `WebSockets, ${isDirect ? "straight to the runtime" : "through the proxy of wrangler"}; ` +
      "bare: a Durable Object that sends each message to all of its sockets",
    "a publish is under way until its last subscriber has it; times from publish to delivery;",
    "generator: what the load generator takes of a processor, beside ours and beside the bare object",
    rowOf(FAN_OUT_TITLES, FAN_OUT_WIDTHS),
    ...cells.map((cell) => rowOf(fanOutFields(cell), FAN_OUT_WIDTHS)),
  ].join("\n");
}

const FAN_OUT_TITLES = [
  "depth",
  "deliveries/s",
  "p50 ms",
  "p99 ms",
  "bare deliv./s",
  "p50 ms",
  "p99 ms",
  "x bare",
  "p50 x bare",
  "generator",
];
const FAN_OUT_WIDTHS = [7, 14, 9, 9, 15, 9, 9, 8, 12, 13];

function fanOutFields({ depth, server, bare }: FanOutCell): string[] {
  return [
    count(depth),
    count(server.deliveriesPerS),
    server.p50Ms.toFixed(2),
    server.p99Ms.toFixed(2),
    count(bare.deliveriesPerS),
    bare.p50Ms.toFixed(2),
    bare.p99Ms.toFixed(2),
    (server.deliveriesPerS / bare.deliveriesPerS).toFixed(2),
    (server.p50Ms / bare.p50Ms).toFixed(2),
    `${percent(server.generatorShare)}, ${percent(bare.generatorShare)}`,
  ];
}

export function listText({ keys, keyBytes, shards, tcp, http, redis }: ListFigures): string {
  const doors = [
    ["TCP", tcp],
    ["HTTP", http],
  ] as const;
  return [
    `LIST of ${count(keys)} counters, keys of ${keyBytes} bytes, ${shards} shards of default size; ` +
      "every key came once",
    "HTTP comes through a proxy of wrangler; Redis: KEYS *, which gives names only",
    rowOf(LIST_TITLES, LIST_WIDTHS),
    ...doors.map(([door, figures]) => rowOf(listFields(door, figures, redis), LIST_WIDTHS)),
    ...(redis === null ? [] : [rowOf(listFields("Redis", redis, redis), LIST_WIDTHS)]),
    ...doors.map(([door, { growth }]) =>
      growth === null
        ? `  ${door}: the system does not tell what memory the runtime takes`
        : `  ${door}: the runtime grew by up to ${mebibytes(growth.peakBytes - growth.beforeBytes)} MiB, ` +
          `from ${mebibytes(growth.beforeBytes)} to ${mebibytes(growth.peakBytes)} (resident, each 10 ms)`,
    ),
  ].join("\n");
}

const LIST_TITLES = [
  "door",
  "first byte ms",
  "all ms",
  "keys/s",
  "bytes",
  "fragments",
  "largest",
  "x Redis",
];
const LIST_WIDTHS = [7, 15, 9, 12, 13, 11, 9, 9];

function listFields(
  door: string,
  list: ListMeasurement | ListDoorFigures,
  redis: ListMeasurement | null,
): string[] {
  const { firstByteMs, tookMs, bytes, keys, fragments, fragmentBytesMax } = list;
  return [
    door,
    firstByteMs.toFixed(0),
    tookMs.toFixed(0),
    count((keys / tookMs) * 1000),
    count(bytes),
    fragments === 0 ? "-" : count(fragments),
    fragments === 0 ? "-" : count(fragmentBytesMax),
    redis === null ? "-" : (tookMs / redis.tookMs).toFixed(2),
  ];
}

export function metricsText({ server, engine, memory }: MetricsFigures): string {
  const { counters, keyBytes, onBytes, offBytes, bytesPerKey } = memory;
  const isByProcessorTime = server.every((cost) => cost.isByProcessorTime);
  return [
    "METRICS=on beside METRICS=off, in turns: UPDATEs/s, and what is lost of them, by pair of measurements",
    `per second of ${isByProcessorTime ? "the runtime's" : "the clock's"} time, and, of the engine alone, ` +
      "of its thread's time on a processor",
    rowOf(METRICS_TITLES, METRICS_WIDTHS),
    ...server.map((cost) => costRow(`server, depth ${count(cost.depth)}`, cost)),
    ...engine.map((cost) => costRow(`engine alone, ${count(cost.keys)} keys`, cost)),
    ...server.map(
      ({ depth, onWallOpsPerS, offWallOpsPerS }) =>
        `  by the clock, depth ${count(depth)}: ${count(onWallOpsPerS)}/s on, ${count(offWallOpsPerS)}/s off ` +
        `(medians; they swing with whatever else runs)`,
    ),
    `  ${count(counters)} counters, keys of ${keyBytes} bytes, 1 shard, by its own count: ` +
      `${count(onBytes)} bytes on, ${count(offBytes)} off: ${bytesPerKey.toFixed(1)} per key`,
  ].join("\n");
}

const METRICS_TITLES = ["what", "on", "off", "lost", "least", "most"];
const METRICS_WIDTHS = [-32, 12, 12, 9, 9, 9];

function costRow(what: string, { onOpsPerS, offOpsPerS, lostShare, lostShares }: Cost): string {
  const shares = [lostShare, lostShares[0]!, lostShares.at(-1)!];
  return rowOf([what, count(onOpsPerS), count(offOpsPerS), ...shares.map(percent)], METRICS_WIDTHS);
}

export function memoryText({ connections, echo, server }: MemoryFigures): string {
  const line = (name: string, memory: IdleMemory | null): string => {
    if (memory === null) return `  ${name}: the system does not tell`;
    const { startBytes, perConnectionBytes, afterBytes } = memory;
    const each = (perConnectionBytes / 1024).toFixed(0);
    return (
      `  ${name}: ${each} KiB each; ${mebibytes(startBytes)} MiB before, ` +
      `${mebibytes(afterBytes)} MiB after they have ended`
    );
  };
  return [
    `memory of the runtime: ${count(connections)} TCP connections that have sent one request each`,
    line("bare echo object", echo),
    line("server", server),
  ].join("\n");
}

export function semaphoresText({ yrmcdsd, cells }: SemaphoreFigures): string {
  return [
    "semaphores: pairs of Acquire and Release on 1 TCP connection; depth: pairs under way",
    yrmcdsd === null
      ? "NO YRMCDSD: the original server is not installed (Debian's package yrmcds), its columns are skipped"
      : `yrmcdsd: the original server, ${yrmcdsd}, which keeps nothing on disk`,
    rowOf(SEMAPHORES_TITLES, SEMAPHORES_WIDTHS),
    ...cells.map((cell) => rowOf(semaphoreFields(cell), SEMAPHORES_WIDTHS)),
  ].join("\n");
}

const SEMAPHORES_TITLES = [
  "depth",
  "shards",
  "pairs/s",
  "p50 ms",
  "p99 ms",
  "yrmcdsd pairs/s",
  "p50 ms",
  "p99 ms",
  "x yrmcdsd",
];
const SEMAPHORES_WIDTHS = [7, 8, 12, 9, 9, 17, 9, 9, 11];

function semaphoreFields({ depth, shards, server, yrmcdsd }: SemaphoreCell): string[] {
  const fields = ({ opsPerS, p50Ms, p99Ms }: Measurement): string[] => [
    count(opsPerS),
    p50Ms.toFixed(3),
    p99Ms.toFixed(3),
  ];
  return [
    count(depth),
    count(shards),
    ...fields(server),
    ...(yrmcdsd === null
      ? ["-", "-", "-", "-"]
      : [...fields(yrmcdsd), (server.opsPerS / yrmcdsd.opsPerS).toFixed(2)]),
  ];
}

/** Fields in columns: a negative width aligns to the left. */
export function rowOf(fields: readonly string[], widths: readonly number[]): string {
  const columns = fields.map((field, column) => {
    const width = widths[column]!;
    return width < 0 ? field.padEnd(-width) : field.padStart(width);
  });
  return `  ${columns.join("")}`;
}
