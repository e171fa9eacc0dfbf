/**
 * Requests about all of a namespace: LIST, STATS, INFO, CONNECTIONS, CONNECTION, CHANNELS, CHANNEL, and the commands SCAN,
 * REMOVE, EXPORT, EXPORT_LEASES, SEMAPHORES, HOLDERS, LIMIT_ALL, which have files of their own.
 *
 * Their answers are gathered from all shards, or from all Hubs. Those of the Throttr protocol have no limit, so they are
 * streamed: a fragment goes out before the next ones are asked for, as an isolate has 128 MB. Nothing of it is a
 * snapshot: objects share no transaction, and others are served between two calls.
 */
import { presentMs } from "../base/clock.ts";
import type { Environment } from "../base/environment.ts";
import { rowBytesOf, type ListingPart, type ListingQuery } from "../engine/listing.ts";
import { HASH_END, type Totals } from "../engine/table.ts";
import { countsAt, TALLY_READ_BYTES, TALLY_WRITE_BYTES } from "../engine/tally.ts";
import { ByteWriter, compareBytes } from "../wire/bytes.ts";
import { Command, COMMANDS_START, writeError } from "../wire/edge/command.ts";
import type { PageReader } from "../wire/page.ts";
import {
  CONNECTION_ROW_BYTES,
  connectionRowBytes,
  connectionRowOf,
} from "../wire/throttr/connection-row.ts";
import { encodeInfo } from "../wire/throttr/info.ts";
import {
  channelOfFrame,
  layoutsOf,
  RequestType,
  STATUS_FAILURE,
  STATUS_SUCCESS,
  type Layout,
} from "../wire/throttr/requests.ts";
import { missingRightError, missingRightOfFrame, type Access } from "../base/access.ts";
import { hasMoved } from "../base/failure.ts";
import { askHubs } from "./ask-hubs.ts";
import { hubOfChannel, hubOfConnection } from "../base/connection-id.ts";
import { exportLeases, exportPage } from "./exports.ts";
import { sendFragments, writeHead } from "./fragmented-reply.ts";
import type { SubscriberFigures } from "../base/calls/hub.ts";
import { mergeHubs } from "./hub-pages.ts";
import { limitAll } from "./limit-all.ts";
import { inTime } from "../base/in-time.ts";
import { Merge, pageBytesOf } from "./merge.ts";
import { EVERYBODY, hubName, type HubAddress } from "../base/names.ts";
import { channelsOf, countedSinceMs, figuresOf } from "./overview.ts";
import { groupStubOf } from "./groups.ts";
import { remove, scan, writeReply } from "./scans.ts";
import { holders, semaphores } from "./semaphore-scans.ts";
import { walk, type AskedShard, type ShardGroup } from "./shard-group.ts";
import type { ShardPlan } from "../base/calls/shard.ts";
import type { Frames, Sink } from "./sink.ts";
import { answeringHubs, answeringShards, askWhole } from "./survey.ts";
import { directoryStub, hubStub } from "../base/stubs.ts";
import { turn } from "../base/turn.ts";
import { VERSION } from "../base/version.ts";
import { ThrottrError } from "../wire/edge/error.ts";
import {
  LISTING_CALL_FRAGMENTS,
  MERGED_RECORDS_MAX,
  ORDERED_RECORDS_MAX,
} from "../engine/sizes.ts";

/** Of CHANNEL: id of the connection, 16 bytes; since in ns, bytes read and bytes written, u64 each. */
const SUBSCRIBER_ROW_BYTES = 40;

/** Commands of the edge dialect on all of a namespace: each writes the body of its success, or throws a Refusal. */
const COMMANDS: Readonly<Record<number, typeof scan>> = {
  [Command.scan]: scan,
  [Command.limitAll]: limitAll,
  [Command.remove]: remove,
  [Command.export]: exportPage,
  [Command.exportLeases]: exportLeases,
  [Command.semaphores]: semaphores,
  [Command.holders]: holders,
};

/** Answers one request, and keeps nothing beyond it. */
export class NamespaceRequests {
  readonly #env: Environment;
  readonly #shards: ShardGroup;
  readonly #flush: () => Promise<void>;

  /** @param flush brings what the caller has counted to where INFO finds it */
  constructor(env: Environment, shards: ShardGroup, flush: () => Promise<void>) {
    this.#env = env;
    this.#shards = shards;
    this.#flush = flush;
  }

