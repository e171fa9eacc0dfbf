/**
 * Sizes of the production code that a seed replaces: `src/engine/sizes.ts` decides when a journal is cut, a segment splits or
 * a page ends, and at its values a run of a few thousand operations meets none of that.
 *
 * A bundle that is built with `replaceableSizes` reads each size from its parameter `$sizes`, and has the production value
 * where that is absent. All isolates of a seed need the same sizes: cursors and stored data outlive an isolate.
 */
import { readFileSync } from "node:fs";
import type { Plugin } from "esbuild";
import type * as production from "../../../src/engine/sizes.ts";
import type { Random } from "../kernel/random.ts";

/** A value for each export of `src/engine/sizes.ts`. */
export type Sizes = {
  -readonly [Name in keyof typeof production]: (typeof production)[Name] extends bigint
    ? bigint
    : number;
};

/** Makes the sizes of a bundle replaceable. Code of releases that have no such module is left as it is. */
export const replaceableSizes: Plugin = {
  name: "replaceable-sizes",
  setup(build) {
    build.onLoad({ filter: /[\\/]src[\\/]engine[\\/]sizes\.ts$/ }, ({ path }) => ({
      contents: replaceable(readFileSync(path, "utf8")),
      loader: "ts",
    }));
  },
};

/**
 * The text of `src/engine/sizes.ts` with `$sizes` asked first. One size may be derived from another, so that it follows a
 * replaced one.
 *
 * @throws Error when an export has another form than `export const NAME = expression;`
 */
export function replaceable(source: string): string {
  let replaced = 0;
  const text = source.replace(
    /^export const ([A-Z][A-Z\d_]*) = ([^;]+);$/gm,
    (_, name: string, expression: string) => {
      replaced++;
      return `export const ${name} = $sizes.${name} ?? (${expression});`;
    },
  );
  if (replaced !== source.match(/^export\b/gm)?.length) {
    throw new Error("src/engine/sizes.ts has an export that is not `export const NAME = value;`");
  }
  return text;
}

/** Of this share of seeds, all sizes are those of production. */
const PRODUCTION_SHARE = 1 / 8;
/** Of the others, each part of the server has small sizes with this probability. */
const SMALL_SHARE = 3 / 4;

/**
 * Draws sizes for a seed. What is absent has its production value.
 *
 * Sizes that must stay as they are, because a promise to callers rests on them, are not drawn: ids of cancelled charges
 * (an id that is forgotten too early lets a cancelled charge stand), the namespaces that are listed, and the objects whose
 * history is known.
 */
export function sizesOf(random: Random): Partial<Sizes> {
  if (random.fork("production").chance(PRODUCTION_SHARE)) return {};
  const sizes: Partial<Sizes> = {};
  for (const [part, draw] of Object.entries(PARTS)) {
    const own = random.fork(part);
    if (own.chance(SMALL_SHARE)) Object.assign(sizes, draw(own));
  }
  return sizes;
}

/** How each part of the server draws small sizes. Sizes of which one bounds another are of one part. */
export const PARTS: Readonly<Record<string, (random: Random) => Partial<Sizes>>> = {
  table,
  journal,
  splits,
  limits,
  semaphores,
  ranges,
  listings,
  calls,
  connections,
  channels,
  doors,
};

function table(random: Random): Partial<Sizes> {
  // From 16 groups of hashes to 65,536. Segments begin where groups do.
  const groupBits = whole(random, 4, 16);
  return {
    TABLE_GROUP_SHIFT: 32 - groupBits,
    SEGMENT_SPLIT_DEPTH_MAX: whole(random, 2, groupBits),
    SEGMENT_SPLIT_BYTES_DEPTH_MAX: whole(random, 1, Math.min(12, groupBits)),
    SEGMENT_SPLIT_SLOTS: whole(random, 16, 128),
    SEGMENT_SPLIT_BYTES: whole(random, 256, 8192),
    // A smaller segment may not shrink any further, and would be shrunk again and again.
    SEGMENT_SPARSE_SLOTS_MIN: whole(random, 32, 256),
    WALK_STEP_SLOTS: whole(random, 16, 512),
    WALK_SEGMENT_SLOTS_MIN: whole(random, 1, 16),
    SWEEP_STEPS: whole(random, 1, 2),
    FULL_SWEEP_INTERVAL_MS: whole(random, 10, 2000),
  };
}

