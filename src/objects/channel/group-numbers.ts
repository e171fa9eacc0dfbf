/**
 * Numbers of the messages of a group's channels.
 *
 * A channel's messages are numbered once a client has listened to it over HTTP, which can then see what
 * it has missed. Numbers go up by one with each message of a channel. Those of a new channel, or of one
 * that was forgotten, begin above all that the group has ever used and above the time in milliseconds: so
 * a number that a listener remembers never comes again, whatever was lost or forgotten meanwhile.
 *
 * No number is stored for each message. Before a burst of messages the head says up to which number the
 * channels may go; half a second after it, the exact numbers are stored. After a crash within a burst all
 * channels go on above what the head says, but for those whose last message was stored.
 */
import { blobOf, channelOfBlob, type GroupStore } from "./group-store.ts";
import { NUMBERED_BYTES_MAX, NUMBERS_RESERVED } from "../../engine/sizes.ts";

/** How long the number of a channel is kept that has no subscriber. */
export const KEPT_MS = 86_400_000;
/** What a channel takes beside its name. */
const OVERHEAD_BYTES = 128;

/** A channel whose messages are numbered. */
export interface Numbered {
  readonly channel: string;
  /** Number of its last message. */
  sequence: number;
  /** When it was last listened to, or lost its last subscriber. */
  usedAtMs: number;
}

/** What numbers need to know of their group. */
export interface NumbersHost {
  /** The channel has subscribers. */
  isJoined(channel: string): boolean;
  /** Number of the last message of the channel that is stored; null when none is. */
  lastKept(channel: string): number | null;
  /** The channel is not numbered any more. */
  onForget(channel: string): void;
}

/** Of one group. Only channels that were listened to over HTTP are in it. */
export class GroupNumbers {
  readonly #store: GroupStore;
  readonly #host: NumbersHost;
  /** By name, as a binary string. */
  readonly #channels = new Map<string, Numbered>();
  /** Channels whose stored number is not exact. */
  readonly #unsettled = new Set<Numbered>();
  /** No number above this one has been used. */
  high: number;
  /** What all channels count: see `NUMBERED_BYTES_MAX`. */
  #bytes = 0;
  /** Goes up with each message that is numbered. */
  uses = 0;

  constructor(store: GroupStore, host: NumbersHost) {
    this.#store = store;
    this.#host = host;
    this.high = store.high;
    const floor = store.isSettled ? 0 : store.high;
    const rows = store.rows<{ name: ArrayBuffer; sequence: number; used_at_ms: number }>(
      "SELECT name, sequence, used_at_ms FROM numbers",
    );
    for (const { name, sequence, used_at_ms: usedAtMs } of rows) {
      const channel = channelOfBlob(name);
      const last = Math.max(sequence, host.lastKept(channel) ?? floor);
      const numbered = { channel, sequence: last, usedAtMs };
      this.#add(numbered);
      // `settle` removes the floor for all channels: also those without a message since then need their number in a row.
      if (last > sequence) this.#unsettled.add(numbered);
      this.high = Math.max(this.high, last);
    }
  }

  /** Channels that are numbered. */
  get size(): number {
    return this.#channels.size;
  }

  /** Undefined for a channel whose messages are not numbered. */
  get(channel: string): Numbered | undefined {
    return this.#channels.get(channel);
  }

  /** A client listens to the channel: its messages are numbered from now on. */
  listen(channel: string, nowMs: number): Numbered {
    let numbered = this.#channels.get(channel);
    if (numbered === undefined) {
      numbered = { channel, sequence: Math.max(nowMs, this.high), usedAtMs: nowMs };
      // Where a full disk refuses the row, the channel goes on without numbers.
      this.use(numbered, nowMs);
      this.#add(numbered);
      this.high = numbered.sequence;
      if (this.#bytes > NUMBERED_BYTES_MAX) this.#makeRoom(numbered);
    } else {
      this.use(numbered, nowMs);
    }
    return numbered;
  }

  /** The channel is kept for a day from now. */
  use(numbered: Numbered, nowMs: number): void {
    numbered.usedAtMs = nowMs;
    this.#store.write(
      "INSERT OR REPLACE INTO numbers VALUES (?, ?, ?)",
      blobOf(numbered.channel),
      numbered.sequence,
      nowMs,
    );
  }

  /**
   * The number of the next message. The head says first that the channels may go as far as `count` messages need: a disk that
   * refuses leaves all numbers free.
   */
  reserve(numbered: Numbered, count: number): number {
    const high = Math.max(this.high, numbered.sequence + count);
    if (this.#store.isSettled || high > this.#store.high) {
      this.#store.storeHead(high + NUMBERS_RESERVED, false);
    }
    return numbered.sequence + 1;
  }

  /** Gives reserved numbers to messages. */
  take(numbered: Numbered, count: number): void {
    numbered.sequence += count;
    this.high = Math.max(this.high, numbered.sequence);
    this.#unsettled.add(numbered);
    this.uses++;
  }

  /** Stores exact numbers, so that an object that comes back leaves no gap. */
  settle(): void {
    if (this.#store.isSettled) return;
    for (const numbered of this.#unsettled) this.use(numbered, numbered.usedAtMs);
    this.#unsettled.clear();
    this.#store.storeHead(this.high, true);
  }

  /** Forgets the channels that have no subscriber and were not used for a day. */
  forgetUnused(nowMs: number): void {
    for (const numbered of this.#channels.values()) {
      if (nowMs - numbered.usedAtMs >= KEPT_MS && !this.#host.isJoined(numbered.channel)) {
        this.#forget(numbered);
      }
    }
  }

  /** Forgets an eighth of what is over, those first that were unused longest: rarely done, as it looks at all. */
  #makeRoom(except: Numbered): void {
    const idle = [...this.#channels.values()]
      .filter((numbered) => numbered !== except && !this.#host.isJoined(numbered.channel))
      .toSorted((a, b) => a.usedAtMs - b.usedAtMs);
    for (const numbered of idle) {
      if (this.#bytes <= (NUMBERED_BYTES_MAX / 8) * 7) break;
      this.#forget(numbered);
    }
  }

  #add(numbered: Numbered): void {
    this.#channels.set(numbered.channel, numbered);
    this.#bytes += numbered.channel.length + OVERHEAD_BYTES;
  }

  /** Its kept messages go as well: without their numbers no listener could be given them. */
  #forget(numbered: Numbered): void {
    const { channel } = numbered;
    // The head remembers what its number was.
    if (this.#store.high < this.high) this.#store.storeHead(this.high, this.#store.isSettled);
    // The rows first: where a full disk refuses that, the channel goes on with its number.
    this.#host.onForget(channel);
    this.#store.write("DELETE FROM numbers WHERE name = ?", blobOf(channel));
    this.#channels.delete(channel);
    this.#unsettled.delete(numbered);
    this.#bytes -= channel.length + OVERHEAD_BYTES;
  }
}
