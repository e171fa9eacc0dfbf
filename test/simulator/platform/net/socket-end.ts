/**
 * One end of a WebSocket, as the runtime keeps it: it outlives the lives that use it. Code sees it through a `SimWebSocket` of
 * its life, a client through a `ClientWebSocket`.
 */
import type { Life } from "../life.ts";
import { whenOver } from "./endings.ts";
import type { Link, Side } from "./link.ts";

/** A message as it travels: bytes are copied when they are sent. */
export type Frame = string | ArrayBuffer | CloseFrame | typeof BROKEN;

/** A frame that no WebSocket may send. */
export const BROKEN = Symbol("broken frame");
/** How the runtime ends a connection on which one has come. */
const PROTOCOL_ERROR = { code: 1002, reason: "Unknown opcode 3" };
/** What the user of the connection gets then. */
export const protocolError = (): Error =>
  new Error(
    `WebSocket protocol error; protocolError.statusCode = ${PROTOCOL_ERROR.code}; ` +
      `protocolError.description = ${PROTOCOL_ERROR.reason}`,
  );

export interface CloseFrame {
  readonly code: number;
  readonly reason: string;
}

/** A close frame without a code. */
export const NO_CODE = 1005;
/** What a peer that is gone without a close frame leaves. */
export const GONE: CloseFrame = {
  code: 1006,
  reason: "WebSocket disconnected without sending Close frame.",
};

/** Who uses an end now. Each method is called as an event that belongs to no life yet. */
export interface EndUser {
  onMessage(message: string | ArrayBuffer): void;
  onClose(frame: CloseFrame): void;
  onLost(): void;
  /** A broken frame has come, and the runtime has ended the connection. */
  onBroken?(): void;
}

export const isClose = (frame: Frame): frame is CloseFrame =>
  typeof frame === "object" && !(frame instanceof ArrayBuffer);

export class SocketEnd {
  readonly link: Link<Frame>;
  readonly side: Side;
  /** The other end of the pair. */
  peer!: SocketEnd;
  /** Hears once that this end has sent or received a close, or is lost. */
  onEnding: (() => void) | null = null;
  #hasSentClose = false;
  #hasReceivedClose = false;
  #isLost = false;
  /** A copy of what code has left here; null without one. */
  attachment: { readonly value: unknown } | null = null;
  /** What came before anything accepted this end; null for its loss. */
  readonly #early: (Frame | null)[] = [];
  #user: EndUser | null = null;
  #forgetHolder: () => void = () => {};

  constructor(link: Link<Frame>, side: Side) {
    this.link = link;
    this.side = side;
    link.attach(side, {
      receive: (frame) => this.#take(frame),
      lose: () => this.#take(null),
    });
  }

  /** Both ends of a new connection. */
  static pair(link: Link<Frame>): [SocketEnd, SocketEnd] {
    const ends: [SocketEnd, SocketEnd] = [new SocketEnd(link, 0), new SocketEnd(link, 1)];
    ends[0].peer = ends[1];
    ends[1].peer = ends[0];
    return ends;
  }

  get hasSentClose(): boolean {
    return this.#hasSentClose;
  }

  set hasSentClose(value: boolean) {
    this.#hasSentClose = value;
    this.#noteEnding();
  }

  get hasReceivedClose(): boolean {
    return this.#hasReceivedClose;
  }

  set hasReceivedClose(value: boolean) {
    this.#hasReceivedClose = value;
    this.#noteEnding();
  }

  /** The other end is gone: what is sent vanishes. */
  get isLost(): boolean {
    return this.#isLost;
  }

  set isLost(value: boolean) {
    this.#isLost = value;
    this.#noteEnding();
  }

  get isAccepted(): boolean {
    return this.#user !== null;
  }

  /** Nothing more will come of it, and nothing more can be sent. */
  get isOver(): boolean {
    return (this.hasSentClose || this.isLost) && (this.hasReceivedClose || this.isLost);
  }

  get readyState(): number {
    if (this.hasSentClose && this.hasReceivedClose) return 3;
    return this.hasSentClose || this.hasReceivedClose ? 2 : 1;
  }

  /** A life holds this end, which nothing has accepted yet: it ends with that life. */
  holdFor(life: Life): void {
    this.#forgetHolder();
    this.#forgetHolder = whenOver(life, () => this.abandon());
  }

  /** It is on its way to whoever accepts it, and outlives the life that has passed it on. */
  passOn(): void {
    this.#forgetHolder();
  }

  /** From now on events go there; first those that came before. */
  use(user: EndUser): void {
    this.#forgetHolder();
    this.#user = user;
    for (const frame of this.#early.splice(0)) this.#take(frame);
    // It was given up on its way here.
    if (this.isLost) user.onLost();
  }

  send(frame: Frame): void {
    if (this.isLost) return;
    this.link.send(this.side, frame, bytesOf(frame));
  }

  /**
   * A close frame was received, and one was sent: the link is no more. Not before the last frame of either side has arrived.
   */
  endIfClosed(): void {
    if (this.hasSentClose && this.hasReceivedClose && this.peer.hasReceivedClose) this.link.close();
  }

  /** The user is gone without a close, as its process or its object is. */
  abandon(): void {
    this.isLost = true;
    this.link.abandon(this.side);
  }

  #refuse(user: EndUser): void {
    this.send(PROTOCOL_ERROR);
    this.link.abandon(this.side);
    if (user.onBroken === undefined) user.onLost();
    else user.onBroken();
  }

  #noteEnding(): void {
    this.onEnding?.();
    this.onEnding = null;
  }

  #take(frame: Frame | null): void {
    const user = this.#user;
    if (user === null) this.#early.push(frame);
    else if (frame === BROKEN) this.#refuse(user);
    else if (frame === null) user.onLost();
    else if (isClose(frame)) user.onClose(frame);
    else user.onMessage(frame);
  }
}

function bytesOf(frame: Frame): number {
  if (frame === BROKEN) return 2;
  if (typeof frame === "string") return frame.length;
  return isClose(frame) ? 2 + frame.reason.length : frame.byteLength;
}
