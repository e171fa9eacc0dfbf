/**
 * Session: one connection's byte stream, whatever carries it.
 *
 * It finds the frames, hands over all it has as one exchange at a time, and sends the replies in
 * order. What arrives meanwhile waits for the next exchange, so a connection's requests are applied in
 * the order they were sent. It knows no socket and no clock: its host has them.
 */
import type { Protocol } from "../wire/throttr/protocol.ts";
import { layoutsOf, type Layout } from "../wire/throttr/requests.ts";
import {
  FRAME_INCOMPLETE,
  FRAME_TOO_LARGE,
  FRAME_UNKNOWN,
  scanFrames,
} from "../wire/throttr/scanner.ts";
import type { Access } from "./access.ts";
import type { Frames, Sink } from "./exchange.ts";
import { failureOf } from "./failure.ts";

/** Why the server ends a connection: WebSocket close code, and a reason that begins with a stable code. */
export interface Ending {
  readonly code: number;
  readonly reason: string;
}

/** What carries a session. */
export interface SessionHost {
  nowMs(): number;
  dispatch(frames: Frames, access: Access, sink: Sink): void;
  /** Sends replies. `consumedBytes` of the peer's bytes have been answered with them for good. */
  send(replies: Uint8Array, consumedBytes: number): void;
  room(): Promise<void> | null;
  close(ending: Ending): void;
  /** Nothing is under way any more; the bytes of an unfinished frame are left. */
  settled(unfinished: Uint8Array): void;
}

export interface SessionLimits {
  readonly frameBytesMax: number;
  readonly unansweredBytesMax: number;
}

const EMPTY = new Uint8Array(0);

export class Session implements Sink {
  readonly #host: SessionHost;
  readonly #protocol: Protocol;
  readonly #layouts: readonly (Layout | undefined)[];
  readonly #access: Access;
  readonly #limits: SessionLimits;
  /** Received and not yet part of an exchange: `#pending[0, #pendingBytes)`. */
  #pending: Uint8Array;
  #pendingBytes: number;
  /** Scanning before there are so many pending bytes finds nothing new. */
  #neededBytes = 1;
  /** Bytes of the exchange under way; 0 when there is none. */
  #exchangeBytes = 0;
  /** How the connection ends once the exchange under way is answered. */
  #ending: Ending | null = null;
  #isClosed = false;

  /** @param unfinished bytes of an unfinished frame that an earlier session of the connection left */
  constructor(
    host: SessionHost,
    protocol: Protocol,
    access: Access,
    limits: SessionLimits,
    unfinished: Uint8Array = EMPTY,
  ) {
    this.#host = host;
    this.#protocol = protocol;
    this.#layouts = layoutsOf(protocol);
    this.#access = access;
    this.#limits = limits;
    this.#pending = unfinished;
    this.#pendingBytes = unfinished.length;
  }

  /** The next bytes of the stream. They may end anywhere. */
  receive(chunk: Uint8Array): void {
    if (this.#isClosed || this.#ending !== null) return;
    const { expiresAtMs } = this.#access;
    if (expiresAtMs !== null && this.#host.nowMs() >= expiresAtMs) {
      this.expire();
      return;
    }
    const unanswered = this.#exchangeBytes + this.#pendingBytes + chunk.length;
    if (unanswered > this.#limits.unansweredBytesMax) {
      this.close({
        code: 1013,
        reason: `unanswered_bytes: more than ${this.#limits.unansweredBytesMax} bytes wait for their replies`,
      });
      return;
    }
    this.#append(chunk);
    this.#next();
  }

  /** The peer sends no more: everything that it sent is answered, then the connection ends. */
  end(): void {
    this.#endWith({ code: 1000, reason: "" });
  }

  /** The access has ended: what is under way is answered, then the connection ends. */
  expire(): void {
    this.#keep(EMPTY, Infinity);
    this.#endWith({
      code: 1008,
      reason: "token_expired: the token of this connection has expired",
    });
  }

  /** Ends the connection at once. */
  close(ending: Ending): void {
    if (this.#isClosed) return;
    this.abandon();
    this.#host.close(ending);
  }

  /** The connection is gone. */
  abandon(): void {
    this.#isClosed = true;
    this.#keep(EMPTY, Infinity);
  }

  reply(replies: Uint8Array, isLast: boolean): void {
    if (this.#isClosed) return;
    this.#host.send(replies, isLast ? this.#exchangeBytes : 0);
    if (!isLast) return;
    this.#exchangeBytes = 0;
    this.#next();
  }

  room(): Promise<void> | null {
    return this.#host.room();
  }

  failed(error: unknown): void {
    this.close({ code: 1011, reason: failureOf(error).message });
  }

  #endWith(ending: Ending): void {
    if (this.#ending !== null || this.#isClosed) return;
    this.#ending = ending;
    if (this.#exchangeBytes === 0) this.close(ending);
  }

  #append(chunk: Uint8Array): void {
    const length = this.#pendingBytes + chunk.length;
    if (this.#pendingBytes === 0) {
      this.#pending = chunk;
    } else {
      if (length > this.#pending.length) {
        const grown = new Uint8Array(Math.max(length, this.#pending.length * 2));
        grown.set(this.#pending.subarray(0, this.#pendingBytes));
        this.#pending = grown;
      }
      this.#pending.set(chunk, this.#pendingBytes);
    }
    this.#pendingBytes = length;
  }

  /** Starts an exchange of all whole frames that wait, unless one is under way. */
  #next(): void {
    if (this.#exchangeBytes > 0 || this.#isClosed) return;
    if (this.#pendingBytes >= this.#neededBytes) this.#startExchange();
    if (this.#exchangeBytes > 0 || this.#isClosed) return;
    if (this.#ending !== null) this.close(this.#ending);
    else this.#host.settled(this.#pending.subarray(0, this.#pendingBytes));
  }

  #startExchange(): void {
    const bytes = this.#pending;
    const { frameBytesMax } = this.#limits;
    const scan = scanFrames(this.#layouts, bytes, 0, this.#pendingBytes, frameBytesMax);
    if (scan.stop === FRAME_INCOMPLETE) {
      this.#keep(bytes.slice(scan.end, this.#pendingBytes), scan.needed);
    } else {
      this.#ending = this.#unreadable(scan.stop, bytes[scan.end]!);
      this.#keep(EMPTY, Infinity);
    }
    if (scan.frames === 0) return;
    this.#exchangeBytes = scan.end;
    const frames = {
      protocol: this.#protocol,
      bytes: bytes.subarray(0, scan.end),
      count: scan.frames,
    };
    this.#host.dispatch(frames, this.#access, this);
  }

  #keep(pending: Uint8Array, neededBytes: number): void {
    this.#pending = pending;
    this.#pendingBytes = pending.length;
    this.#neededBytes = neededBytes;
  }

  #unreadable(stop: typeof FRAME_UNKNOWN | typeof FRAME_TOO_LARGE, type: number): Ending {
    if (stop === FRAME_TOO_LARGE) {
      return {
        code: 1009,
        reason: `frame_too_large: a frame may have ${this.#limits.frameBytesMax} bytes`,
      };
    }
    const hex = type.toString(16).padStart(2, "0");
    return {
      code: 1002,
      reason: `request_type_unknown: 0x${hex} in dialect ${this.#protocol.dialect}`,
    };
  }
}
