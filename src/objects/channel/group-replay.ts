/**
 * Messages of a group's channels that are kept for listeners that come back (`REPLAY_MESSAGES_MAX`).
 *
 * The messages of one publication to one channel are a chunk, and a chunk is a row: rows are billed, not bytes. A channel
 * keeps as many as one listener can be sent. A group is bounded as well, and drops messages of its largest channels first, so a
 * flood on one channel costs that channel's own messages.
 */
import { ByteWriter } from "../../wire/bytes.ts";
import { forEachMessage, writeMessage } from "../../wire/messages.ts";
import { logWarning } from "../../base/log.ts";
import { blobOf, channelOfBlob, type GroupStore } from "./group-store.ts";
import { KEPT_MS, type Numbered } from "./group-numbers.ts";
import {
  GROUP_KEPT_BYTES_MAX,
  REPLAY_BYTES_MAX,
  REPLAY_CHUNK_BYTES_MAX,
} from "../../engine/sizes.ts";

/** What a row takes beside its messages, in memory and on disk. */
const CHUNK_OVERHEAD_BYTES = 256;

/** A row, without its messages. */
interface Chunk {
  /** Part of the key of its row: slots are used again. */
  readonly slot: number;
  /** Number of its first message. */
  readonly first: number;
  readonly count: number;
  readonly bytes: number;
  /** When it was published, in ms since the epoch. */
  readonly atMs: number;
}

interface Row extends Record<string, SqlStorageValue> {
  readonly name: ArrayBuffer;
  readonly slot: number;
  readonly first: number;
  readonly count: number;
  readonly bytes: number;
  readonly at_ms: number;
}

const SELECT = "SELECT name, slot, first, count, bytes, at_ms FROM messages";
const DELETE = "DELETE FROM messages WHERE name = ? AND slot = ?";

/** What is kept of one channel. */
interface Kept {
  /** In order. */
  readonly chunks: Chunk[];
  bytes: number;
  count: number;
}

/** Of one group. */
export class GroupReplay {
  readonly #store: GroupStore;
  readonly #messagesMax: number;
  /** What is kept, without the messages: those stay on disk until a listener asks. */
  readonly #channels = new Map<string, Kept>();
  #bytes = 0;

  /** @param messagesMax of a channel; 0 keeps none */
  constructor(store: GroupStore, messagesMax: number) {
    this.#store = store;
    this.#messagesMax = messagesMax;
    // Messages that are kept are the last ones of their channel: so none may stay where none are added.
    if (messagesMax === 0) {
      if (store.rows("SELECT 1 FROM messages LIMIT 1").length > 0) {
        store.write("DELETE FROM messages");
      }
      return;
    }
    this.#load(store.rows<Row>(`${SELECT} ORDER BY name, first`));
  }

  /** Number of the last message of a channel that is kept; null when none is. */
  lastOf(channel: string): number | null {
    const chunk = this.#channels.get(channel)?.chunks.at(-1);
    return chunk === undefined ? null : chunk.first + chunk.count - 1;
  }

  /**
   * Keeps the last of messages that are numbered from `first` on.
   *
   * @throws Error when the disk is full: what was kept before stays, and nothing is added
   */
  keep(channel: string, first: number, messages: Uint8Array, count: number, nowMs: number): void {
    if (this.#messagesMax === 0) return;
    try {
      this.#store.storage.transactionSync(() => {
        this.#keepChunks(channel, first, messages, count, nowMs);
      });
    } catch (error) {
      // Statements before the one that failed have changed what memory says.
      this.#reload(channel);
      throw error;
    }
    if (this.#bytes > GROUP_KEPT_BYTES_MAX) this.#levelDown();
  }