function journal(random: Random): Partial<Sizes> {
  const bytesMin = whole(random, 512, 16_384);
  const pauseMsMin = whole(random, 10, 1000);
  return {
    COMMIT_POSITION_MAX: whole(random, 1000, 1_000_000),
    JOURNAL_ROW_BYTES_MAX: whole(random, 2048, 65_536),
    SNAPSHOT_STEP_BYTES: whole(random, 512, 32_768),
    COMMITS_PER_CUT_ROW: whole(random, 1, 4),
    JOURNAL_ROWS_MIN: whole(random, 4, 128),
    JOURNAL_BYTES_MIN: bytesMin,
    JOURNAL_BYTES_MAX: bytesMin * whole(random, 2, 32),
    // Relaxed calls are promised to be durable after 50 ms.
    RELAXED_FLUSH_MS: whole(random, 1, 50),
    COUNTS_PAUSE_MS_PER_BYTE: whole(random, 1, 10),
    COUNTS_PAUSE_MS_MIN: pauseMsMin,
    COUNTS_PAUSE_MS_MAX: pauseMsMin * whole(random, 1, 60),
  };
}

function splits(random: Random): Partial<Sizes> {
  const sizes = {
    // From about 10 KB on, of 24 MiB: runs have some hundred KB of records.
    SPLIT_SIZE_SHARE: random.skewed(0.0004, 0.6),
    SPLIT_QUEUE_BYTES: whole(random, 1024, 65_536),
    SPLIT_ROW_BYTES: whole(random, 256, 16_384),
    SPLIT_ROW_IMAGES: whole(random, 1, 500),
    SPLIT_STEP_BYTES: whole(random, 128, 8192),
    SPLIT_SWITCH_BYTES: whole(random, 1, 8192),
    SPLIT_SWITCH_MS: whole(random, 10, 2000),
    SPLIT_WAIT_MS: whole(random, 1000, 60_000),
    SPLIT_RESUME_MS: whole(random, 10, 30_000),
    SPLIT_RETRY_MS_MIN: whole(random, 100, 5000),
    SPLIT_RETRY_MS_MAX: whole(random, 5000, 60_000),
    SPLIT_KEEP_MS: whole(random, 1000, 60_000),
    ADOPT_ASK_MS: whole(random, 1000, 60_000),
    LOAD_SAMPLE_KEYS: whole(random, 16, 64),
    LOAD_SAMPLE_CALLS: whole(random, 1, 4),
    SPLIT_RESEND_MS: whole(random, 10, 2000),
  };
  // Twice as much ends a split: what the walk alone may add beyond the queue's bound must not.
  sizes.SPLIT_QUEUE_BYTES += sizes.SPLIT_STEP_BYTES + 8192;
  return sizes;
}

function limits(random: Random): Partial<Sizes> {
  return {
    DRAWS_MAX: whole(random, 4, 256),
    CLOSED_CHARGES_MIN: whole(random, 1, 16),
    ASK_SLOT_NS: BigInt(whole(random, 1_000_000, 50_000_000)),
    ASK_BACKLOG_NS: BigInt(whole(random, 1_000_000, 500_000_000)),
    LIMITERS_REMEMBERED_MAX: whole(random, 1, 8),
    LIMIT_NAMES_MAX: 2 ** whole(random, 1, 5),
  };
}