  /** Answers a run of one request. */
  async answer(frames: Frames, access: Access, sink: Sink): Promise<void> {
    const { protocol, bytes } = frames;
    const layout = layoutsOf(protocol)[bytes[0]!]!;
    try {
      // The run before was answered in this turn: a connection that only lists would let no other one be served.
      await turn();
      const missing = frames.isAllowed ? null : missingRightOfFrame(access, layout, bytes, 0);
      if (missing === null) await this.#request(frames, layout, access, sink);
      else
        sink.reply(
          refusalReply(bytes[0]!, missingRightError(missing, layout, access).message),
          true,
        );
    } catch (error) {
      sink.fail(error);
    }
  }

  /**
   * @throws what a shard throws; the caller's connection ends then, as a reply can't say that it has begun in vain
   */
  async #request(frames: Frames, layout: Layout, access: Access, sink: Sink): Promise<void> {
    switch (frames.bytes[0]) {
      case RequestType.list:
        return await this.#list("list", frames, layout, access, sink);
      case RequestType.stats:
        return await this.#list("stats", frames, layout, access, sink);
      case RequestType.info:
        return await this.#info(frames, layout, sink);
      case RequestType.connections:
        return await this.#connections(frames, layout, sink);
      case RequestType.connection:
        return await this.#connection(frames, sink);
      case RequestType.channels:
        return await this.#channels(frames, layout, access, sink);
      case RequestType.channel:
        return await this.#channel(frames, layout, sink);
    }
    const writeAnswer = COMMANDS[frames.bytes[0]!]!;
    const { bytes } = frames;
    sink.reply(await writeReply((out) => writeAnswer(this.#shards, bytes, access, out)), true);
  }

  /** LIST and STATS: in the order of keys while there are few records, else as they lie in the tables. */
  async #list(
    rows: ListingQuery["rows"],
    { protocol }: Frames,
    { hasStatus }: Layout,
    access: Access,
    sink: Sink,
  ): Promise<void> {
    const query: ListingQuery = {
      rows,
      valueSize: protocol.valueSize,
      keyspace: protocol.keyspace,
      prefixes: access.keyPrefixes,
      hasLiveUsage: protocol.hasLiveUsage,
    };
    const sources = await this.#shards.sources(async ({ placement, stub }, after, isFirst) => {
      const recordsMax = isFirst ? ORDERED_RECORDS_MAX : MERGED_RECORDS_MAX;
      const pageBytes = pageBytesOf(this.#shards.map.ranges.count);
      return await stub().page(placement, query, after, pageBytes, recordsMax);
    });
    const merge = await Merge.open(sources);
    // In the order of keys that costs each shard a sort with every page: with many records, as they lie.
    if (merge.total > ORDERED_RECORDS_MAX) {
      await this.#stream(query, hasStatus, sink);
      return;
    }
    const rowBytes = rowBytesOf(query);
    await sendFragments(
      sink,
      { hasStatus, rowBytes, hasNames: true },
      merge,
      ([entry], target, at) => {
        const { bytes, rowAt } = entry!;
        target.set(bytes.subarray(rowAt, rowAt + rowBytes), at);
      },
    );
  }

