/**
 * Budgets: memory, journals, rows that are billed, and the number of objects stay within what docs/reference.md and docs/prices.md
 * promise, whatever faults do. Runs take samples of objects; sizes are those that the run was bundled with.
 */
import type { Moment, Violation } from "./history.ts";
import { describeMoment } from "./order.ts";

/** Figures of one object, or of all of a namespace, at a moment. */
export interface Sample<Figures> {
  readonly subject: string;
  readonly at: Moment;
  readonly figures: Figures;
}

/** Of the journal and the engine of a shard. Counts are since the first life of the object. */
export interface ShardFigures {
  /** Memory of records, and what is kept beside them. */
  readonly engineBytes: number;
  /** The most that it was so far: a journal is cut at the next commit after the memory has shrunk. */
  readonly engineBytesMost: number;
  /** Of the journal since it was last cut. */
  readonly journalRows: number;
  readonly journalBytes: number;
  /** A split has made it, and its journal still has all that it adopted: it was not cut since. */
  readonly hasAdopted: boolean;
  /** Rows that were written, as they are billed. */
  readonly rowsWritten: number;
  /** Commits: at most one for each call that changed anything, or was to write something down. */
  readonly changingCalls: number;
  /** What those calls wrote. */
  readonly changedBytes: number;
  /** Of the largest commit: all calls that came while the one before was on its way share one. */
  readonly commitBytesMost: number;
  readonly alarmsSet: number;
  /** How often an alarm rang that was not due: the object sets the next one after each ring. */
  readonly timesRungAgain: number;
  readonly lives: number;
  /** Those that a partition has left behind: each may write once more, which is counted, and fails. */
  readonly livesParted: number;
  /** Calls that tell it of ranges: it passes each on to the shard that it was split off from. */
  readonly hints: number;
  /** Lives of another shard that have offered it a range: it begins anew for each. */
  readonly offers: number;
  /** Splits that it has begun, with those that were given up. */
  readonly splits: number;
  /** How often its clock was set. */
  readonly clockSteps: number;
  /** Since the first life began. */
  readonly elapsedMs: number;
}

export interface GroupFigures {
  readonly joinedBytes: number;
  readonly keptBytes: number;
  /** Of numbered channels without subscribers. */
  readonly idleNumberedBytes: number;
}

export interface HubFigures {
  readonly connections: number;
  /** Of unfinished frames, and of frames that wait. */
  readonly pendingBytes: number;
  /** Unread by clients behind bridges. */
  readonly backlogBytes: number;
  /** Sent to WebSocket peers that have said nothing since. */
  readonly silentBytes: number;
}

/** Calls and rows of one group of channels, from its first life on. */
export interface GroupPrices {
  /** PUBLISH, and POST, on its channels: those that a client has asked for. */
  readonly publications: number;
  /** Calls of the group with publications. */
  readonly publishCalls: number;
  /** Calls with messages from the group to the Hub that it has called most. */
  readonly hubCalls: number;
  /** First and last subscribers of channels in Hubs, of which the group was told. */
  readonly changes: number;
  readonly listens: number;
  /** Channels of all its calls with publications, and what these keep: a row for each, and more above the size of a row. */
  readonly channels: number;
  readonly keptRows: number;
  readonly rowsWritten: number;
  readonly lives: number;
}

export interface NamespaceFigures {
  readonly shards: number;
  readonly groups: number;
  readonly hubs: number;
  /** Locations that clients came from. */
  readonly locations: number;
  readonly directories: number;
}

/** Settings of the run. */
export interface BudgetSettings {
  readonly shardBytesMax: number;
  readonly shards: number;
  readonly shardsMax: number;
  readonly hubsMax: number;
  readonly hubConnectionsMax: number;
  readonly frameBytesMax: number;
}

/** `src/engine/sizes.ts` as the run was bundled with it, by the same names. */
export interface BudgetSizes {
  readonly SNAPSHOT_STEP_BYTES: number;
  readonly COMMITS_PER_CUT_ROW: number;
  readonly JOURNAL_ROW_BYTES_MAX: number;
  readonly JOURNAL_ROWS_MIN: number;
  readonly JOURNAL_BYTES_MAX: number;
  readonly JOINED_BYTES_MAX: number;
  readonly GROUP_KEPT_BYTES_MAX: number;
  readonly NUMBERED_BYTES_MAX: number;
  readonly HUB_PENDING_BYTES_MAX: number;
  readonly HUB_PENDING_BYTES_LITTLE: number;
  readonly BRIDGES_BACKLOG_BYTES_MAX: number;
  readonly HUB_SILENT_BYTES_MAX: number;
  readonly SILENT_BYTES_LITTLE: number;
}

/** One figure, the most that it may be, and the promise in words. */
type Budget = readonly [what: string, figure: number, most: number, why: string];

