/** Settings of the server that some runs have another value of: at its defaults much of what it does never happens in a run. */
import type { Random } from "../kernel/random.ts";

/** The share of runs in which all of them have their defaults. */
const DEFAULTS_SHARE = 0.5;
/** Of the other runs, each part of the settings is drawn with this probability. */
const DRAWN_SHARE = 0.5;

type Drawn = Readonly<Record<string, string>>;

/** Settings that belong together are of one part, which has a random source of its own. */
const PARTS: Readonly<Record<string, (random: Random) => Drawn>> = {
  hubs,
  answers,
  stalls,
  holders,
  statistics,
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

const CONNECTIONS = [3, 3, 15];
/** How often there are so many Hubs that nearly all connections have room. */
const ROOM_SHARE = 0.5;

/** Connections find Hubs full, are opened at others, and are refused where all are full. */
function hubs(random: Random): Drawn {
  const connections = { HUB_CONNECTIONS_MAX: String(random.pick(CONNECTIONS)) };
  return random.chance(ROOM_SHARE) ? { ...connections, HUBS_MAX: "16" } : connections;
}

/** The first: repetitions of a call come before and after its answer is forgotten. */
function answers(random: Random): Drawn {
  return { IDEMPOTENCY_TTL_MS: String(random.pick([2000, 30_000])) };
}

/** Peers that stop are given up sooner, while others are only slow. */
function stalls(random: Random): Drawn {
  return { STALL_TIMEOUT_MS: String(random.pick([1000, 5000])) };
}

function holders(random: Random): Drawn {
  return { HOLDER_TIMEOUT_MS: String(random.pick([3000, 60_000])) };
}

/** Many intervals in a run: unused semaphores are collected, and their statistics begin again. */
function statistics(random: Random): Drawn {
  return { YRMCDS_STATS_INTERVAL_MS: String(random.pick([10_000, 60_000])) };
}
