/** Draws settings of the server for some runs: with the defaults alone, much of what the server does would never happen in a run. */
import type { Random } from "../kernel/random.ts";

/** The share of runs in which all settings have their defaults. */
const DEFAULTS_SHARE = 0.5;
/** In the other runs, each part of the settings is drawn with this probability. */
const DRAWN_SHARE = 0.5;

/** Variables, by their names. */
type Drawn = Readonly<Record<string, string>>;

/** A part has the settings that belong together, and a random source of its own. */
const PARTS: Readonly<Record<string, (random: Random) => Drawn>> = {
  hubs,
  answers,
  stalls,
  holders,
  statistics,
  memory,
  durability,
};

/** @returns variables, without those that have their defaults */
export function drawnSettings(random: Random): Drawn {
  if (random.fork("default settings").chance(DEFAULTS_SHARE)) return {};
  const drawn: Record<string, string> = {};
  for (const [part, draw] of Object.entries(PARTS)) {
    const own = random.fork(`settings of ${part}`);
    if (own.chance(DRAWN_SHARE)) Object.assign(drawn, draw(own));
  }
  return drawn;
}

/** Checkers allow more where it is relaxed: a crash may take back what was answered. */
const RELAXED_SHARE = 0.3;
const CONNECTIONS = [3, 3, 15];
/** The share of small Hubs with a high `HUBS_MAX`, so that nearly all connections find room in one. */
const ROOM_SHARE = 0.5;

/** Small Hubs: connections find them full, are opened at others, and are refused if all are full. */
function hubs(random: Random): Drawn {
  const connections = { HUB_CONNECTIONS_MAX: String(random.pick(CONNECTIONS)) };
  return random.chance(ROOM_SHARE) ? { ...connections, HUBS_MAX: "16" } : connections;
}

/** With 2 s calls are repeated before and after their answers are forgotten. */
function answers(random: Random): Drawn {
  return { IDEMPOTENCY_TTL_MS: String(random.pick([2000, 30_000])) };
}

/** Peers that stop reading or sending for longer are closed; others go on in time. */
function stalls(random: Random): Drawn {
  return { STALL_TIMEOUT_MS: String(random.pick([1000, 5000])) };
}

function holders(random: Random): Drawn {
  return { HOLDER_TIMEOUT_MS: String(random.pick([3000, 60_000])) };
}

/** Short intervals, so that a run has many: at the end of each, unused semaphores are collected, and statistics begin again. */
function statistics(random: Random): Drawn {
  return { YRMCDS_STATS_INTERVAL_MS: String(random.pick([10_000, 60_000])) };
}

/** The least there may be: a client fills it (`workloads/hoard.ts`). */
function memory(): Drawn {
  return { SHARD_BYTES_MAX: String(1 << 20) };
}

/** Shards answer before the disk has what they answer about. */
function durability(random: Random): Drawn {
  return random.chance(RELAXED_SHARE) ? { DURABILITY: "relaxed" } : {};
}
