/** Clients of the yrmcds protocol on TCP sockets of the system. */
import { connect, type Socket } from "node:net";
import { YrmcdsClient, type YrmcdsWire } from "../yrmcds/client.ts";

const CONNECT_TIMEOUT_MS = 5000;

export interface SocketClient extends YrmcdsClient {
  readonly socket: Socket;
}

export async function openYrmcds(port: number): Promise<SocketClient> {
  // When which half ends is for the tests to say.
  const socket = connect({ port, host: "127.0.0.1", allowHalfOpen: true, noDelay: true });
  socket.setTimeout(CONNECT_TIMEOUT_MS);
  await new Promise<void>((resolve, reject) => {
    socket.once("connect", resolve);
    socket.once("error", reject);
    socket.once("timeout", () => reject(new Error(`no connection to port ${port}`)));
  });
  socket.setTimeout(0);
  return Object.assign(new YrmcdsClient(wireOf(socket)), { socket });
}

function wireOf(socket: Socket): YrmcdsWire {
  return {
    write: (bytes) => void socket.write(bytes),
    end: (bytes) => void socket.end(bytes),
    close: () => void socket.destroy(),
    reset: () => void socket.resetAndDestroy(),
    listen: (read, ended) => {
      socket.on("data", read);
      socket.once("end", ended);
      socket.once("close", ended);
      socket.on("error", () => {});
    },
  };
}
