/** Clients of the counter protocol on TCP sockets of the system. */
import { connect, type Socket } from "node:net";
import { CounterClient, type CounterWire } from "../yrmcds/client.ts";

const CONNECT_TIMEOUT_MS = 5000;

export interface SocketClient extends CounterClient {
  readonly socket: Socket;
}

export async function openCounter(port: number): Promise<SocketClient> {
  // When which half ends is for the tests to say.
  const socket = connect({ port, host: "127.0.0.1", allowHalfOpen: true, noDelay: true });
  socket.setTimeout(CONNECT_TIMEOUT_MS);
  await new Promise<void>((resolve, reject) => {
    socket.once("connect", resolve);
    socket.once("error", reject);
    socket.once("timeout", () => reject(new Error(`no connection to port ${port}`)));
  });
  socket.setTimeout(0);
  return Object.assign(new CounterClient(wireOf(socket)), { socket });
}

function wireOf(socket: Socket): CounterWire {
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
