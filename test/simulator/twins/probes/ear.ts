import { note } from "../note.ts";
import { Probe } from "./env.ts";
import type { Parcel } from "./calls.ts";

class FarError extends Error {
  override readonly name = "FarError";
  readonly code: string;

  constructor(message: string, code: string) {
    super(message);
    this.code = code;
  }
}

/** Notes what it receives: what it doesn't note has not left the sender. */
export class Ear extends Probe {
  readonly party = "ear";
  readonly #released = Promise.withResolvers<void>();

  hear(line: string): string {
    this.note(line);
    return `heard ${line}`;
  }

  hearAs(party: string, line: string): void {
    note(party, line);
  }

  async hearSlowly(line: string): Promise<string> {
    this.note(line);
    await scheduler.wait(60);
    this.note(`${line} is over`);
    return `heard ${line}`;
  }

  async hold(): Promise<void> {
    this.note("holds");
    await this.#released.promise;
  }

  release(): void {
    this.#released.resolve();
  }

  async hang(): Promise<void> {
    this.note("hangs");
    await new Promise(() => {});
  }

  take(parcel: Parcel): Parcel {
    this.note(`takes ${parcel.count} ${parcel.bytes.join()} of ${parcel.bytes.buffer.byteLength}`);
    return parcel;
  }

  throwError(kind: "built in" | "of its own" | "text"): void {
    if (kind === "built in") throw new RangeError("too far");
    if (kind === "of its own") throw new FarError("too far", "far");
    // A method may throw what is no error.
    // oxlint-disable-next-line typescript/only-throw-error
    throw "too far";
  }

  abort(reason: string): void {
    this.ctx.abort(reason);
  }

  /** A WebSocket for a request that upgrades; else notes the path. */
  override fetch(request: Request): Response {
    if (request.headers.get("Upgrade") !== "websocket") {
      this.note(`fetch ${new URL(request.url).pathname}`);
      return new Response("fetched");
    }
    const { 0: client, 1: server } = new WebSocketPair();
    server.accept();
    server.addEventListener("message", ({ data }) => note("ear's socket", String(data)));
    return new Response(null, { status: 101, webSocket: client });
  }
}