  #keepChunks(
    channel: string,
    first: number,
    messages: Uint8Array,
    count: number,
    nowMs: number,
  ): void {
    // A publication may have more messages than are kept: the first ones are not even written.
    const skipped = Math.max(0, count - this.#messagesMax);
    let sequence = first;
    let chunkFirst = first + skipped;
    let from = 0;
    forEachMessage(messages, (at, length) => {
      const start = at - LENGTH_BYTES;
      if (sequence === chunkFirst) {
        from = start;
      } else if (sequence > chunkFirst && at + length - from > REPLAY_CHUNK_BYTES_MAX) {
        const chunk = messages.slice(from, start);
        this.#keepChunk(channel, chunkFirst, sequence - chunkFirst, chunk, nowMs);
        chunkFirst = sequence;
        from = start;
      }
      sequence++;
    });
    this.#keepChunk(channel, chunkFirst, sequence - chunkFirst, messages.slice(from), nowMs);
  }

  /** The kept messages behind a number, format: `wire/messages.ts`, and the number of the first. */
  replay(
    { channel, sequence }: Numbered,
    after: number | null,
    nowMs: number,
  ): { replayFrom: number; replay: Uint8Array } {
    // A listener that has none before gets none: it begins with what comes next.
    const from = Math.max((after ?? sequence) + 1, sequence - this.#messagesMax + 1);
    const payloads: Uint8Array[] = [];
    let bytes = 0;
    let next = sequence;
    for (const chunk of this.#channels.get(channel)?.chunks.toReversed() ?? []) {
      // Backwards from the newest. A gap, where a crash has taken a chunk, ends it: numbers must not jump.
      const isNext = chunk.first + chunk.count - 1 === next;
      if (!isNext || next < from || nowMs - chunk.atMs >= KEPT_MS) break;
      for (const payload of this.#payloadsOf(channel, chunk).toReversed()) {
        const isTooMuch = bytes + payload.length > REPLAY_BYTES_MAX && payloads.length > 0;
        if (next < from || isTooMuch) return replayOf(payloads, next + 1);
        bytes += payload.length;
        payloads.push(payload);
        next--;
      }
    }
    return replayOf(payloads, next + 1);
  }

  /**
   * Drops what is older than a day: no listener is given it.
   *
   * @throws Error when the disk refuses it: what is left stays kept
   */
  dropOld(nowMs: number): void {
    for (const [channel, { chunks }] of this.#channels) {
      const old = chunks.filter(({ atMs }) => nowMs - atMs >= KEPT_MS).length;
      this.#drop(channel, old);
    }
  }

  /**
   * Drops all messages of a channel.
   *
   * @throws Error when the disk refuses it: the newest of them stay kept
   */
  forget(channel: string): void {
    this.#drop(channel, this.#channels.get(channel)?.chunks.length ?? 0);
  }

  /** Keeps one row of messages, and drops what no listener could be given any more. */
  #keepChunk(
    channel: string,
    first: number,
    count: number,
    messages: Uint8Array<ArrayBuffer>,
    atMs: number,
  ): void {
    const kept = this.#channels.get(channel);
    const bytes = messages.length + CHUNK_OVERHEAD_BYTES;
    const outdated = kept === undefined ? 0 : this.#outdated(kept, count, bytes);
    // Overwriting a row is billed as one, deleting it and writing another as two.
    const slot = outdated > 0 ? kept!.chunks[0]!.slot : freeSlot(kept?.chunks ?? []);
    this.#drop(channel, outdated, slot);
    this.#store.write(
      "INSERT OR REPLACE INTO messages VALUES (?, ?, ?, ?, ?, ?, ?)",
      blobOf(channel),
      slot,
      first,
      count,
      bytes,
      atMs,
      messages.buffer,
    );
    this.#push(channel, { slot, first, count, bytes, atMs });
  }

  /** How many of the oldest chunks no listener is given once a further one is kept. */
  #outdated(kept: Kept, count: number, bytes: number): number {
    let countBehind = kept.count + count;
    let bytesBehind = kept.bytes + bytes;
    let outdated = 0;
    for (const chunk of kept.chunks) {
      countBehind -= chunk.count;
      bytesBehind -= chunk.bytes;
      if (countBehind < this.#messagesMax && bytesBehind < REPLAY_BYTES_MAX) break;
      outdated++;
    }
    return outdated;
  }

  #load(rows: readonly Row[]): void {
    for (const { name, at_ms: atMs, ...chunk } of rows) {
      this.#push(channelOfBlob(name), { ...chunk, atMs });
    }
  }

  #reload(channel: string): void {
    this.#bytes -= this.#channels.get(channel)?.bytes ?? 0;
    this.#channels.delete(channel);
    const ofChannel = `${SELECT} WHERE name = ? ORDER BY first`;
    this.#load(this.#store.rows<Row>(ofChannel, blobOf(channel)));
  }

  /** Notes a chunk that is on disk. */
  #push(channel: string, chunk: Chunk): void {
    let kept = this.#channels.get(channel);
    if (kept === undefined) {
      kept = { chunks: [], bytes: 0, count: 0 };
      this.#channels.set(channel, kept);
    }
    kept.chunks.push(chunk);
    kept.bytes += chunk.bytes;
    kept.count += chunk.count;
    this.#bytes += chunk.bytes;
  }

  /**
   * Drops the oldest chunks of a channel.
   *
   * @param reused slot whose row is about to be overwritten
   * @throws Error when the disk refuses it: what is left stays kept
   */
  #drop(channel: string, chunks: number, reused: number | null = null): void {
    const kept = this.#channels.get(channel);
    if (kept === undefined) return;
    for (const { slot, bytes, count } of kept.chunks.slice(0, chunks)) {
      // Its row first: where a full disk refuses that, the chunk is still kept, and counted.
      if (slot !== reused) this.#store.write(DELETE, blobOf(channel), slot);
      kept.chunks.shift();
      kept.bytes -= bytes;
      kept.count -= count;
      this.#bytes -= bytes;
    }
    if (kept.chunks.length === 0) this.#channels.delete(channel);
  }

  /**
   * Frees an eighth of the group's room: every channel is cut down to one level, so that those below it
   * lose nothing. A full disk may refuse it: the messages that are over it stay, and the next `keep` tries again.
   */
  #levelDown(): void {
    const sizes = Array.from(this.#channels, ([channel, { bytes }]) => ({ channel, bytes }));
    sizes.sort((a, b) => a.bytes - b.bytes);
    let left = (GROUP_KEPT_BYTES_MAX / 8) * 7;
    let level = 0;
    for (const [i, { bytes }] of sizes.entries()) {
      level = left / (sizes.length - i);
      if (bytes > level) break;
      left -= bytes;
    }
    for (const { channel, bytes } of sizes) {
      if (bytes > level && !this.#cutTo(channel, level)) return;
    }
  }

  /** Drops the oldest chunks until the rest fits; false when the disk has refused that. */
  #cutTo(channel: string, bytesMax: number): boolean {
    const { chunks, bytes } = this.#channels.get(channel)!;
    let left = bytes;
    let dropped = 0;
    while (left > bytesMax) left -= chunks[dropped++]!.bytes;
    try {
      this.#drop(channel, dropped);
      return true;
    } catch (error) {
      logWarning("replay_uncut", { error: String(error) });
      return false;
    }
  }

  /** Reads the messages of a chunk from disk, in order. */
  #payloadsOf(channel: string, { slot }: Chunk): Uint8Array[] {
    const [row] = this.#store.rows<{ messages: ArrayBuffer }>(
      "SELECT messages FROM messages WHERE name = ? AND slot = ?",
      blobOf(channel),
      slot,
    );
    const messages = new Uint8Array(row!.messages);
    const payloads: Uint8Array[] = [];
    forEachMessage(messages, (at, length) => payloads.push(messages.subarray(at, at + length)));
    return payloads;
  }
}

/** In front of each message. */
const LENGTH_BYTES = 4;

/** Slots name rows; they say nothing about the order of messages. */
function freeSlot(chunks: readonly Chunk[]): number {
  return chunks.reduce((slot, chunk) => Math.max(slot, chunk.slot + 1), 0);
}

/** @param payloads the newest first */
function replayOf(
  payloads: readonly Uint8Array[],
  replayFrom: number,
): { replayFrom: number; replay: Uint8Array } {
  const out = new ByteWriter(payloads.reduce((sum, { length }) => sum + length + LENGTH_BYTES, 0));
  for (const payload of payloads.toReversed()) writeMessage(out, payload, 0, payload.length);
  return { replayFrom, replay: out.take() };
}