const PROMISE = "Bounds";
/** Buffers may grow beyond the memory of a full shard by an eighth. */
const GROWTH = 9 / 8;
/** A shard that splits may have so much more. */
const STRETCH = 5 / 4;
/** Memory between two samples may have been so much more: a start has no room to spare for records that grow. */
const ROOM = 1.5;
/** Rows that a cut writes beside its snapshot. */
const CUT_ROWS = 5;
/** Rows of a shard's first use: its tables, its row, the note of shard 0 and the list of namespaces. */
const FIRST_ROWS = 16;
/** Rows of one split: it begins, the part is given, and two notes say which shards have been told. */
const SPLIT_ROWS = 4;
/** A life writes again what a crash has taken of the cut under way. */
const LIFE_ROWS = 8;
const ALARM_INTERVAL_MS = 1000;
/** Alarms that ring at once until a life knows by how much the platform's clock is ahead: each tries twice as much. */
const ALARM_TRIES = 9;
/** The three tables of a group, two rows each, and its head: a group that has become empty drops them. */
const GROUP_FIRST_ROWS = 7;
/** The head of a group, and what a life stores of a burst that the one before has begun. */
const GROUP_LIFE_ROWS = 4;
/** Groups of a namespace; the window of a bridge. */
const GROUPS = 32;
const BRIDGE_WINDOW_BYTES = 256 << 10;
/** Of a namespace, and of the deployment. */
const DIRECTORIES_MAX = 2;

export function checkShardBudgets(
  samples: readonly Sample<ShardFigures>[],
  settings: BudgetSettings,
  sizes: BudgetSizes,
): Violation[] {
  const { shardBytesMax, shards, shardsMax } = settings;
  const engineBytesMax = shardBytesMax * GROWTH * (shardsMax > shards ? STRETCH : 1);
  return check(samples, (figures) => {
    const snapshotRows = Math.ceil(figures.engineBytesMost / sizes.SNAPSHOT_STEP_BYTES) + 1;
    // A cut waits for its share of commits, and each commit takes one step of it.
    const roomyRows = Math.ceil((ROOM * figures.engineBytesMost) / sizes.SNAPSHOT_STEP_BYTES) + 1;
    const cutAfterRows = sizes.COMMITS_PER_CUT_ROW * (roomyRows + CUT_ROWS);
    const { elapsedMs, lives, livesParted, clockSteps, timesRungAgain } = figures;
    const tries = clockSteps === 0 ? 0 : ALARM_TRIES * (lives + clockSteps);
    const alarmsMax = elapsedMs / ALARM_INTERVAL_MS + lives + livesParted + tries + timesRungAgain;
    return [
      [
        "bytes of memory",
        figures.engineBytes,
        engineBytesMax,
        "SHARD_BYTES_MAX, a quarter more while it splits, and an eighth for buffers that grow",
      ],
      [
        "rows of its journal",
        figures.journalRows,
        figures.hasAdopted
          ? Infinity
          : Math.max(sizes.JOURNAL_ROWS_MIN, cutAfterRows) + roomyRows + 1,
        "the journal is cut when it has outgrown its bound",
      ],
      [
        "bytes of its journal",
        figures.journalBytes,
        figures.hasAdopted
          ? Infinity
          : sizes.JOURNAL_BYTES_MAX + (snapshotRows + 1) * figures.commitBytesMost,
        "the journal is cut when it has outgrown its bound",
      ],
      ["alarms", figures.alarmsSet, alarmsMax, "an alarm is set at most once a second"],
      [
        "rows written",
        figures.rowsWritten,
        rowsMax(figures, snapshotRows, sizes),
        `${figures.changingCalls} changing calls are a row each, a cut adds one row to ${sizes.COMMITS_PER_CUT_ROW} of them, each alarm is one`,
      ],
    ];
  });
}

/** One row for a call that changed anything, more only above the size of a row. */
function rowsMax(figures: ShardFigures, snapshotRows: number, sizes: BudgetSizes): number {
  const largeRows = Math.floor(figures.changedBytes / sizes.JOURNAL_ROW_BYTES_MAX);
  const commitRows = figures.changingCalls + largeRows;
  const cutRows = commitRows / sizes.COMMITS_PER_CUT_ROW;
  // Forced by its bytes, a cut does not wait for its share of commits.
  const forcedCuts = Math.floor(figures.changedBytes / sizes.JOURNAL_BYTES_MAX);
  const forcedRows = forcedCuts * (snapshotRows + CUT_ROWS);
  const lifeRows = figures.lives * (LIFE_ROWS + snapshotRows);
  const firstRows = FIRST_ROWS * (1 + figures.offers);
  // What it has given is cut out of its journal.
  const splitRows = figures.splits * (SPLIT_ROWS + snapshotRows + CUT_ROWS);
  // Each is a row as any other call, and another one when it has been passed on.
  const hintRows = figures.hints;
  const ownRows = figures.alarmsSet + hintRows + lifeRows + firstRows + splitRows;
  return commitRows + cutRows + forcedRows + ownRows;
}

