/**
 * The sizes that decide when something internal happens: when a journal is cut, a segment splits, a page ends, a call is
 * full, a queue refuses. All layers of the server read them here, because at these values a short run meets few of these
 * moments: the simulator bundles the server with values of its own in their place (test/simulator/platform/sizes.ts).
 *
 * Each is `export const NAME = expression;`, and may be derived from those above it. Settings of operators are in
 * src/base/settings.ts; limits that a protocol states, and formats, stay beside their code.
 */

// Table of a shard: src/engine/table.ts, segment.ts, walk.ts, table-page.ts

/** A full segment with this many slots splits instead of growing: a growth copies all of them in one turn. */
export const SEGMENT_SPLIT_SLOTS = 8192;
/** A segment with more bytes of keys and values splits, too: this bounds the bytes that are copied when it grows. */
export const SEGMENT_SPLIT_BYTES = 256 * 1024;
/** No split for bytes is deeper: few large values must not fill the directory, which doubles with each level. */
export const SEGMENT_SPLIT_BYTES_DEPTH_MAX = 12;
/** No split at all is deeper. At most `32 - TABLE_GROUP_SHIFT`, or a segment would begin in the middle of a group. */
export const SEGMENT_SPLIT_DEPTH_MAX = 16;
/** From this many slots on, a segment is sparse where seven of eight are free: smaller ones hold little memory. */
export const SEGMENT_SPARSE_SLOTS_MIN = 1024;
/** Hashes of one group have the bits above these in common: a page of the table may end in the middle of a group. */
export const TABLE_GROUP_SHIFT = 16;
/** Most slots that a step of a walk visits, unless its first segment has more: about 2 ms. */
export const WALK_STEP_SLOTS = 16_384;
/** An empty segment counts as this many slots: a table that was emptied has many of them. */
export const WALK_SEGMENT_SLOTS_MIN = 16;
/** Segments that are swept before requests get a turn. */
export const SWEEP_STEPS = 2;
/** A full table is swept at most this often. */
export const FULL_SWEEP_INTERVAL_MS = 1000;

// Commits, journal and snapshots of a shard: src/engine/commit.ts, src/objects/shard/journal.ts, group-commit.ts

/** Positions in the stream of images are u32. Behind this one the stream starts anew, and all slots forget their positions. */
export const COMMIT_POSITION_MAX = 2 ** 31;
/** Most bytes of a row, unless one image has more. A blob is at most 2 MB on the platform; the rest is for the row around it. */
export const JOURNAL_ROW_BYTES_MAX = 1_900_000;
/** What one step of a snapshot may write: the pause that a commit may see. */
export const SNAPSHOT_STEP_BYTES = 1 << 20;
/** A cut may add one row to this many commits: rows are billed. */
export const COMMITS_PER_CUT_ROW = 10;
/** Below both this and `JOURNAL_ROWS_MIN`, a journal is too short for a start to gain from a cut. */
export const JOURNAL_BYTES_MIN = 4 << 20;
export const JOURNAL_ROWS_MIN = 4096;
/** Beyond this a cut no longer waits for its share of commits: start-up has to read all of it. */
export const JOURNAL_BYTES_MAX = 128 << 20;
/** How long a change may wait for its row where no call waits for it. */
export const RELAXED_FLUSH_MS = 50;
/** How often a commit takes counts along: for each byte of them, ms without; so they add about 100 bytes a second. */
export const COUNTS_PAUSE_MS_PER_BYTE = 10;
/** Bounds of that pause. */
export const COUNTS_PAUSE_MS_MIN = 1000;
export const COUNTS_PAUSE_MS_MAX = 60_000;

// Splits of a shard: src/engine/range-copy.ts, copy-queue.ts, load-sample.ts, src/objects/shard/splitting.ts,
// range-transfer.ts, adoption.ts

/** Of `SHARD_BYTES_MAX`: a shard with more splits, so that there is time before it is full. */
export const SPLIT_SIZE_SHARE = 0.6;
/** What a shard may hold while it splits, unless its budget is more: an isolate has 128 MB, and needs room for other things. */
export const STRETCHED_BYTES_MAX = 112 << 20;
/**
 * Bytes that may wait for the shard that a range is copied to: beyond them the walk stops, and commits
 * wait for a second. Twice as many end the split.
 */
export const SPLIT_QUEUE_BYTES = 4 << 20;
/** A row of a copied range: as a row of a snapshot, of which it stands in the place. */
export const SPLIT_ROW_BYTES = 1 << 20;
/**
 * Images of such a row, at most: the other shard applies it in one turn, about 1 us for each. So a shard of small records, of which
 * 1 MiB has 28,000, takes more rows, and callers wait less.
 */
