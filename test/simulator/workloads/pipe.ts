/**
 * Pipes: frames of one connection and their replies, first in, first out, with pushes between them. When the connection ends,
 * nothing is known of what was not answered.
 */
import type { Random } from "../kernel/random.ts";
import type { RunningLife } from "../platform/running-life.ts";
import type { World } from "../world.ts";
import type { Answer } from "./port.ts";
import { addressOf, openWire, type Wire, type WireKind, type WireOptions } from "./wire.ts";

/** A frame to be sent. */
export interface Sent {
  readonly frame: Uint8Array;
  /** Length of its reply at `at`; 0 while it is not complete. */
  replyLength(bytes: Uint8Array, at: number, end: number): number;
}

export interface PipeEvents {
  /**
   * Takes a push, if one begins at `at`.
   *
   * @returns its length; 0 while it is not complete, and null when none begins there
   */
  readPush?(bytes: Uint8Array, at: number): number | null;
  /** The server has closed the connection, and this client goes on sending before it answers that: see `isClosed`. */
  onCloseLeft?(): void;
  onEnd?(reason: string): void;
}

interface Expected {
  readonly sent: Sent;
  readonly resolve: (answer: Answer) => void;
}

export class Pipe {
  readonly kind: WireKind;
  readonly connection: number;
  /** Nothing more can be sent. */
  isOver = false;
  /** The server has closed the connection, and the client can still send: nothing of that must be served. */
  isClosed = false;
  readonly #world: World;
  readonly #client: RunningLife;
  readonly #events: PipeEvents;
  readonly #wire: Wire;
  readonly #expected: Expected[] = [];
  #rest: Uint8Array = new Uint8Array(0);
  /** The client has said that it sends nothing more, and waits for the end. */
  #hasSaidGoodbye = false;
  #hasEnded = false;
  /** Connections that the server had closed before this one began. */
  readonly #closedBefore: number;

  constructor(
    world: World,
    client: RunningLife,
    random: Random,
    options: WireOptions,
    events: PipeEvents = {},
  ) {
    this.#world = world;
    this.#client = client;
    this.#events = events;
    this.kind = options.kind;
    this.connection = options.connection;
    this.#closedBefore = world.witness.closedByServer;
    const { connection, protocol } = options;
    world.witness.dial(connection, addressOf(connection), protocol.namespace);
    this.#wire = openWire(world, client, random, options, {
      onBytes: (bytes) => this.#read(bytes),
      onCloseLeft: () => this.#leaveClose(),
      onEnd: (reason, wasOpen) => this.#end(reason, wasOpen),
    });
  }

  /** Frames that have no answer yet. */
  get unanswered(): number {
    return this.#expected.length;
  }

  /**
   * Sends frames, in one piece unless chance cuts it. Each has its promise, which never rejects. What is sent behind the server's
   * close is certainly not applied.
   */
  send(frames: readonly Sent[]): Promise<Answer>[] {
    const answers = frames.map((sent) => {
      const { promise, resolve: settle } = Promise.withResolvers<Answer>();
      const { times } = this.#world;
      const end = times.begin("connection", `${this.kind} ${this.connection}`, this.#client);
      const resolve = (answer: Answer): void => {
        end();
        settle(answer);
      };
      if (this.isOver) resolve({ kind: "refused", code: "not_sent" });
      else if (this.isClosed) resolve({ kind: "refused", code: "closed" });
      else this.#expected.push({ sent, resolve });
      return promise;
    });
    if (!this.isOver) this.#wire.write(joined(frames.map(({ frame }) => frame)));
    return answers;
  }

  /** Sends nothing more: what was sent is still answered, but over a plain WebSocket. */
  end(): void {
    if (this.isOver) return;
    this.isOver = true;
    this.#hasSaidGoodbye = true;
    this.#world.witness.noteEnd(this.connection);
    this.#wire.end();
  }

  /** Gives the connection up without a word. */
  destroy(): void {
    if (this.#hasEnded) return;
    this.#hasSaidGoodbye = false;
    this.#world.witness.noteEnd(this.connection);
    this.#wire.destroy();
    this.#end("given up", true);
  }

  #read(chunk: Uint8Array): void {
    if (this.#hasEnded) return;
    const bytes = this.#rest.length === 0 ? chunk : joined([this.#rest, chunk]);
    let at = 0;
    while (at < bytes.length) {
      const length = this.#events.readPush?.(bytes, at) ?? this.#readReply(bytes, at);
      if (length === 0) break;
      at += length;
    }
    this.#rest = bytes.slice(at);
  }

  /** @returns 0 while the reply is not complete, and when it is that of no request */
  #readReply(bytes: Uint8Array, at: number): number {
    const next = this.#expected[0];
    if (next === undefined) {
      const message = `${this.kind} ${this.connection}: a reply came without a request, ${describe(bytes.subarray(at))}`;
      this.#world.violations.push({ promise: "Replies", subject: "connection", message });
      this.destroy();
      return 0;
    }
    const length = next.sent.replyLength(bytes, at, bytes.length);
    if (length === 0) return 0;
    this.#expected.shift();
    next.resolve({ kind: "reply", reply: bytes.slice(at, at + length) });
    return length;
  }

  /** No reply comes any more. */
  #leaveClose(): void {
    this.isClosed = true;
    this.#settle({ kind: "unknown", reason: "the server has closed the connection" });
    this.#events.onCloseLeft?.();
  }

  #end(reason: string, wasOpen: boolean): void {
    if (this.#hasEnded) return;
    this.#hasEnded = true;
    this.isOver = true;
    this.#world.failures.noteEnd(reason);
    if (this.#hasSaidGoodbye && wasOpen) {
      const { connection, kind, unanswered } = this;
      const mayBeClosed = this.#world.witness.closedByServer > this.#closedBefore;
      this.#world.noteGoodbye({ connection, kind, reason, unanswered, mayBeClosed });
    }
    this.#settle(wasOpen ? { kind: "unknown", reason } : { kind: "refused", code: "not_sent" });
    this.#events.onEnd?.(reason);
  }

  #settle(answer: Answer): void {
    for (const { resolve } of this.#expected.splice(0)) resolve(answer);
  }
}

function joined(parts: readonly Uint8Array[]): Uint8Array {
  const bytes = new Uint8Array(parts.reduce((length, part) => length + part.length, 0));
  let at = 0;
  for (const part of parts) {
    bytes.set(part, at);
    at += part.length;
  }
  return bytes;
}

const describe = (bytes: Uint8Array): string =>
  `${bytes.length} bytes: ${Buffer.from(bytes.subarray(0, 32)).toString("hex")}`;
