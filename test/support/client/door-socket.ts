/** The class `WebSocket` over a `fetch` of Workers: how the client gets to a server in its own process. */
import type { PlatformSocket, PlatformSocketConstructor } from "../../../src/client/platform.ts";

/** A `fetch` that opens WebSockets. */
export type UpgradingFetch = (
  url: string,
  init: { readonly headers: Record<string, string> },
) => Promise<{
  readonly webSocket: (PlatformSocket & { accept(): void }) | null;
  readonly status: number;
}>;

type Listener = (event: never) => void;

/**
 * @param onText is called with every text that comes
 */
export function socketClassOver(
  fetch: UpgradingFetch,
  onText: (text: string) => void = () => {},
): PlatformSocketConstructor {
  return class DoorSocket implements PlatformSocket {
    binaryType = "arraybuffer";
    #socket: PlatformSocket | null = null;
    readonly #listeners: [type: string, listener: Listener][] = [];

    constructor(url: string, protocols: string[]) {
      void this.#open(url.replace(/^ws/, "http"), protocols);
    }

    send(data: string | Uint8Array<ArrayBuffer>): void {
      this.#socket!.send(data);
    }

    close(code?: number, reason?: string): void {
      this.#socket?.close(code, reason);
    }

    addEventListener(type: string, listener: Listener): void {
      this.#listeners.push([type, listener]);
    }

    async #open(url: string, protocols: string[]): Promise<void> {
      const headers = { upgrade: "websocket", "sec-websocket-protocol": protocols.join(", ") };
      const { webSocket, status } = await fetch(url, { headers });
      if (webSocket === null) {
        this.#emit("error", { message: `HTTP ${status}` });
        return;
      }
      webSocket.binaryType = this.binaryType;
      webSocket.addEventListener("message", (event) => {
        if (typeof event.data === "string") onText(event.data);
        this.#emit("message", event);
      });
      webSocket.addEventListener("close", (event) => this.#emit("close", event));
      webSocket.addEventListener("error", (event) => this.#emit("error", event));
      webSocket.accept();
      this.#socket = webSocket;
      this.#emit("open", {});
    }

    #emit(type: string, event: object): void {
      for (const [wanted, listener] of this.#listeners) {
        if (wanted === type) listener(event as never);
      }
    }
  };
}