  /**
   * Many records: shard by shard, as they lie. Shards first plan their fragments, since the count of all goes first;
   * they then write what the plan says, with the records that are there by then.
   */
  async #stream(query: ListingQuery, hasStatus: boolean, sink: Sink): Promise<void> {
    const plans = await this.#shards.askAll((shard) => planOf(shard, query));
    const fragments = plans
      .flatMap(({ answer }) => answer.parts)
      .reduce((sum, part) => sum + part.fragments, 0);
    sink.reply(writeHead(hasStatus, fragments), fragments === 0);
    const calls = plans.flatMap(({ shard, answer: { hashes, parts } }) =>
      callsOf(parts).map((call) => ({ shard, hashes, ...call })),
    );
    let index = 1;
    for (const [i, { shard, hashes, parts, to, fragments: count }] of calls.entries()) {
      const room = sink.room();
      if (room !== null) await room;
      await turn();
      const { placement, stub } = shard;
      const fragmentsOfCall = stub().fragments(placement, hashes, query, parts, to, index);
      const replies = await orListingLost(fragmentsOfCall);
      sink.reply(replies, i === calls.length - 1);
      index += count;
    }
  }

  /** @throws what a Shard throws: INFO has no field for a sum that leaves one out */
  async #info({ protocol }: Frames, { hasStatus }: Layout, sink: Sink): Promise<void> {
    await this.#flush();
    const survey = await askWhole(this.#env, this.#shards);
    const figures = figuresOf(survey);
    const hubs = answeringHubs(survey);
    const shards = answeringShards(survey);
    const sumOf = (count: (totals: Totals) => number): number =>
      shards.reduce((sum, { totals }) => sum + count(totals), 0);
    const counters = sumOf((totals) => totals.counters);
    const info = encodeInfo({
      nowMs: presentMs(),
      requests: (type) => countsAt(figures, type),
      readBytes: countsAt(figures, TALLY_READ_BYTES),
      writeBytes: countsAt(figures, TALLY_WRITE_BYTES),
      counters,
      buffers: sumOf((totals) => totals.buffers),
      counterBytes: counters * protocol.valueSize,
      bufferBytes: sumOf((totals) => totals.bufferBytes),
      subscriptions: hubs.reduce((sum, hub) => sum + hub.subscriptions, 0),
      channels: channelsOf(hubs),
      runningSinceMs: countedSinceMs(shards),
      connections: hubs.reduce((sum, hub) => sum + hub.connections, 0),
      version: VERSION,
    });
    const out = new ByteWriter(info.length + 1);
    if (hasStatus) out.u8(STATUS_SUCCESS);
    out.copy(info);
    sink.reply(out.take(), true);
  }

  /** All connections, in the order in which they were made. */
  async #connections({ protocol }: Frames, { hasStatus }: Layout, sink: Sink): Promise<void> {
    const merge = await mergeHubs(this.#env, this.#shards.map.namespace, (hub, after, bytesMax) =>
      hub.connectionsPage(after, bytesMax),
    );
    const rowBytes = connectionRowBytes(protocol.dialect);
    await sendFragments(
      sink,
      { hasStatus, rowBytes, hasNames: false },
      merge,
      ([entry], target, at) => {
        target.set(connectionRowOf(protocol.dialect, entry!.bytes, entry!.rowAt), at);
      },
    );
  }

  /** 7.3 asks by id, 7.1 by position. */
  async #connection({ protocol, bytes }: Frames, sink: Sink): Promise<void> {
    const row =
      protocol.dialect === "7.1"
        ? await this.#connectionAt(new DataView(bytes.buffer, bytes.byteOffset).getUint32(1, true))
        : await this.#connectionOf(bytes.slice(1));
    if (row === null) {
      sink.reply(Uint8Array.of(STATUS_FAILURE), true);
      return;
    }
    const out = new ByteWriter(1 + CONNECTION_ROW_BYTES);
    out.u8(STATUS_SUCCESS);
    out.copy(connectionRowOf(protocol.dialect, row, 0));
    sink.reply(out.take(), true);
  }

  /**
   * Asks the one Hub that the id names; null if it has no such connection.
   *
   * @throws ThrottrError `hub_failed`: null would say that there is none
   */
  async #connectionOf(id: Uint8Array): Promise<Uint8Array | null> {
    const hub = await this.#hubAt(hubOfConnection(id));
    if (hub === null) return null;
    const row = await inTime(hubStub(this.#env, hub).connectionRow(id), hub);
    if (row === undefined) throw hubFailed();
    return row;
  }

  /** The Hub of an id, if it has connections: ids can be made up, and an object exists from its first call on. */
  async #hubAt(address: HubAddress | null): Promise<string | null> {
    if (address === null) return null;
    const { namespace } = this.#shards.map;
    const name = hubName.format(namespace, address);
    return (await directoryStub(this.#env, namespace).hubs()).includes(name) ? name : null;
  }

  /** A position among all connections, as CONNECTIONS lists them: 7.1 has no ids. */
  async #connectionAt(index: number): Promise<Uint8Array | null> {
    const merge = await mergeHubs(this.#env, this.#shards.map.namespace, (hub, after, bytesMax) =>
      hub.connectionsPage(after, bytesMax),
    );
    let row: Uint8Array | null = null;
    let position = 0;
    await merge.forEach(([entry]) => {
      if (position++ < index) return "next";
      row = entry!.bytes.slice(entry!.rowAt, entry!.rowAt + CONNECTION_ROW_BYTES);
      return "end";
    });
    return row;
  }

  /** A channel with subscribers in several Hubs is one row: their figures are added. */
  async #channels(
    { protocol }: Frames,
    { hasStatus }: Layout,
    { channelPrefixes }: Access,
    sink: Sink,
  ): Promise<void> {
    const merge = await mergeHubs(this.#env, this.#shards.map.namespace, (hub, after, bytesMax) =>
      hub.channelsPage(after, bytesMax, channelPrefixes),
    );
    const isShort = protocol.dialect === "7.1";
    await sendFragments(
      sink,
      { hasStatus, rowBytes: isShort ? 21 : 25, hasNames: true },
      merge,
      (entries, target, at) => {
        const view = new DataView(target.buffer);
        view.setUint8(at, entries[0]!.keyLength);
        view.setBigUint64(at + 1, sumAt(entries, 0), true);
        view.setBigUint64(at + 9, sumAt(entries, 8), true);
        const subscriptions = sumAt(entries, 16);
        if (isShort) view.setUint32(at + 17, Number(subscriptions), true);
        else view.setBigUint64(at + 17, subscriptions, true);
      },
    );
  }

  /** The subscriptions to one channel, in the order in which they were made. */
  async #channel({ bytes }: Frames, layout: Layout, sink: Sink): Promise<void> {
    const channel = channelOfFrame(layout, bytes, 0);
    const asked = await this.#hubsOf(channel);
    const hubs = await askHubs(this.#env, asked, (hub) => hub.subscribers(channel));
    const rows: SubscriberFigures[] = hubs.flatMap(({ answer }) => answer);
    if (rows.length === 0) {
      // The Hubs that did not answer may have subscribers.
      if (hubs.length < asked.length) throw hubFailed();
      sink.reply(Uint8Array.of(STATUS_FAILURE), true);
      return;
    }
    rows.sort(
      (a, b) =>
        a.sinceMs - b.sinceMs ||
        (a.sinceNs ?? 0) - (b.sinceNs ?? 0) ||
        compareBytes(a.id, 0, a.id.length, b.id, 0, b.id.length),
    );
    const out = new ByteWriter(9 + rows.length * SUBSCRIBER_ROW_BYTES);
    out.u8(STATUS_SUCCESS);
    out.u64(rows.length);
    for (const { id, sinceMs, sinceNs = 0, readBytes, writeBytes } of rows) {
      out.copy(id);
      const at = out.reserve(24);
      out.view.setBigUint64(at, BigInt(sinceMs) * 1_000_000n + BigInt(sinceNs), true);
      out.view.setBigUint64(at + 8, BigInt(readBytes), true);
      out.view.setBigUint64(at + 16, BigInt(writeBytes), true);
    }
    sink.reply(out.take(), true);
  }

  /** The Hubs that have subscribers of a channel. */
  async #hubsOf(channel: string): Promise<string[]> {
    const { namespace } = this.#shards.map;
    if (channel === EVERYBODY) return await directoryStub(this.#env, namespace).hubs();
    const hubs = await groupStubOf(this.#env, namespace, channel).hubsOf(channel);
    const owner = await this.#hubAt(hubOfChannel(channel));
    return owner === null ? hubs : [...new Set([...hubs, owner])];
  }
}