export const SPLIT_ROW_IMAGES = 16_384;
/** What one step of the walk may copy: with `WALK_STEP_SLOTS` it bounds the pause that a call may see. */
export const SPLIT_STEP_BYTES = 256 << 10;
/** Bytes in the queue from which on a split takes effect: calls wait while the last of them are handed over. */
export const SPLIT_SWITCH_BYTES = 64 << 10;
/** How long calls wait for that at most; then the split goes on as before, and tries again. */
export const SPLIT_SWITCH_MS = 1000;
/**
 * How long after a failed call a row of a copied range is sent again: the other shard may be starting. Calls that wait at the
 * gate (`SPLIT_SWITCH_MS`) hardly wait longer for it.
 */
export const SPLIT_RESEND_MS = 1000;
/** How long a split waits for the other shard at most, before it is given up. */
export const SPLIT_WAIT_MS = 60_000;
/** How long after a start a split goes on that was under way: whatever ended the shard may do so again. */
export const SPLIT_RESUME_MS = 30_000;
/** How long a shard waits that has tried in vain to split by itself: at first, and at most. */
export const SPLIT_RETRY_MS_MIN = 30_000;
export const SPLIT_RETRY_MS_MAX = 3_600_000;
/** How long records that were given away stay for listings that have begun before. */
export const SPLIT_KEEP_MS = 60_000;
/** How often a shard that has adopted a range asks whether it is in force, unless it is told. */
export const ADOPT_ASK_MS = 60_000;
/** Keys in the sample of calls, by which a shard under load is split. */
export const LOAD_SAMPLE_KEYS = 256;
/** Each so many calls one adds to the sample: its keys have to be hashed for it. */
export const LOAD_SAMPLE_CALLS = 16;

// Limits: src/engine/charge-ledger.ts, key-charges.ts, cancelled-ids.ts, ask-slot.ts, limiters.ts, limit-names.ts

/** Draws of all keys, and keys with a pause. A stranger can draw from any number of keys. */
export const DRAWS_MAX = 16_384;
/** A key's lists keep up to this many closed charges, so that short lists are not compacted at each close. */
export const CLOSED_CHARGES_MIN = 16;
/** Cancels at a shard that come before their charge: the oldest are dropped first. */
export const CANCELLED_IDS_MAX = 16_384;
/** Refused callers get times to ask again that are this far apart. */
export const ASK_SLOT_NS = 5_000_000n;
/**
 * A caller that is granted units gets no pause while the slots ahead of it take at most this long. So a few callers get
 * the whole limit.
 */
export const ASK_BACKLOG_NS = 100_000_000n;
/** Parsed configurations that a shard remembers; it forgets all of them when there would be more. */
export const LIMITERS_REMEMBERED_MAX = 1024;
/** Names that have counts of their own in a shard, a power of two; those of further names go into one row for the others. */
export const LIMIT_NAMES_MAX = 256;

// Semaphores of a shard: src/engine/semaphores, src/objects/shard/semaphore-work.ts

/** At which a page ends: names may have 65,535 bytes, and many shards are asked at once. */
export const SEMAPHORE_PAGE_BYTES = 64 << 10;
/** An index with more bytes than this for each semaphore and holding, and `SEMAPHORE_INDEX_BYTES_MIN`, is made anew. */
export const SEMAPHORE_INDEX_BYTES_EACH_MAX = 256;
export const SEMAPHORE_INDEX_BYTES_MIN = 64 << 10;
/** Leases that a shard ends by its alarm before others get a turn: about 10 ms. A caller of a semaphore still ends all that are over. */
export const ENDED_LEASES_STEP = 4096;
/** Connections in one call to a Hub that asks which of them still live: 64 KiB of ids. */
export const CHECK_CONNECTIONS = 4096;
/** Pages of one check; the next one goes on behind them. */
export const CHECK_PAGES_MAX = 8;
/** In a shard that is full, how often semaphores that are not in use are collected at most. */
export const RECLAIM_INTERVAL_MS = 1000;

// Ranges of shards: src/dispatch/range-map.ts, known-maps.ts, exchange.ts, holder.ts, src/objects/hub/stored-map.ts

