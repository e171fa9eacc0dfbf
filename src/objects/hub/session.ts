/**
 * Session: the byte stream of one connection, whatever carries it.
 *
 * It finds the frames and hands them over a run at a time: all that has come for one target. It is the sink of their
 * replies, and passes them on to its host in order. What arrives meanwhile waits for the next run, so the requests of a
 * connection are applied in the order in which they were sent. It knows no socket and no clock: its host has them.
 */
import type { Framing } from "../../wire/framing.ts";
import { framingOf, type AnyProtocol } from "../../wire/protocols.ts";
import { layoutsOf } from "../../wire/throttr/requests.ts";
import {
  FRAME_INCOMPLETE,
  FRAME_TOO_LARGE,
  RUN_ENDS,
  type Run,
} from "../../wire/throttr/scanner.ts";
import { missingRightError, missingRightOfFrame, type Access } from "../../base/access.ts";
import { reportFailure } from "../../base/failure.ts";
import type { Settings } from "../../base/settings.ts";
import type { AnyFrames, Sink } from "../../dispatch/sink.ts";
import { FINISHED, frameTooLarge, TOKEN_EXPIRED, unansweredBytes, type Ending } from "./ending.ts";

/** The way up: the connection that a session is of. */
export interface SessionHost {
  /** Sends replies. `consumedBytes` of the peer's bytes have been answered with them for good. */
  send(replies: Uint8Array, consumedBytes: number): void;
  /** The peer is there to read replies: see `Sink.hasReader`. */
  readonly hasReader: boolean;
  room(): Promise<void> | null;
  /** The peer has published to a channel. */
  countPublished(channel: string, payloadBytes: number): void;
  /** Closes the connection. */
  close(ending: Ending): void;
  /** Nothing is under way any more; the bytes of an unfinished frame are left. */
  onIdle(unfinished: Uint8Array): void;
}

/** What a session is made of; all of it belongs to the connection. */
export interface SessionParts {
  /** The way up. */
  readonly host: SessionHost;
  /** The way down: gives a run of requests to whatever answers it, with the sink for the replies. */
  readonly requests: { exchange(frames: AnyFrames, access: Access, sink: Sink): void };
  readonly protocol: AnyProtocol;
  readonly access: Access;
  readonly limits: Pick<Settings, "FRAME_BYTES_MAX" | "UNANSWERED_BYTES_MAX">;
  /** Requests seen, by type, which go on from here. */
  readonly counts: Float64Array;
}

// Shared: it has no bytes that anyone could change.
const EMPTY = new Uint8Array(0);

/** The byte stream of one connection, from its first byte to its end. */
export class Session implements Sink {
  readonly #parts: SessionParts;
  readonly #framing: Framing;
  /** Received, and not part of a run yet: `#pending[#pendingAt, #pendingEnd)`. */
  #pending: Uint8Array;
  /** Begin and end of what waits, so that a run is cut off without moving the rest. */
  #pendingAt = 0;
  #pendingEnd: number;
  /** Scanning finds nothing new before there are this many pending bytes: a long frame is not scanned with each chunk. */
  #neededBytes = 1;
  /** Bytes of the run under way; 0 when there is none. */
  #runBytes = 0;
  /** `#next` is running: a run that is answered at once must not call it again, or the stack would grow with each run. */
  #isLooking = false;
  /** The next run waits for room. */
  #isWaiting = false;
  /** How the connection ends once the run under way is answered. */
  #ending: Ending | null = null;
  #isClosed = false;

  /** @param unfinished bytes of an unfinished frame that an earlier session of the connection left */
  constructor(parts: SessionParts, unfinished: Uint8Array = EMPTY) {
    this.#parts = parts;
    this.#framing = framingOf(parts.protocol);
    this.#pending = unfinished;
    this.#pendingEnd = unfinished.length;
  }

  /** Bytes that wait to become part of a run. */
  get pendingBytes(): number {
    return this.#pendingEnd - this.#pendingAt;
  }

