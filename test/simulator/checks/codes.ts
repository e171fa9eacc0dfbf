/**
 * Codes that a call may end with, by what is called and by what may go wrong in a run. docs/reference.md says what each of them means.
 * A code that stands nowhere here is a refusal of a call that was right, or a failure that nothing explains.
 */

/**
 * What is called. `message`: a body over HTTP or a call over a binding, refused as a whole. `package`: a call of the package's client,
 * of its own accord. `connection`: why the server ends one. The others are calls by what they are about: `holds` are semaphores of the
 * package, and `listen`, `publish`, `connections` and `shards` are routes of their own, and `counts` those of figures.
 */
export type CallKind =
  | "message"
  | "package"
  | "connection"
  | "records"
  | "limits"
  | "leases"
  | "holds"
  | "listings"
  | "publish"
  | "listen"
  | "connections"
  | "shards"
  | "counts"
  | "split"
  | "tokens";

/** What may go wrong in a run. */
export interface CodeTerms {
  readonly hasFaults: boolean;
  /** Databases of shards vanish for a while. */
  readonly hasLosses: boolean;
  /** Deployments have another `SHARD_SECRET` for a while. */
  readonly hasMistakes: boolean;
  /** Objects and doors of several releases meet. */
  readonly hasReleases: boolean;
  readonly hasSplits: boolean;
  /** Clients use tokens, some of which have expired or were revoked. */
  readonly hasTokens: boolean;
  /** Bytes of requests that may wait in a Hub. */
  readonly pendingBytesMax: number;
  /** Settings of the deployment. */
  readonly variables: Readonly<Record<string, string>>;
}

type Codes = Readonly<Partial<Record<CallKind, readonly string[]>>>;

/** A listing is asked for again where the shards have changed too much beneath it. */
const LISTING = ["listing_lost", "listing_outgrown"];

/** What is there says no: nothing has gone wrong. */
const ALWAYS: Codes = {
  message: LISTING,
  connection: LISTING,
  // A client that its caller has closed.
  package: ["closed"],
  records: ["kind_mismatch", "quota_overflow", "idempotency_conflict"],
  limits: ["reservation_ended"],
  holds: ["semaphore_unavailable", "lease_lost"],
  listings: [...LISTING, "cursor_lost"],
};

/** Requests that wait in a Hub have taken all its room. */
const FULL_ROOM = ["pending_bytes"];
/** Clients send at most tens of KiB at a time: while nothing fails, they can't fill more room than this. */
const PENDING_BYTES_OF_CLIENTS = 256 << 10;

const FAILED = ["outcome_unknown", "shards_unsettled"];

/** Objects, disks, connections or machines have failed, or were slow. */
const WITH_FAULTS: Codes = {
  message: [...FAILED, "body_timeout", "body_aborted"],
  package: ["timeout", "connection_failed"],
  connection: [
    ...FAILED,
    "hub_failed",
    "frame_lost",
    "frame_timeout",
    "reply_bytes",
    "push_bytes",
    "unanswered_bytes",
    ...FULL_ROOM,
  ],
  publish: ["outcome_unknown", "body_timeout", "body_aborted"],
  listen: ["hub_failed"],
  listings: FAILED,
  connections: ["outcome_unknown"],
  shards: FAILED,
  counts: FAILED,
  // The simulated operator calls the shard itself: a door would say `outcome_unknown`, as of any failure of a shard.
  split: [...FAILED, "journal_failed"],
};

/** Releases that don't know each other's calls. */
const APART = ["batch_version", "shards_mismatch"];

/** Release 0.4.0 lacks request types, options and routes, refuses batches of today, and counts shards by `SHARDS` alone. */
const WITH_RELEASES: Codes = {
  message: ["request_type_unknown", ...APART],
  connection: ["request_type_unknown", ...APART],
  limits: ["flags_invalid", "request_type_unknown"],
  leases: ["request_type_unknown"],
  listings: ["options_invalid", ...APART],
  publish: APART,
  connections: ["not_found", ...APART],
  shards: ["not_found", ...APART],
};

/** A shard is asked to split that has just split. */
const WITH_SPLITS: Codes = { split: ["split_refused", "shard_moved"] };

/** A shard refuses what is about its keys, or about all of a namespace. */
const byShards = (codes: readonly string[]): Codes => ({
  message: codes,
  connection: codes,
  records: codes,
  limits: codes,
  leases: codes,
  holds: codes,
  listings: codes,
  shards: codes,
  counts: codes,
  split: codes,
});

/** A shard without its database. */
const WITH_LOSSES = byShards(["shard_data_missing"]);
/** A shard whose data was written with another secret than its own, or its caller's. */
const WITH_MISTAKES = byShards(["shards_mismatch"]);

const ENDED = ["token_expired", "token_revoked"];
const WITH_TOKENS: Codes = { tokens: ENDED, connection: ENDED };
/** Where the clocks of a client and a door differ, as faults have set them. */
const AHEAD: Codes = { tokens: ["token_not_yet_valid", "body_invalid"] };

const FULL_HUBS: Codes = { listen: ["connections_max"] };
const FULL_SHARDS: Codes = {
  records: ["shard_full", "answer_lost"],
  limits: ["shard_full", "answer_lost"],
  leases: ["shard_full"],
  holds: ["shard_full"],
  listings: ["shard_full", "answer_lost"],
};

/** Bounds that a run reaches only where a setting makes them small. */
const WITH_SETTINGS: Readonly<Record<string, Codes>> = {
  HUB_CONNECTIONS_MAX: FULL_HUBS,
  HUB_SUBSCRIPTIONS_MAX: FULL_HUBS,
  CONNECTIONS_MAX: FULL_HUBS,
  SHARD_BYTES_MAX: FULL_SHARDS,
  BODIES_BYTES_MAX: { message: ["bodies_max"], publish: ["bodies_max"] },
};

const LITTLE_ROOM: Codes = { connection: FULL_ROOM };

/** Whether a call of one of some kinds may end with a code. */
export function isExpected(code: string, kinds: readonly CallKind[], terms: CodeTerms): boolean {
  const { hasFaults, hasLosses, hasMistakes, hasReleases } = terms;
  const { hasSplits, hasTokens, pendingBytesMax } = terms;
  const tables = [
    ALWAYS,
    ...(hasFaults ? [WITH_FAULTS] : []),
    ...(hasLosses ? [WITH_LOSSES] : []),
    ...(hasMistakes ? [WITH_MISTAKES] : []),
    ...(hasReleases ? [WITH_RELEASES] : []),
    ...(hasSplits ? [WITH_SPLITS] : []),
    ...(hasTokens ? [WITH_TOKENS] : []),
    ...(hasTokens && hasFaults ? [AHEAD] : []),
    ...(pendingBytesMax < PENDING_BYTES_OF_CLIENTS ? [LITTLE_ROOM] : []),
    ...Object.keys(terms.variables).map((name) => WITH_SETTINGS[name] ?? {}),
  ];
  return tables.some((table) => kinds.some((kind) => table[kind]?.includes(code) === true));
}
