/**
 * The hibernatable WebSockets of one object, over all its lives: what `ctx` has of them, and the events that wake the object.
 */
import type { Life } from "../life.ts";
import {
  GONE,
  protocolError,
  type CloseFrame,
  type EndUser,
  type SocketEnd,
} from "./socket-end.ts";
import { endOf, SimWebSocket } from "./web-socket.ts";

const SOCKETS_MAX = 32_768;
const TAGS_MAX = 10;
const TAG_LENGTH_MAX = 256;

/** The methods of an object that get the events of its sockets. */
export interface SocketHandlers {
  webSocketMessage?(socket: SimWebSocket, message: string | ArrayBuffer): unknown;
  webSocketClose?(socket: SimWebSocket, code: number, reason: string, wasClean: boolean): unknown;
  webSocketError?(socket: SimWebSocket, error: unknown): unknown;
}

/** The object, awake or asleep. */
export interface SleepingObject {
  /**
   * Runs an event of the object, in the order of these calls: wakes it, and waits for its constructor and its input gate.
   *
   * @param event may return a promise, which the runtime waits for, and must not fail for it
   */
  wake(what: string, event: (handlers: SocketHandlers, life: Life) => unknown): void;
  /** True time, ms since the epoch, as the runtime's clock shows it. */
  readonly clockMs: number;
  /** The object has accepted a socket. */
  onAccepted?(end: SocketEnd): void;
}

/** `new WebSocketRequestResponsePair(request, response)`. */
export class RequestResponsePair {
  readonly request: string;
  readonly response: string;

  constructor(request: string, response: string) {
    this.request = request;
    this.response = response;
  }
}

interface Hibernating {
  readonly end: SocketEnd;
  readonly tags: readonly string[];
  /** When the runtime last answered for the object. */
  answeredAtMs: number | null;
}

export class HibernatingSockets {
  readonly #object: SleepingObject;
  readonly #makeBlob: (bytes: ArrayBuffer) => unknown;
  /** In the order in which they were accepted. */
  readonly #all = new Map<SocketEnd, Hibernating>();
  #autoResponse: RequestResponsePair | null = null;
  /** Sockets as code of the present life holds them. */
  #handles = new Map<SocketEnd, SimWebSocket>();
  #handlesOf: Life | null = null;

  constructor(object: SleepingObject, makeBlob: (bytes: ArrayBuffer) => unknown) {
    this.#object = object;
    this.#makeBlob = makeBlob;
  }

  /** Sockets that the runtime still has, also those that are closing. */
  get size(): number {
    return this.#all.size;
  }

  /** A peer has not answered yet that its connection was closed here. */
  get awaitsClose(): boolean {
    for (const end of this.#all.keys()) {
      if (end.hasSentClose && !end.hasReceivedClose && !end.isLost) return true;
    }
    return false;
  }

  /** The part of `ctx` of one life. */
  contextOf(life: Life): HibernationContext {
    return new HibernationContext(this, life);
  }