/** How often a Hub stores what it knows of shards, at most. */
export const MAP_STORE_MS = 60_000;
/** Ranges of a namespace that a place may know: more than the narrowest that a shard makes. 32 KiB. */
export const MAP_RANGES_MAX = 8192;
/** Namespaces whose maps an isolate remembers; the one that was asked for least lately is dropped first. */
export const KNOWN_MAPS_MAX = 1024;
/** How often frames may be sent on to another shard before they are refused. A split sends them on once. */
export const MOVES_MAX = 64;
/** Ranges that a connection notes; beyond this it notes the whole circle. */
export const NOTED_RANGES_MAX = 128;
/** Lanes that a door keeps while they have nothing to do; a call over a service binding lives for one request. */
export const LANES_KEPT_MAX = 256;
/** How long a door speaks the batches of the last release to a shard that refused newer ones. */
export const OLD_BATCHES_MS = 60_000;

// Listings: src/engine/scan.ts, listing.ts, first-keys.ts, src/dispatch

/** Shards with up to this many records send pages in the order of keys. */
export const ORDERED_RECORDS_MAX = 16_384;
/**
 * The most records that a shard may hold while it lists them in order; beyond that the listing fails, rather than show
 * less than there is.
 */
export const MERGED_RECORDS_MAX = 4 * ORDERED_RECORDS_MAX;
/** A step of a removal ends when it has removed this many records. */
export const REMOVE_STEP_RECORDS = 4096;
/** Bytes of rows that a part of a plan should have. */
export const LISTING_PART_BYTES = 16 * 1024;
/** Fragments of one call to a shard: about 64 KiB, so that one caller does not hold up the shard's others. */
export const LISTING_CALL_FRAGMENTS = 32;
/**
 * Rows of a page in the order of keys, at most: new keys are put in order with all of them in one step. A page is a walk over all
 * records, so much smaller ones make an export longer.
 */
export const ORDERED_PAGE_ROWS_MAX = 2000;
/** Keys that a step of a walk in the order of keys looks up, or copies to put them in order: about 2 ms. */
export const ORDERED_STEP_KEYS = 1024;
/** Rows of a page of an export that one step writes: each takes a look-up or two. */
export const EXPORT_STEP_ROWS = 500;
/** The gathered keys are put in order with those of the page so far when there are this many: the others are in order already. */
export const FIRST_KEYS_SLACK = 1024;
/** They are also when their rows have twice the bytes of the page so far, and this many more: names may have 65,535 bytes. */
export const FIRST_KEYS_SLACK_BYTES = 1 << 20;
/** Pages of all objects that are asked at once: what a merge holds, so that many of them fit an isolate of 128 MB. */
export const MERGE_PAGES_BYTES = 256 << 10;
/** However many objects there are: smaller pages would be mostly calls. */
export const MERGE_PAGE_BYTES_MIN = 4 << 10;
/**
 * Pages of an export of all shards of a range that has split, which are asked at once: the isolate has 128 MB. Of up to 16
 * shards, each gives a page of the size that was asked for.
 */
export const EXPORT_PAGES_BYTES = 16 << 20;
/** Shards that are asked at once for a page of an export, at least: each may give one record of 1.8 MB. */
export const EXPORT_CALLS_MIN = 16;
/** Fragments are sent in chunks of about this size: the caller's room is asked for between two. */
export const FRAGMENTS_CHUNK_BYTES = 32 << 10;
/** What the last fragment may grow to when rows have come meanwhile. A full one has 2 KiB. */
export const LAST_FRAGMENT_BYTES_MAX = 1 << 20;
/**
 * Calls to shards for one page of SCAN: a page with fewer records than asked for ends there. A rare prefix among many
 * records would else keep one request busy with the whole namespace; the platform allows a request 10,000 calls.
 */
export const SCAN_CALLS_MAX = 16;
/** At which a page of semaphores ends, for names may have 65,535 bytes; the one that crosses it is on it. */
export const SEMAPHORE_LIST_PAGE_BYTES = 1 << 20;
/** Of Dump: a page is one call to a shard, and held in memory until the caller has room. */
export const DUMP_PAGE_BYTES = 64 << 10;

// Calls to a shard, and their replies: src/dispatch/lane.ts, src/engine/engine.ts, src/worker, src/objects/hub

/** What one call carries at most, unless a single piece is larger: an RPC carries 32 MiB, and holds up what follows. */
export const LANE_CALL_BYTES_MAX = 4 << 20;
/** Bytes of replies in one answer of a shard: a call may carry 32 MiB, and both sides hold it in memory. */
export const SHARD_ANSWER_BYTES_MAX = 8 << 20;
/**
 * Frames that a shard executes in one call, which is one turn: 10 ms of UPDATEs, 30 ms of INSERTs, 65 ms of LIMITs. A body of 8 MiB has up to
 * four million. A section of the yrmcds protocol that has begun is bounded by its replies alone.
 */
