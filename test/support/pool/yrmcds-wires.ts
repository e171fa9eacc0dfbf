/** Clients of the yrmcds protocol at the doors of the pool: WebSockets and TCP. */
import { exports } from "cloudflare:workers";
import { YrmcdsClient, type YrmcdsWire } from "../yrmcds/client.ts";
import type { DumpEntryForm } from "../frames/yrmcds.ts";
import { connectTcp } from "./doors.ts";

const server = exports.default as unknown as Fetcher;

export const YRMCDS_PATHS = { document: "/yrmcds/counter", today: "/yrmcds/counter/today" };
export const YRMCDS_PORTS = { document: 11_215, today: 11_216 };

export interface YrmcdsKind {
  readonly transport: "websocket" | "tcp";
  readonly form: DumpEntryForm;
  /** Where its requests say that they come from; nothing of TCP is known: XXX. */
  readonly location: string;
}

/** @throws Error when there is no such door, or it is closed */
export async function openYrmcds(
  { transport, form, location }: YrmcdsKind,
  headers: Readonly<Record<string, string>> = {},
): Promise<YrmcdsClient> {
  if (transport === "tcp") return new YrmcdsClient(tcpWire(YRMCDS_PORTS[form]));
  const request = new Request(`http://localhost${YRMCDS_PATHS[form]}`, {
    headers: { upgrade: "websocket", ...headers },
    cf: { colo: location },
  } as RequestInit);
  const response = await server.fetch(request);
  if (response.webSocket === null) throw new Error(`${response.status}: ${await response.text()}`);
  return new YrmcdsClient(webSocketWire(response.webSocket));
}

function webSocketWire(socket: WebSocket): YrmcdsWire {
  const close = (): void => socket.close(1000);
  return {
    write: (bytes) => socket.send(bytes),
    end(bytes) {
      if (bytes.length > 0) socket.send(bytes);
      close();
    },
    close,
    reset: close,
    listen(read, ended) {
      socket.binaryType = "arraybuffer";
      socket.addEventListener("message", ({ data }) => read(new Uint8Array(data as ArrayBuffer)));
      socket.addEventListener("close", ended);
      socket.accept();
    },
  };
}

function tcpWire(port: number): YrmcdsWire {
  const socket = connectTcp(port);
  const writer = (socket.writable as WritableStream<Uint8Array>).getWriter();
  const write = (bytes: Uint8Array): void => void writer.write(bytes).catch(() => {});
  const close = (): void => void socket.close().catch(() => {});
  return {
    write,
    end(bytes) {
      if (bytes.length > 0) write(bytes);
      void writer.close().catch(() => {});
    },
    close,
    // Aborting the writer is not heard of at the other side here: a reset looks like a close.
    reset: close,
    listen(read, ended) {
      void (async () => {
        try {
          for await (const chunk of socket.readable as ReadableStream<Uint8Array>) read(chunk);
        } catch {
          // A reset is an end, too.
        }
        ended();
      })();
    },
  };
}
