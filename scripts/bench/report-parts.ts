/** What a run says of fan-out, of listing, of what metrics cost, of semaphores and of memory. */
import type { FanOutCell, FanOutFigures } from "./fan-out.ts";
import { count, mebibytes, percent } from "./format.ts";
import type { ListDoorFigures, ListFigures } from "./list.ts";
import type { ListMeasurement } from "./list-load.ts";
import type { Measurement } from "./load.ts";
import { list, section, table } from "./markdown.ts";
import type { IdleMemory, MemoryFigures } from "./memory.ts";
import type { Cost, MetricsFigures } from "./metrics.ts";
import type { SemaphoreCell, SemaphoreFigures } from "./semaphores.ts";

export function fanOutText(figures: FanOutFigures): string {
  const { subscribers, payloadBytes, hubs, isDirect, cells } = figures;
  return section(
    "Fan-out of messages",
    list([
      `1 publisher and ${count(subscribers)} subscribers over ${hubs.length} Hubs (${hubs.join(", ")} connections), ` +
        `payloads of ${payloadBytes} bytes, over WebSockets ` +
        `${isDirect ? "straight to the runtime" : "through the proxy of wrangler"}.`,
      "Bare: a Durable Object that sends each message to all of its sockets.",
      "A publication is under way until its last subscriber has it. Times run from the publication to a delivery.",
      "Generator: processor time of the load generator, beside ours and beside the bare object.",
    ]),
    table(FAN_OUT_TITLES, cells.map(fanOutFields)),
  );
}

const FAN_OUT_TITLES = [
  "depth",
  "deliveries/s",
  "p50 ms",
  "p99 ms",
  "bare deliveries/s",
  "p50 ms",
  "p99 ms",
  "x bare",
  "p50 x bare",
  "generator",
];

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
  return section(
    `LIST of ${count(keys)} counters`,
    list([
      `Keys of ${keyBytes} bytes, ${shards} shards of default size. Every key was listed once.`,
      "HTTP goes through a proxy of wrangler. Redis answers KEYS *, which returns names only.",
      ...doors.map(([door, { growth }]) =>
        growth === null
          ? `${door}: this system does not report the memory of the runtime.`
          : `${door}: the runtime grew by up to ${mebibytes(growth.peakBytes - growth.beforeBytes)} MiB, ` +
            `from ${mebibytes(growth.beforeBytes)} to ${mebibytes(growth.peakBytes)} (resident, every 10 ms).`,
      ),
    ]),
    table(LIST_TITLES, [
      ...doors.map(([door, figures]) => listFields(door, figures, redis)),
      ...(redis === null ? [] : [listFields("Redis", redis, redis)]),
    ]),
  );
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

function listFields(
  door: string,
  figures: ListMeasurement | ListDoorFigures,
  redis: ListMeasurement | null,
): string[] {
  const { firstByteMs, tookMs, bytes, keys, fragments, fragmentBytesMax } = figures;
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
  return section(
    "What METRICS=on costs",
    list([
      "UPDATEs per second with METRICS=on and off, measured in turns, and the share that is lost, by pair of " +
        `measurements. Seconds are of ${isByProcessorTime ? "the runtime's processor time" : "the clock"}; of the engine ` +
        "alone, of its thread's processor time.",
      ...server.map(
        ({ depth, onWallOpsPerS, offWallOpsPerS }) =>
          `By the clock, depth ${count(depth)}: ${count(onWallOpsPerS)}/s on, ${count(offWallOpsPerS)}/s off ` +
          "(medians; they swing with whatever else runs).",
      ),
      `${count(counters)} counters under keys of ${keyBytes} bytes in one shard, by its own count: ` +
        `${count(onBytes)} bytes on, ${count(offBytes)} off: ${bytesPerKey.toFixed(1)} per key.`,
    ]),
    table(
      ["what", "on", "off", "lost", "least", "most"],
      [
        ...server.map((cost) => costFields(`server, depth ${count(cost.depth)}`, cost)),
        ...engine.map((cost) => costFields(`engine alone, ${count(cost.keys)} keys`, cost)),
      ],
    ),
  );
}

function costFields(
  what: string,
  { onOpsPerS, offOpsPerS, lostShare, lostShares }: Cost,
): string[] {
  const shares = [lostShare, lostShares[0]!, lostShares.at(-1)!];
  return [what, count(onOpsPerS), count(offOpsPerS), ...shares.map(percent)];
}

export function memoryText({ connections, echo, server }: MemoryFigures): string {
  const fields = (name: string, memory: IdleMemory | null): string[] => {
    if (memory === null) return [name, "not reported", "-", "-"];
    const { startBytes, perConnectionBytes, afterBytes } = memory;
    const each = (perConnectionBytes / 1024).toFixed(0);
    return [name, each, mebibytes(startBytes), mebibytes(afterBytes)];
  };
  return section(
    "Memory of idle connections",
    `Resident memory of the runtime with ${count(connections)} TCP connections that have sent one request each:`,
    table(
      ["server", "KiB each", "MiB before", "MiB after they have closed"],
      [fields("bare echo object", echo), fields("Throttr Edge", server)],
    ),
  );
}

export function semaphoresText({ yrmcdsd, cells }: SemaphoreFigures): string {
  return section(
    "Semaphores over the yrmcds protocol",
    "Pairs of Acquire and Release on one TCP connection; depth is the number of pairs under way. " +
      (yrmcdsd === null
        ? "yrmcdsd is not installed (Debian's package `yrmcds`), so its columns are empty."
        : `yrmcdsd is the original server, ${yrmcdsd}, which stores nothing on disk.`),
    table(SEMAPHORES_TITLES, cells.map(semaphoreFields)),
  );
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
