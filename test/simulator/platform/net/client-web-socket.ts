/** The class `WebSocket` of clients: what browsers and Node have, over the simulated network. */
import type { Life } from "../life.ts";
import { whenOver } from "./endings.ts";
import { Listeners, type Listener, type SocketEvent } from "./listeners.ts";
import { SimBlob, SimRequest, type SimResponse } from "./messages.ts";
import { BROKEN, GONE, NO_CODE, type CloseFrame, type SocketEnd } from "./socket-end.ts";
import { closeFrame, copyOf, endOf } from "./web-socket.ts";

/** How long a client waits for the answer to its close, ms. */
const CLOSE_TIMEOUT_MS = 3000;

/** Sends the request for a WebSocket. */
export type Dial = (request: SimRequest) => Promise<SimResponse>;

export class ClientWebSocket {
  static readonly CONNECTING = 0;
  static readonly OPEN = 1;
  static readonly CLOSING = 2;
  static readonly CLOSED = 3;

  readonly CONNECTING = 0;
  readonly OPEN = 1;
  readonly CLOSING = 2;
  readonly CLOSED = 3;
  readonly url: string;
  protocol = "";
  readyState = 0;
  binaryType: "blob" | "arraybuffer" = "blob";
  onopen: Listener | null = null;
  onmessage: Listener | null = null;
  onclose: Listener | null = null;
  onerror: Listener | null = null;
  /** Whether a frame that no WebSocket may send takes the place of a message. */
  breaksFrame: () => boolean = () => false;
  /** How long this client waits before it answers a close of the server, and sends meanwhile, in ms; 0 to answer at once. */
  leavesCloseMs: (code: number) => number = () => 0;
  readonly #life: Life;
  readonly #listeners = new Listeners();
  #end: SocketEnd | null = null;
  /** What the server has closed the connection with, while that is left unanswered. */
  #left: CloseFrame | null = null;
  #forget: () => void = () => {};

  constructor(life: Life, dial: Dial, url: string, protocols: string | readonly string[] = []) {
    this.#life = life;
    this.url = new URL(url).href;
    for (const type of ["open", "message", "close", "error"] as const) {
      this.#listeners.add(type, (event: never) => {
        const listener = this[`on${type}`];
        if (typeof listener === "function") listener(event);
        else listener?.handleEvent(event);
      });
    }
    const headers: Record<string, string> = { upgrade: "websocket" };
    const offered = [protocols].flat();
    if (offered.length > 0) headers["sec-websocket-protocol"] = offered.join(", ");
    dial(new SimRequest(this.url.replace(/^ws/, "http"), { headers })).then(
      (response) => this.#open(response),
      () => this.#fail(),
    );
  }

  /** The link of the connection, for faults; null before it is open. */
  get link(): SocketEnd["link"] | null {
    return this.#end?.link ?? null;
  }

  get bufferedAmount(): number {
    const end = this.#end;
    return end === null ? 0 : end.link.unreceivedBytes(end.side);
  }

  addEventListener(type: string, listener: Listener, options?: boolean | { once?: boolean }): void {
    this.#listeners.add(type, listener, options);
  }

  removeEventListener(type: string, listener: Listener): void {
    this.#listeners.remove(type, listener);
  }

  send(data: string | ArrayBuffer | ArrayBufferView): void {
    if (this.readyState === 0)
      throw new DOMException("Sent before connected.", "InvalidStateError");
    if (this.readyState !== 1) return;
    this.#end!.send(this.breaksFrame() ? BROKEN : copyOf(data));
  }

  close(code?: number, reason?: string): void {
    const frame = code === undefined ? { code: NO_CODE, reason: "" } : closeFrame(code, reason);
    if (this.readyState >= 2) return;
    if (this.#left !== null) {
      this.#answerClose(this.#left);
      return;
    }
    const isOpen = this.readyState === 1;
    this.readyState = 2;
    if (!isOpen) return;
    this.#sayClose(frame);
    this.#life.later(CLOSE_TIMEOUT_MS, "socket.closeTimeout", () => {
      if (this.readyState === 3) return;
      this.#end!.abandon();
      this.#finish(GONE, false);
    });
  }

  /** Drops the connection without a word, as a process that dies does. */
  terminate(): void {
    if (this.readyState === 3) return;
    this.#end?.abandon();
    this.#finish(GONE, false);
  }

  #open(response: SimResponse): void {
    const { webSocket, headers } = response;
    if (webSocket === null) {
      this.#fail();
      return;
    }
    const end = endOf(webSocket);
    this.#end = end;
    const isWanted = this.readyState === 0;
    this.#forget = whenOver(this.#life, () => end.abandon());
    end.use({
      onMessage: (message) =>
        void this.#life.later(0, "client.message", () => this.#receive(message)),
      onClose: (frame) => void this.#life.later(0, "client.close", () => this.#receiveClose(frame)),
      onLost: () => void this.#life.later(0, "client.lost", () => this.#lose()),
    });
    if (!isWanted) {
      end.abandon();
      this.#finish(GONE, false);
      return;
    }
    this.readyState = 1;
    this.protocol = headers.get("sec-websocket-protocol") ?? "";
    this.#listeners.dispatch({ type: "open" });
  }

  /** No WebSocket came of it. */
  #fail(): void {
    if (this.readyState === 3) return;
    this.#listeners.dispatch({ type: "error", message: "the connection failed" });
    this.#finish({ code: GONE.code, reason: "" }, false);
  }

  #receive(message: string | ArrayBuffer): void {
    if (this.readyState === 3) return;
    const isBlob = typeof message !== "string" && this.binaryType === "blob";
    const data = isBlob ? new SimBlob([message]) : message;
    this.#dispatch({ type: "message", data });
  }

  #receiveClose(frame: CloseFrame): void {
    // Behind a broken frame the server has not only said that it closes the connection: nothing reaches it any more.
    const canLeave = this.readyState === 1 && !this.#end!.link.isOver;
    const leftMs = canLeave ? this.leavesCloseMs(frame.code) : 0;
    if (leftMs === 0) {
      this.#answerClose(frame);
      return;
    }
    this.#left = frame;
    this.#life.later(leftMs, "client.answerClose", () => this.#answerClose(frame));
  }

  #answerClose(frame: CloseFrame): void {
    if (this.readyState === 3) return;
    this.#end!.hasReceivedClose = true;
    this.#sayClose(frame);
    this.#end!.endIfClosed();
    this.#finish(frame, true);
  }

  #sayClose(frame: CloseFrame): void {
    const end = this.#end!;
    if (end.hasSentClose) return;
    end.hasSentClose = true;
    end.send(frame);
  }

  #lose(): void {
    if (this.readyState === 3) return;
    this.#end!.isLost = true;
    this.#listeners.dispatch({ type: "error", message: "the connection was lost" });
    this.#finish({ code: GONE.code, reason: "" }, false);
  }

  #finish({ code, reason }: CloseFrame, wasClean: boolean): void {
    if (this.readyState === 3) return;
    this.readyState = 3;
    this.#forget();
    this.#dispatch({ type: "close", code, reason, wasClean });
  }

  /** What a listener throws is the client's own failure: it ends the run. */
  #dispatch(event: SocketEvent): void {
    const failure = this.#listeners.dispatch(event);
    if (failure !== null) throw failure.error;
  }
}