function semaphores(random: Random): Partial<Sizes> {
  return {
    SEMAPHORE_PAGE_BYTES: whole(random, 64, 4096),
    SEMAPHORE_INDEX_BYTES_EACH_MAX: whole(random, 64, 256),
    SEMAPHORE_INDEX_BYTES_MIN: whole(random, 256, 16_384),
    // Lost connections give back in time: 128 of them are asked about in each second at least.
    ENDED_LEASES_STEP: whole(random, 1, 20),
    CHECK_CONNECTIONS: whole(random, 32, 128),
    CHECK_PAGES_MAX: whole(random, 4, 8),
    RECLAIM_INTERVAL_MS: whole(random, 10, 2000),
  };
}

// Refusals follow from fewer ranges, or fewer moves, than a namespace may have.
function ranges(random: Random): Partial<Sizes> {
  return {
    MAP_STORE_MS: whole(random, 10, 60_000),
    KNOWN_MAPS_MAX: whole(random, 1, 8),
    NOTED_RANGES_MAX: whole(random, 1, 8),
    LANES_KEPT_MAX: whole(random, 1, 8),
    OLD_BATCHES_MS: whole(random, 10, 2000),
  };
}

function listings(random: Random): Partial<Sizes> {
  const orderedMax = whole(random, 4, 512);
  return {
    ORDERED_RECORDS_MAX: orderedMax,
    MERGED_RECORDS_MAX: orderedMax * whole(random, 1, 4),
    REMOVE_STEP_RECORDS: whole(random, 1, 64),
    LISTING_PART_BYTES: whole(random, 64, 4096),
    LISTING_CALL_FRAGMENTS: whole(random, 1, 8),
    ORDERED_PAGE_ROWS_MAX: whole(random, 1, 256),
    ORDERED_STEP_KEYS: whole(random, 1, 256),
    EXPORT_STEP_ROWS: whole(random, 1, 64),
    FIRST_KEYS_SLACK: whole(random, 1, 64),
    FIRST_KEYS_SLACK_BYTES: whole(random, 64, 4096),
    MERGE_PAGES_BYTES: whole(random, 512, 16_384),
    MERGE_PAGE_BYTES_MIN: whole(random, 64, 1024),
    EXPORT_PAGES_BYTES: whole(random, 256, 16_384),
    EXPORT_CALLS_MIN: whole(random, 1, 4),
    FRAGMENTS_CHUNK_BYTES: whole(random, 64, 4096),
    // A fragment has up to 2,048 bytes without rows that came meanwhile.
    LAST_FRAGMENT_BYTES_MAX: whole(random, 4096, 65_536),
    SCAN_CALLS_MAX: whole(random, 1, 4),
    SEMAPHORE_LIST_PAGE_BYTES: whole(random, 128, 8192),
    DUMP_PAGE_BYTES: whole(random, 64, 4096),
  };
}

function calls(random: Random): Partial<Sizes> {
  return {
    LANE_CALL_BYTES_MAX: whole(random, 64, 16_384),
    SHARD_ANSWER_BYTES_MAX: whole(random, 256, 65_536),
    SHARD_CALL_FRAMES_MAX: whole(random, 1, 64),
    RPC_CALL_REPLY_BYTES_MAX: whole(random, 128, 16_384),
    // A page of 1,000 records fits.
    RPC_REPLY_BYTES_MAX: whole(random, 131_072, 1 << 20),
    HTTP_CALL_REPLY_BYTES_MAX: whole(random, 128, 16_384),
    HUB_CALL_REPLY_BYTES_MAX: whole(random, 128, 16_384),
    EXCHANGE_FULL_ANSWERS: whole(random, 1, 8),
    EXCHANGE_ANSWER_BYTES_MIN: whole(random, 64, 4096),
  };
}