export function checkGroupBudgets(
  samples: readonly Sample<GroupFigures>[],
  sizes: BudgetSizes,
): Violation[] {
  return check(samples, (figures) => [
    [
      "bytes of names with subscribers",
      figures.joinedBytes,
      sizes.JOINED_BYTES_MAX,
      "beyond it SUBSCRIBE answers 00",
    ],
    [
      "bytes of kept messages",
      figures.keptBytes,
      sizes.GROUP_KEPT_BYTES_MAX,
      "the channels with the most bytes lose their oldest messages",
    ],
    [
      "bytes of numbered channels without subscribers",
      figures.idleNumberedBytes,
      sizes.NUMBERED_BYTES_MAX,
      "the longest unused are forgotten",
    ],
  ]);
}

export function checkGroupPrices(samples: readonly Sample<GroupPrices>[]): Violation[] {
  return check(samples, (figures) => [
    [
      "calls with publications",
      figures.publishCalls,
      figures.publications,
      "a publication is one request to its group",
    ],
    [
      "calls to one Hub",
      figures.hubCalls,
      figures.publishCalls,
      "a publication is one request from the group to each Hub with subscribers",
    ],
    [
      "rows written",
      figures.rowsWritten,
      groupRowsMax(figures),
      "a join is a row, a burst of numbered messages is two and one for each channel, and what is kept is one for each channel and call",
    ],
  ]);
}

/** Each row that is written may be removed once, which is a row as well. */
function groupRowsMax(figures: GroupPrices): number {
  const { changes, listens, publishCalls, channels, keptRows, lives } = figures;
  // The last subscriber that leaves a numbered channel writes when that was.
  const joins = 3 * (changes + listens);
  const numbers = 2 * listens + 2 * publishCalls + channels;
  return joins + numbers + 2 * keptRows + (GROUP_FIRST_ROWS + GROUP_LIFE_ROWS) * lives;
}

export function checkHubBudgets(
  samples: readonly Sample<HubFigures>[],
  settings: BudgetSettings,
  sizes: BudgetSizes,
): Violation[] {
  const { hubConnectionsMax, frameBytesMax } = settings;
  return check(samples, (figures) => {
    const { connections } = figures;
    return [
      ["connections", connections, hubConnectionsMax, "HUB_CONNECTIONS_MAX"],
      [
        "bytes of frames that wait",
        figures.pendingBytes,
        sizes.HUB_PENDING_BYTES_MAX + connections * sizes.HUB_PENDING_BYTES_LITTLE + frameBytesMax,
        "beyond a sum each client may have little",
      ],
      [
        "bytes unread behind bridges",
        figures.backlogBytes,
        sizes.BRIDGES_BACKLOG_BYTES_MAX + connections * BRIDGE_WINDOW_BYTES,
        "beyond a sum each client may leave one window",
      ],
      [
        "bytes sent to silent peers",
        figures.silentBytes,
        sizes.HUB_SILENT_BYTES_MAX + connections * sizes.SILENT_BYTES_LITTLE,
        "beyond a sum each silent peer is sent little",
      ],
    ];
  });
}

export function checkNamespaceBudgets(
  samples: readonly Sample<NamespaceFigures>[],
  { shards, shardsMax, hubsMax }: BudgetSettings,
): Violation[] {
  return check(samples, (figures) => [
    [
      "Shards",
      figures.shards,
      Math.max(shards, shardsMax),
      "SHARDS, and SHARDS_MAX of those that split",
    ],
    ["groups of channels", figures.groups, GROUPS, "strangers can't make objects by names"],
    ["Hubs", figures.hubs, hubsMax * figures.locations, "HUBS_MAX at each location"],
    [
      "Directories",
      figures.directories,
      DIRECTORIES_MAX,
      "one of a namespace, one of the deployment",
    ],
  ]);
}

/** Reports the first sample of a subject that is above a budget, not all that follow. */
function check<Figures>(
  samples: readonly Sample<Figures>[],
  budgetsOf: (figures: Figures) => readonly Budget[],
): Violation[] {
  const told = new Set<string>();
  const violations: Violation[] = [];
  for (const { subject, at, figures } of samples) {
    for (const [what, figure, most, why] of budgetsOf(figures)) {
      const isWithin = figure >= 0 && figure <= most;
      if (isWithin || told.has(`${subject} ${what}`)) continue;
      told.add(`${subject} ${what}`);
      const message = `at ${describeMoment(at)} it has ${figure} ${what}, at most ${Math.floor(most)} are promised: ${why}`;
      violations.push({ promise: PROMISE, subject, message });
    }
  }
  return violations;
}
