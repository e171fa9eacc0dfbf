/** Ports over connections: a client keeps one, and opens another when it has ended, for whatever reason. */
import { operationReplyLength, type Operation } from "../../../src/wire/edge/operation.ts";
import type { Random } from "../kernel/random.ts";
import type { RunningLife } from "../platform/running-life.ts";
import type { World } from "../world.ts";
import { readPush } from "./channels/frames.ts";
import { Pipe, type Sent } from "./pipe.ts";
import type { Port } from "./port.ts";
import { EDGE, type WireKind } from "./wire.ts";

/** How often a client ends its connection behind a message: with a goodbye, or without one. */
const END_SHARE = 0.02;
const DESTROY_SHARE = 0.01;

const sentOf = (operation: Operation<unknown>): Sent => ({
  frame: operation.frame,
  replyLength: (bytes, at, end) =>
    operation.replyLength?.(bytes, at, end) ?? operationReplyLength(operation.type, bytes, at, end),
});

/** Every connection is subscribed to `*`. */
function skipPush(bytes: Uint8Array, at: number): number | null {
  const push = readPush(bytes, at);
  if (push === null) return null;
  return push === "partial" ? 0 : push.length;
}

/** A message may be sent before the replies to the last one have come: those of one connection come in their order. */
export function socketPort(
  world: World,
  client: RunningLife,
  random: Random,
  kind: WireKind,
): Port {
  let number = world.newConnection();
  let pipe: Pipe | null = null;
  const forget = (): void => {
    if (pipe !== null) number = world.newConnection();
    pipe = null;
  };
  const open = (): Pipe => {
    const opened: Pipe = new Pipe(
      world,
      client,
      random,
      { kind, protocol: EDGE, connection: number },
      { onEnd: () => pipe === opened && forget(), readPush: skipPush },
    );
    return (pipe = opened);
  };
  return {
    door: kind,
    get connection() {
      return number;
    },
    async exchange(operations) {
      const used = pipe ?? open();
      const answers = used.send(operations.map(sentOf));
      if (random.chance(END_SHARE)) {
        used.end();
        forget();
      } else if (random.chance(DESTROY_SHARE)) used.destroy();
      return await Promise.all(answers);
    },
    close: () => {
      pipe?.end();
      forget();
    },
  };
}

export const webSocketPort = (world: World, client: RunningLife, random: Random): Port =>
  socketPort(world, client, random, "websocket");
export const tcpPort = (world: World, client: RunningLife, random: Random): Port =>
  socketPort(world, client, random, "tcp");
export const gatewayPort = (world: World, client: RunningLife, random: Random): Port =>
  socketPort(world, client, random, "gateway");