export const SHARD_CALL_FRAMES_MAX = 32_768;
/**
 * Reply bytes of one call to a shard for an RPC caller, 2 MiB; what is left is asked for in a further one. A shard holds
 * the replies of all its callers in 128 MB, so no single call may have much of it.
 */
export const RPC_CALL_REPLY_BYTES_MAX = 2 << 20;
/**
 * Shards of one exchange whose answers may each have all the reply bytes that its door allows for a call; more shards share
 * as many bytes. Replies wait at the door, in memory, for those of earlier frames.
 */
export const EXCHANGE_FULL_ANSWERS = 8;
/** The least that such a share is: smaller ones would be mostly calls. */
export const EXCHANGE_ANSWER_BYTES_MIN = 4 << 10;
/**
 * Frames of the operations of one call, 24 MiB: all of them may be for one shard, and go there in one call, which carries
 * 32 MiB on the platform, with up to `LANE_CALL_BYTES_MAX` of others before them.
 */
export const BATCH_BYTES_MAX = 24 << 20;
/**
 * Replies that are held for an RPC caller, 24 MiB. A call between Workers carries 32 MiB; what is left is for the objects
 * that replies become.
 */
export const RPC_REPLY_BYTES_MAX = 24 << 20;
/** The same for a request over HTTP, 1 MiB: the client reads a part while the shard makes the next. */
export const HTTP_CALL_REPLY_BYTES_MAX = 1 << 20;
/** The same for a connection, 256 KiB: a Hub serves many of them. */
export const HUB_CALL_REPLY_BYTES_MAX = 256 << 10;

// Connections of a Hub: src/objects/hub

/** Changes of subscriptions that are waited for together. */
export const SUBSCRIBES_PENDING_MAX = 1000;
/** Replies of the connection itself that are sent at once. */
export const OWN_REPLY_BYTES = 64 << 10;
/** Requests about the connection itself that are answered in a row: the Hub serves others between. A few milliseconds. */
export const OWN_PIECE_FRAMES = 4096;
/** Bytes of unfinished frames, and of frames without an answer, of all clients in a Hub; beyond it, each may have little. */
export const HUB_PENDING_BYTES_MAX = 32 << 20;
/** What "little" is. */
export const HUB_PENDING_BYTES_LITTLE = 64 << 10;
/** More bytes of an unfinished frame than these keep the object awake: an attachment may have 16 KiB. */
export const UNFINISHED_STORED_BYTES_MAX = 1024;
/** Beyond this number of unread bytes, of all clients behind bridges in a Hub, each client may leave one window. */
export const BRIDGES_BACKLOG_BYTES_MAX = 32 << 20;
/** Replies that a peer may be sent without saying anything more. */
export const SILENT_BYTES_MAX = 32 << 20;
/** The same where the Hub's peers have too much already. */
export const SILENT_BYTES_LITTLE = 1 << 20;
/** What the silent peers of a Hub may be sent together, beyond that little for each. */
export const HUB_SILENT_BYTES_MAX = 64 << 20;
/** What a peer is believed to read. */
export const READ_BYTES_PER_MS = 16 << 10;
/** Replies that a peer is sent ahead of what it is believed to have read. */
export const AHEAD_BYTES_MAX = 32 << 20;
/** How long what is under way may take when the token of a connection has expired. */
export const EXPIRED_CONNECTION_MS = 10_000;
/** Tallies of connections are stored at most this long after they changed. */
export const TALLIES_STORE_DELAY_MS = 1000;

// Channels: src/objects/channel, src/dispatch/publisher.ts, own-channels.ts

/** Messages of one caller to one group that go in a call: the platform carries 32 MiB, and others wait behind it. */
export const PUBLISH_CALL_BYTES_MAX = 4 << 20;
/** Namespaces whose Hubs an isolate remembers. */
export const OWN_NAMESPACES_MAX = 1024;
/** Messages that wait for a Hub that is slow; more are lost to it. */
export const SLOW_HUB_QUEUE_BYTES_MAX = 8 << 20;
/** What the messages of one publication that wait for a Hub take beside their bytes: objects and promises, as measured. */
export const WAITING_DELIVERY_BYTES = 768;
/** As many wait for any Hub: their publishers wait, too. */
export const HUB_QUEUE_BYTES_MAX = 48 << 20;
/** Calls under way to a Hub of release 0.4, which takes one channel in each. */
export const SINGLE_CALLS_MAX = 64;
/** Bytes of names and joins in a group. */
export const JOINED_BYTES_MAX = 16 << 20;
/** Names in one call to a Hub that asks whether it still wants them. */
export const JOINS_VERIFIED_AT_ONCE = 4096;
/** How far the stored high mark runs ahead of the numbers in use: a row for so many messages, and a gap of as many after a crash. */
export const NUMBERS_RESERVED = 10_000;
/** Exact numbers are stored when no message has been numbered for so long. */
export const NUMBERS_SETTLE_MS = 500;
/** Bytes of channels that are numbered; beyond it those are forgotten that were unused longest. */
export const NUMBERED_BYTES_MAX = 8 << 20;
/** Replayed at once, at most: of more messages the latest are given. */
export const REPLAY_BYTES_MAX = 4 << 20;
/** Bytes of all messages that a group keeps, with what each chunk takes beside them. */
export const GROUP_KEPT_BYTES_MAX = 16 << 20;
/** A row may have 2 MB; one message of 1.8 MB is a chunk of its own. */
export const REPLAY_CHUNK_BYTES_MAX = 1 << 20;