  /** The object has crashed or was reset: its sockets go with it, and it hears nothing more of them. */
  loseAll(): void {
    const all = [...this.#all.keys()];
    this.#all.clear();
    this.#handles = new Map();
    this.#handlesOf = null;
    this.#autoResponse = null;
    for (const end of all) end.abandon();
  }

  /** The network parts the object from its peers: each side hears of it at a time of its own. */
  cutAll(): void {
    for (const { link } of this.#all.keys()) link.cut();
  }

  accept(life: Life, socket: SimWebSocket, tags: readonly string[]): void {
    const end = endOf(socket);
    if (end.isAccepted)
      throw new Error("Cannot call `acceptWebSocket()` on a WebSocket that was accepted.");
    if (this.#all.size >= SOCKETS_MAX) {
      throw new Error(
        `only ${SOCKETS_MAX} websockets can be accepted on a single Durable Object instance`,
      );
    }
    if (tags.length > TAGS_MAX)
      throw new Error(`a Hibernatable WebSocket cannot have more than ${TAGS_MAX} tags`);
    if (tags.some((tag) => tag.length > TAG_LENGTH_MAX)) {
      throw new Error(
        `one of the tags is longer than the max tag length, which is ${TAG_LENGTH_MAX}`,
      );
    }
    const socketOf: Hibernating = {
      end,
      tags: [...new Set(tags)],
      answeredAtMs: null,
    };
    this.#all.set(end, socketOf);
    this.#handlesOfLife(life).set(end, socket);
    this.#object.onAccepted?.(end);
    end.use(this.#userOf(socketOf));
  }

  list(life: Life, tag?: string): SimWebSocket[] {
    const listed = [...this.#all.values()].filter(
      ({ tags }) => tag === undefined || tags.includes(tag),
    );
    // The newest comes first.
    return listed.toReversed().map(({ end }) => this.#handle(life, end));
  }

  find(socket: SimWebSocket): Hibernating | undefined {
    return this.#all.get(endOf(socket));
  }

  get autoResponse(): RequestResponsePair | null {
    return this.#autoResponse;
  }

  set autoResponse(pair: RequestResponsePair | null) {
    this.#autoResponse = pair;
  }

  #userOf(socketOf: Hibernating): EndUser {
    const { end } = socketOf;
    return {
      onMessage: (message) => {
        const answer = this.#autoResponse;
        if (answer !== null && message === answer.request) {
          // The runtime itself answers: no life, no gate.
          socketOf.answeredAtMs = this.#object.clockMs;
          end.send(answer.response);
          return;
        }
        this.#wake("webSocketMessage", end, (handlers, socket) =>
          handlers.webSocketMessage?.(socket, message),
        );
      },
      onClose: (frame) => this.#end(end, frame, true),
      onLost: () => this.#end(end, GONE, false),
      onBroken: () => this.#fail(end),
    };
  }

  /** A close event does not follow. */
  #fail(end: SocketEnd): void {
    this.#wake("webSocketError", end, (handlers, socket, life) => {
      end.hasReceivedClose = true;
      end.isLost = true;
      return this.#removeBehind(end, life, () =>
        handlers.webSocketError?.(socket, protocolError()),
      );
    });
  }

  #end(end: SocketEnd, frame: CloseFrame, wasClean: boolean): void {
    this.#wake("webSocketClose", end, (handlers, socket, life) => {
      end.hasReceivedClose = true;
      if (!wasClean) end.isLost = true;
      end.endIfClosed();
      return this.#removeBehind(end, life, () =>
        handlers.webSocketClose?.(socket, frame.code, frame.reason, wasClean),
      );
    });
  }

  /** Runs a handler of the end of a socket, which is listed until the handler has ended. */
  #removeBehind(end: SocketEnd, life: Life, handle: () => unknown): unknown {
    const remove = (): void => this.#remove(end, life);
    let ended: unknown = null;
    try {
      ended = handle();
    } finally {
      if (!(ended instanceof Promise)) remove();
    }
    return ended instanceof Promise ? ended.finally(remove) : ended;
  }

  #wake(
    what: string,
    end: SocketEnd,
    event: (handlers: SocketHandlers, socket: SimWebSocket, life: Life) => unknown,
  ): void {
    this.#object.wake(what, (handlers, life) => {
      // The object was reset between the event and its turn.
      if (!this.#all.has(end)) return undefined;
      return event(handlers, this.#handle(life, end), life);
    });
  }

  /** One that the object has not closed belongs to its life from now on: it can still send. */
  #remove(end: SocketEnd, life: Life): void {
    if (!this.#all.delete(end)) return;
    this.#handles.delete(end);
    if (!end.isOver) end.holdFor(life);
  }

  #handle(life: Life, end: SocketEnd): SimWebSocket {
    const handles = this.#handlesOfLife(life);
    let socket = handles.get(end);
    if (socket === undefined)
      handles.set(end, (socket = new SimWebSocket(life, end, this.#makeBlob)));
    return socket;
  }

  /** A new life holds none of the objects of the one before. */
  #handlesOfLife(life: Life): Map<SocketEnd, SimWebSocket> {
    if (this.#handlesOf !== life) {
      this.#handlesOf = life;
      this.#handles = new Map();
    }
    return this.#handles;
  }
}

/** What `ctx` has for WebSockets. */
export class HibernationContext {
  readonly #sockets: HibernatingSockets;
  readonly #life: Life;

  constructor(sockets: HibernatingSockets, life: Life) {
    this.#sockets = sockets;
    this.#life = life;
  }

  acceptWebSocket(socket: SimWebSocket, tags: readonly string[] = []): void {
    this.#life.call("ctx.acceptWebSocket");
    this.#sockets.accept(this.#life, socket, tags);
  }

  getWebSockets(tag?: string): SimWebSocket[] {
    this.#life.call("ctx.getWebSockets");
    return this.#sockets.list(this.#life, tag);
  }

  getTags(socket: SimWebSocket): string[] {
    const known = this.#sockets.find(socket);
    if (known === undefined) throw new Error("only hibernatable websockets can have tags");
    return [...known.tags];
  }

  setWebSocketAutoResponse(pair?: RequestResponsePair): void {
    this.#life.call("ctx.setWebSocketAutoResponse");
    this.#sockets.autoResponse = pair ?? null;
  }

  getWebSocketAutoResponse(): RequestResponsePair | null {
    return this.#sockets.autoResponse;
  }

  getWebSocketAutoResponseTimestamp(socket: SimWebSocket): Date | null {
    const answeredAtMs = this.#sockets.find(socket)?.answeredAtMs ?? null;
    return answeredAtMs === null ? null : new Date(answeredAtMs);
  }
}