  /** Bytes that are reserved for them. A chunk stays whole while a part of it waits, so these can be more. */
  get reservedBytes(): number {
    return this.#pending.length;
  }

  /**
   * The same, and those of the run under way, where they are not in the same chunk: a peer that reads nothing can leave a run for
   * good.
   */
  get unansweredBytes(): number {
    return Math.max(this.reservedBytes, this.pendingBytes + this.#runBytes);
  }

  /** The next bytes of the stream. They may end anywhere. */
  receive(chunk: Uint8Array): void {
    if (this.#isClosed || this.#ending !== null) return;
    // A WebSocket can't be told to wait: a client that sends without reading replies would fill the Hub's memory.
    const unanswered = this.#runBytes + this.#pendingEnd - this.#pendingAt + chunk.length;
    if (unanswered > this.#parts.limits.UNANSWERED_BYTES_MAX) {
      this.#close(unansweredBytes(this.#parts.limits.UNANSWERED_BYTES_MAX));
      return;
    }
    this.#append(chunk);
    this.#next();
  }

  /** Accepts no more bytes: what has come is answered, then the connection is closed. */
  finish(ending = FINISHED): void {
    if (this.#ending !== null || this.#isClosed) return;
    this.#ending = ending;
    if (this.#runBytes === 0 && !this.#isWaiting) this.#close(ending);
  }

  /** The access has ended: starts nothing more. What is under way is answered, then the connection is closed. */
  expire(): void {
    this.#keep(EMPTY, Infinity);
    this.finish(TOKEN_EXPIRED);
  }

  /** The connection is closed: starts nothing more, and drops replies that still come. */
  stop(): void {
    this.#isClosed = true;
    this.#keep(EMPTY, Infinity);
  }

  /** Replies of the run under way. The last one starts the next run, unless `#next` is on the stack already. */
  reply(replies: Uint8Array, isLast: boolean): void {
    if (this.#isClosed) return;
    // A bridge reads on only for bytes that are answered for good, so they count with the last reply of their run.
    this.#parts.host.send(replies, isLast ? this.#runBytes : 0);
    if (!isLast) return;
    this.#runBytes = 0;
    if (!this.#isLooking) this.#next();
  }

  /** Asked before each call to a shard: see `Sink`. */
  get hasReader(): boolean {
    return this.#parts.host.hasReader;
  }

  room(): Promise<void> | null {
    return this.#parts.host.room();
  }

  /** The outcome of the run is unknown, and replies have no way to say that: the connection ends. */
  fail(error: unknown): void {
    if (this.#isClosed) return;
    this.#close({ code: 1011, reason: reportFailure(error).message });
  }

  countPublished(channel: string, payloadBytes: number): void {
    this.#parts.host.countPublished(channel, payloadBytes);
  }

  #close(ending: Ending): void {
    if (this.#isClosed) return;
    this.stop();
    this.#parts.host.close(ending);
  }

  /** Adds a chunk to what waits; copies only where something does. */
  #append(chunk: Uint8Array): void {
    const bytes = this.#pendingEnd - this.#pendingAt;
    // The usual case: nothing waits, and the chunk is kept without a copy.
    if (bytes === 0) {
      this.#keep(chunk, this.#neededBytes);
      return;
    }
    if (this.#pendingEnd + chunk.length > this.#pending.length) {
      // Twice what is needed, so that many small chunks of a large frame are not copied each time.
      const moved = new Uint8Array((bytes + chunk.length) * 2);
      moved.set(this.#pending.subarray(this.#pendingAt, this.#pendingEnd));
      this.#pending = moved;
      this.#pendingAt = 0;
      this.#pendingEnd = bytes;
    }
    this.#pending.set(chunk, this.#pendingEnd);
    this.#pendingEnd += chunk.length;
  }

  /** Starts runs until one is not answered at once, or nothing whole is left. */
  #next(): void {
    this.#isLooking = true;
    while (this.#canStart() && this.#hasRoom()) this.#startRun();
    this.#isLooking = false;
    if (this.#runBytes > 0 || this.#isWaiting || this.#isClosed) return;
    if (this.#ending !== null) this.#close(this.#ending);
    else this.#parts.host.onIdle(this.#pending.subarray(this.#pendingAt, this.#pendingEnd));
  }

  /** One run at a time: its successor must not be applied before it. */
  #canStart(): boolean {
    const bytes = this.#pendingEnd - this.#pendingAt;
    const isFree = this.#runBytes === 0 && !this.#isWaiting && !this.#isClosed;
    return isFree && bytes >= this.#neededBytes;
  }

  /** A run begins when the peer has taken what is on its way to it; looks again once it has. */
  #hasRoom(): boolean {
    const room = this.#parts.host.room();
    if (room === null) return true;
    this.#isWaiting = true;
    room.then(
      () => {
        this.#isWaiting = false;
        this.#next();
      },
      () => {
        // Room never comes any more: the host has closed the connection, and stopped this session.
      },
    );
    return false;
  }

  /** Cuts a run off what waits, and hands it over; nothing when not even one frame is whole. */
  #startRun(): void {
    const bytes = this.#pending;
    const at = this.#pendingAt;
    const { limits, counts, protocol, requests, access } = this.#parts;
    const { FRAME_BYTES_MAX } = limits;
    const run = this.#framing.scanRun(bytes, at, this.#pendingEnd, FRAME_BYTES_MAX, counts);
    this.#keepRest(run);
    if (run.frames === 0 || this.#isRefused(bytes, at)) return;
    this.#runBytes = run.end - at;
    const frames: AnyFrames = {
      protocol,
      target: run.target,
      bytes: bytes.subarray(at, run.end),
      count: run.frames,
    };
    requests.exchange(frames, access, this);
  }

  /** Keeps what lies behind a run, or nothing when it can't be read. */
  #keepRest({ stop, end, needed }: Run): void {
    if (stop === RUN_ENDS) {
      this.#pendingAt = end;
      this.#neededBytes = 1;
    } else if (stop === FRAME_INCOMPLETE) {
      // A copy, which lets go of the chunk: a frame may be unfinished for long.
      this.#keep(this.#pending.slice(end, this.#pendingEnd), needed);
    } else {
      this.#ending = this.#unreadable(stop, this.#pending[end]!);
      this.#keep(EMPTY, Infinity);
    }
  }

  /** A refused request whose reply has no status byte ends the connection: there is no other way to say no. */
  #isRefused(bytes: Uint8Array, at: number): boolean {
    if (this.#parts.protocol.dialect === "yrmcds") return false;
    const layout = layoutsOf(this.#parts.protocol)[bytes[at]!]!;
    if (layout.hasStatus) return false;
    const missing = missingRightOfFrame(this.#parts.access, layout, bytes, at);
    if (missing === null) return false;
    this.#keep(EMPTY, Infinity);
    this.#ending = {
      code: 1008,
      reason: missingRightError(missing, layout, this.#parts.access).message,
    };
    return true;
  }

  /**
   * Replaces what waits.
   *
   * @param neededBytes scanning is of no use before so many are there; Infinity for never
   */
  #keep(pending: Uint8Array, neededBytes: number): void {
    this.#pending = pending;
    this.#pendingAt = 0;
    this.#pendingEnd = pending.length;
    this.#neededBytes = neededBytes;
  }

  /** Behind bytes that can't be read no frame can be found: the connection has to end. */
  #unreadable(stop: number, type: number): Ending {
    if (stop === FRAME_TOO_LARGE) return frameTooLarge(this.#parts.limits.FRAME_BYTES_MAX);
    const hex = type.toString(16).padStart(2, "0");
    return {
      code: 1002,
      reason: `request_type_unknown: 0x${hex} in dialect ${this.#parts.protocol.dialect}`,
    };
  }
}