// The Directory: src/objects/channel/directory.ts, directory-counts.ts, shard-reports.ts, namespace-list.ts, src/engine/history.ts

/** From the first report of a minute to the row: the other objects report with their first requests of the minute. */
export const HISTORY_GATHER_MS = 1000;
/** Without calls for once or twice as long, the Directory writes what it alone knows: it sleeps after about ten seconds. */
export const HISTORY_REST_MS = 4000;
/** Objects whose last report is known: Shards, Hubs with connections, and the doors. */
export const HISTORY_OBJECTS_MAX = 1024;
/** With more shards the overview and metrics show what shards have reported: asking them would keep all of them awake. */
export const SHARDS_ASKED_MAX = 16;
/** Reports of shards in one row: about 100 KiB. */
export const SHARD_REPORTS_PER_ROW = 64;
/** From a shard's report to the row: reports that come together share rows. */
export const SHARD_REPORTS_GATHER_MS = 5000;
/** How long after its last call a shard reports once more; it is in memory, and billed, for about ten seconds anyway. */
export const SHARD_REST_MS = 5000;
/** Namespaces that one ring of the alarm tells of revoked tokens: an alarm may make a limited number of calls. */
export const NAMESPACES_TOLD_AT_ONCE = 200;
/** Namespaces that are listed, at most. */
export const NAMESPACES_LISTED_MAX = 100_000;

// Doors: src/worker/response-sink.ts, body.ts, read-buffer.ts, door-tally.ts, hubs.ts, revocation-copies.ts

/**
 * How long a connection may take to open. Cloudflare ends what a request has left 30 s after its client has gone, and what it has
 * counted would stay counted.
 */
export const OPENING_MS_MAX = 25_000;
/** How long a door trusts the list of revoked tokens that it has read. */
export const REVOCATIONS_TRUSTED_MS = 60_000;
/** More held bytes than these, 2 MiB, are streamed: a client reads the first while a shard makes the next. */
export const RESPONSE_HELD_BYTES_MAX = 2 << 20;
/** A body whose runs take longer than this is streamed. */
export const RESPONSE_HELD_MS_MAX = 1000;
/** What is given to the runtime at once. It does not tell how much of it the client has taken, only when all is. */
export const RESPONSE_WRITE_BYTES = 64 << 10;
/**
 * Bytes that all responses of the isolate may hold, 32 MiB of its 128; beyond it, clients must read more than a little
 * each second.
 */
export const RESPONSES_BYTES_MAX = 32 << 20;
/**
 * What "a little" is, 256 KiB: a response that holds less is left alone, and a client that reads more each second keeps
 * up.
 */
export const RESPONSES_BYTES_LITTLE = 256 << 10;
/** How often a response is looked at: a write that does not end is no event that could be waited for. */
export const RESPONSE_WATCH_MS = 1000;
/**
 * This many bytes must arrive within `STALL_TIMEOUT_MS`, unless they are the last. The first part of each body does not
 * count as unfinished: the connection itself takes more, and short bodies must not be refused because of uploads.
 */
export const BODY_PART_BYTES = 4096;
/** Smallest buffer after the first part. */
export const BODY_ROOM_BYTES = 64 << 10;
/** Buffer of an idle TCP connection: thousands of them wait at once. */
export const READ_BUFFER_BYTES_MIN = 1 << 10;
/** Buffer of a busy TCP connection: each read is a message to the Hub. A power of 8 times the smallest. */
export const READ_BUFFER_BYTES_MAX = 64 << 10;
/** How long counts of a door wait, so that many requests share one call. */
export const DOOR_FLUSH_DELAY_MS = 1000;
