/**
 * Figures beside the matrix: what a million counters take, how long a shard with them takes to start,
 * and how many journal rows updates cost.
 */
import { firstReplyMs, sendAll } from "./client.ts";
import { counterFrame, FRAMES, queryFrame, updateFrame } from "./frames.ts";
import type { Lab, ThrottrTarget } from "./lab.ts";
import { SHARD_BYTES_MAX } from "./matrix.ts";
import { COUNTERS, counterKey, fillCounters, KEY_BYTES } from "./million.ts";
import { median } from "./percentile.ts";

export interface Figures {
  readonly million: MillionFigures;
  readonly coldStart: ColdStartFigures;
  readonly rows: readonly RowFigures[];
}

interface MillionFigures {
  readonly counters: number;
  readonly keyBytes: number;
  /** Memory of the record table, by the shard's own count. */
  readonly bytes: number;
  /** Of a counter, without its key. */
  readonly overheadBytes: number;
  readonly journalRows: number;
  readonly journalBytes: number;
}

/** Time to the reply to a first QUERY after a restart, from opening the connection. */
interface ColdStartFigures {
  /** On a shard without records. */
  readonly emptyMs: number;
  readonly millionMs: number;
}

interface RowFigures {
  readonly depth: number;
  readonly operations: number;
  readonly rowsPerMillion: number;
}

/** As `ShardFigures` in `src/base/calls/shard.ts`. */
interface ShardFigures {
  readonly records: number;
  readonly bytes: number;
  readonly journalRows: number;
  readonly journalBytes: number;
}

/** Restarts that are timed; the median counts. */
const STARTS = 3;
const STATUS_FAILURE = 0;
const STATUS_SUCCESS = 1;
const ROW_DEPTHS = [1, 32, 1024, 8192];
/** Few keys: rows stay short, so that the journal is not cut meanwhile, which begins a new count. */
const ROW_KEYS = 64;
/** About as many rows as times the depth is sent; a cut is not due before 4,096. */
const ROW_WINDOWS = 500;
const ROW_OPERATIONS_MAX = 1_000_000;
const ROW_ATTEMPTS = 3;

export async function measureFigures(lab: Lab): Promise<Figures> {
  const variables = { SHARDS: "1", SHARD_BYTES_MAX: String(SHARD_BYTES_MAX) };
  const full = await lab.startThrottr("million", variables);
  const million = await fill(full);
  const millionMs = await restartMs(full, STATUS_SUCCESS);
  await full.kill();
  const empty = await lab.startThrottr("empty", variables);
  // The very first request of a shard makes its tables; that is no part of a start.
  await firstReplyMs(empty.port, queryFrame(counterKey(0)), STATUS_FAILURE);
  const emptyMs = await restartMs(empty, STATUS_FAILURE);
  const rows = await measureRows(empty);
  await empty.kill();
  return { million, coldStart: { emptyMs, millionMs }, rows };
}

export async function readFigures({ httpPort }: ThrottrTarget): Promise<ShardFigures> {
  const response = await fetch(`http://127.0.0.1:${httpPort}/bench/figures`);
  return (await response.json()) as ShardFigures;
}

async function fill(server: ThrottrTarget): Promise<MillionFigures> {
  await fillCounters(server.port);
  const { records, bytes, journalRows, journalBytes } = await readFigures(server);
  if (records !== COUNTERS) throw new Error(`${COUNTERS} counters were made, ${records} are there`);
  const overheadBytes = bytes / COUNTERS - KEY_BYTES;
  return {
    counters: COUNTERS,
    keyBytes: KEY_BYTES,
    bytes,
    overheadBytes,
    journalRows,
    journalBytes,
  };
}

async function restartMs(server: ThrottrTarget, status: number): Promise<number> {
  const tookMs: number[] = [];
  for (let start = 0; start < STARTS; start++) {
    await server.kill();
    await server.start();
    tookMs.push(await firstReplyMs(server.port, queryFrame(counterKey(COUNTERS - 1)), status));
  }
  return median(tookMs);
}

async function measureRows(server: ThrottrTarget): Promise<RowFigures[]> {
  await sendAll({
    port: server.port,
    count: ROW_KEYS,
    depth: ROW_KEYS,
    frames: (from, to) =>
      Buffer.concat(Array.from({ length: to - from }, (_, i) => counterFrame(rowKeyOf(from + i)))),
  });
  const figures: RowFigures[] = [];
  for (const depth of ROW_DEPTHS) figures.push(await rowsAt(server, depth));
  return figures;
}

function rowKeyOf(index: number): Buffer {
  return Buffer.from(`r${String(index % ROW_KEYS).padStart(8, "0")}`);
}

async function rowsAt(server: ThrottrTarget, depth: number): Promise<RowFigures> {
  const block = Array.from({ length: FRAMES }, (_, index) =>
    updateFrame(rowKeyOf(index), Math.floor(index / ROW_KEYS) % 2 === 0),
  );
  const bytes = Buffer.concat(block);
  const frameBytes = block[0]!.length;
  const operations = Math.min(depth * ROW_WINDOWS, ROW_OPERATIONS_MAX);
  const frames = (from: number, to: number): Buffer => {
    const at = from % FRAMES;
    const first = bytes.subarray(at * frameBytes, (at + to - from) * frameBytes);
    const rest = (to - from) * frameBytes - first.length;
    return rest === 0 ? first : Buffer.concat([first, bytes.subarray(0, rest)]);
  };
  for (let attempt = 0; attempt < ROW_ATTEMPTS; attempt++) {
    const before = await readFigures(server);
    await sendAll({ port: server.port, count: operations, depth, frames });
    const rows = (await readFigures(server)).journalRows - before.journalRows;
    if (rows > 0) return { depth, operations, rowsPerMillion: (rows / operations) * 1e6 };
    // The journal was cut meanwhile.
  }
  throw new Error("the journal is cut too often to count its rows");
}