/** For an answer that would say that nothing is there, though the Hub that would know has not answered. */
function hubFailed(): ThrottrError {
  return new ThrottrError("hub_failed", "an object that has connections did not answer: try again");
}

/** A failure as the protocol knows it; for commands of the edge dialect with its code. */
function refusalReply(type: number, text: string): Uint8Array {
  if (type < COMMANDS_START) return Uint8Array.of(STATUS_FAILURE);
  const out = new ByteWriter(text.length + 8);
  writeError(out, text);
  return out.take();
}

/** How a shard would cut its records into fragments: names of places, not records. */
async function planOf({ placement, stub }: AskedShard, query: ListingQuery): Promise<ShardPlan> {
  const parts: ListingPart[] = [];
  let order = "";
  const steps = walk((hashes, cursor) => stub().plan(placement, hashes, query, cursor));
  for await (const step of steps) {
    parts.push(...step.parts);
    order = step.hashes;
  }
  return { hashes: order, parts };
}

/** A shard that has split serves a listing that began before for a while; what comes later can't be made whole. */
async function orListingLost<T>(call: Promise<T>): Promise<T> {
  try {
    return await call;
  } catch (error) {
    if (!hasMoved(error)) throw error;
    throw new ThrottrError("listing_lost", "a shard split during the listing: list again");
  }
}

/** One call to a shard for fragments of a listing. */
interface FragmentsCall {
  readonly parts: ListingPart[];
  /** Hash at which the call ends: where the next one begins. */
  to: number;
  /** Fragments of all parts together. */
  fragments: number;
}

/** Groups the parts of a shard into calls. */
function callsOf(parts: readonly ListingPart[]): FragmentsCall[] {
  const calls: FragmentsCall[] = [];
  for (const part of parts) {
    const last = calls.at(-1);
    if (last !== undefined && last.fragments + part.fragments <= LISTING_CALL_FRAGMENTS) {
      last.parts.push(part);
      last.fragments += part.fragments;
    } else {
      if (last !== undefined) last.to = part.from;
      calls.push({ parts: [part], to: HASH_END, fragments: part.fragments });
    }
  }
  return calls;
}

/** Adds a field of all entries with one key. Counts are below 2^53: f64 holds them exactly. */
function sumAt(entries: readonly PageReader[], offset: number): bigint {
  return BigInt(entries.reduce((sum, { view, rowAt }) => sum + view.getFloat64(rowAt + offset), 0));
}
