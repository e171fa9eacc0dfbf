/**
 * Memory of idle connections: what the runtime grows by when TCP connections are opened that have sent one request
 * each, and what it keeps after they have ended, beside the echo that is the platform's limit.
 *
 * The runtime's allocator gives back little of what it has had; it uses it again.
 */
import { once } from "node:events";
import { connect, type Socket } from "node:net";
import { setTimeout as wait } from "node:timers/promises";
import { updateFrame } from "./frames.ts";
import type { Lab, MemoryTarget } from "./lab.ts";
import type { Options } from "./options.ts";

export interface MemoryFigures {
  readonly connections: number;
  /** Null where the system does not tell. */
  readonly echo: IdleMemory | null;
  readonly server: IdleMemory | null;
}

export interface IdleMemory {
  readonly startBytes: number;
  readonly perConnectionBytes: number;
  readonly afterBytes: number;
}

const REQUEST = updateFrame(Buffer.from("idle"), true);
const CONNECTIONS = 3000;
const CONNECTIONS_QUICK = 500;
/** Opened and closed before, so that code is compiled. */
const WARM_UP_CONNECTIONS = 50;
const SETTLE_MS = 3000;
const AFTER_MS = 60_000;

export async function measureMemory(lab: Lab, { isQuick }: Options): Promise<MemoryFigures> {
  const connections = isQuick ? CONNECTIONS_QUICK : CONNECTIONS;
  const echo = await measureIdle(await lab.startEcho(), connections, isQuick);
  const server = await measureIdle(await lab.startThrottr("memory", {}), connections, isQuick);
  return { connections, echo, server };
}

async function measureIdle(
  target: MemoryTarget,
  connections: number,
  isQuick: boolean,
): Promise<IdleMemory | null> {
  const runtime = target.runtime();
  if (runtime === null) return null;
  await closeAll(await openAll(target.port, WARM_UP_CONNECTIONS));
  await wait(SETTLE_MS);
  const startBytes = runtime.bytes;
  const sockets = await openAll(target.port, connections);
  await wait(SETTLE_MS);
  const perConnectionBytes = (runtime.bytes - startBytes) / connections;
  await closeAll(sockets);
  await wait(isQuick ? SETTLE_MS : AFTER_MS);
  return { startBytes, perConnectionBytes, afterBytes: runtime.bytes };
}

async function openAll(port: number, count: number): Promise<Socket[]> {
  const sockets: Socket[] = [];
  while (sockets.length < count) {
    const socket = connect({ port, host: "127.0.0.1" });
    socket.write(REQUEST);
    await once(socket, "data");
    sockets.push(socket);
  }
  return sockets;
}

async function closeAll(sockets: readonly Socket[]): Promise<void> {
  const closed = sockets.map((socket) => once(socket, "close"));
  for (const socket of sockets) socket.destroy();
  await Promise.all(closed);
}