function connections(random: Random): Partial<Sizes> {
  const pendingMax = whole(random, 16_384, 1 << 20);
  const silentMax = whole(random, 65_536, 1 << 20);
  return {
    SUBSCRIBES_PENDING_MAX: whole(random, 1, 8),
    OWN_REPLY_BYTES: whole(random, 16, 1024),
    HUB_PENDING_BYTES_MAX: pendingMax,
    HUB_PENDING_BYTES_LITTLE: whole(random, 1024, Math.min(65_536, pendingMax)),
    // An attachment has room for 1,024 bytes of a frame.
    UNFINISHED_STORED_BYTES_MAX: whole(random, 16, 1024),
    BRIDGES_BACKLOG_BYTES_MAX: whole(random, 4096, 262_144),
    SILENT_BYTES_MAX: silentMax,
    SILENT_BYTES_LITTLE: whole(random, 8192, silentMax),
    HUB_SILENT_BYTES_MAX: whole(random, silentMax, 4 * silentMax),
    READ_BYTES_PER_MS: whole(random, 256, 16_384),
    AHEAD_BYTES_MAX: whole(random, 16_384, silentMax),
    TALLIES_STORE_DELAY_MS: whole(random, 10, 2000),
    OWN_PIECE_FRAMES: whole(random, 1, 64),
  };
}

function channels(random: Random): Partial<Sizes> {
  const slowQueueMax = whole(random, 16_384, 262_144);
  const replayMax = whole(random, 512, 16_384);
  return {
    PUBLISH_CALL_BYTES_MAX: whole(random, 64, 8192),
    OWN_NAMESPACES_MAX: whole(random, 1, 4),
    SLOW_HUB_QUEUE_BYTES_MAX: slowQueueMax,
    HUB_QUEUE_BYTES_MAX: slowQueueMax * whole(random, 2, 8),
    SINGLE_CALLS_MAX: whole(random, 1, 8),
    JOINED_BYTES_MAX: whole(random, 8192, 262_144),
    JOINS_VERIFIED_AT_ONCE: whole(random, 1, 8),
    NUMBERS_RESERVED: whole(random, 1, 256),
    NUMBERS_SETTLE_MS: whole(random, 10, 1000),
    NUMBERED_BYTES_MAX: whole(random, 1024, 16_384),
    REPLAY_BYTES_MAX: replayMax,
    REPLAY_CHUNK_BYTES_MAX: whole(random, 64, replayMax),
    GROUP_KEPT_BYTES_MAX: replayMax * whole(random, 2, 8),
    SHARDS_ASKED_MAX: whole(random, 1, 16),
    SHARD_REPORTS_PER_ROW: whole(random, 1, 4),
    SHARD_REPORTS_GATHER_MS: whole(random, 1, 5000),
    SHARD_REST_MS: whole(random, 10, 5000),
    HISTORY_GATHER_MS: whole(random, 10, 2000),
    NAMESPACES_TOLD_AT_ONCE: whole(random, 1, 4),
    WAITING_DELIVERY_BYTES: whole(random, 1, 64),
    HISTORY_REST_MS: whole(random, 10, 4000),
  };
}

function doors(random: Random): Partial<Sizes> {
  const responsesMax = whole(random, 16_384, 1 << 20);
  const partBytes = whole(random, 16, 4096);
  const readBytes = whole(random, 16, 1024);
  return {
    RESPONSE_HELD_BYTES_MAX: whole(random, 256, 65_536),
    RESPONSE_HELD_MS_MAX: whole(random, 10, 1000),
    RESPONSE_WRITE_BYTES: whole(random, 64, 16_384),
    RESPONSES_BYTES_MAX: responsesMax,
    RESPONSES_BYTES_LITTLE: whole(random, 1024, Math.min(262_144, responsesMax)),
    RESPONSE_WATCH_MS: whole(random, 100, 1000),
    BODY_PART_BYTES: partBytes,
    BODY_ROOM_BYTES: partBytes * whole(random, 1, 16),
    READ_BUFFER_BYTES_MIN: readBytes,
    // A buffer that is read full grows to eight times its size.
    READ_BUFFER_BYTES_MAX: readBytes * 8 ** whole(random, 1, 2),
    DOOR_FLUSH_DELAY_MS: whole(random, 10, 2000),
  };
}

/** A whole number from `low` to `high`; small ones are as frequent as large ones. */
function whole(random: Random, low: number, high: number): number {
  return Math.min(high, Math.floor(random.skewed(low, high + 1)));
}
