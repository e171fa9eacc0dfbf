/** Ports over connections: a client keeps one, and opens another when it has ended, for whatever reason. */
import { operationReplyLength, type Operation } from "../../../src/wire/edge/operation.ts";
import { RequestType } from "../../../src/wire/throttr/request-types.ts";
import { uintAt } from "../../support/frames/bytes.ts";
import type { Random } from "../kernel/random.ts";
import type { RunningLife } from "../platform/running-life.ts";
import type { World } from "../world.ts";
import { Pipe, type Sent } from "./pipe.ts";
import type { OpenPort, Port } from "./port.ts";
import { EDGE, type Protocol, type WireKind } from "./wire.ts";

/** How often a client ends its connection behind a message: with a goodbye, or without one. */
const END_SHARE = 0.02;
const DESTROY_SHARE = 0.01;
/** Where nothing goes wrong, what was sent before a goodbye is judged: so there are more of them. */
const CALM_END_SHARE = 0.1;

const sentOf = (operation: Operation<unknown>): Sent => ({
  frame: operation.frame,
  replyLength: (bytes, at, end) =>
    operation.replyLength?.(bytes, at, end) ?? operationReplyLength(operation.type, bytes, at, end),
});

/** Every connection that has pushes is subscribed to `*`. */
function skipPush({ pushSizeBytes }: Protocol, bytes: Uint8Array, at: number): number | null {
  if (pushSizeBytes === null || bytes[at] !== RequestType.event) return null;
  const end = at + 2 + pushSizeBytes;
  if (end > bytes.length) return 0;
  const length = 2 + pushSizeBytes + bytes[at + 1]! + Number(uintAt(bytes, at + 2, pushSizeBytes));
  return at + length > bytes.length ? 0 : length;
}

/** A message may be sent before the replies to the last one have come: those of one connection come in their order. */
export function socketPort(
  world: World,
  client: RunningLife,
  random: Random,
  kind: WireKind,
  protocol: Protocol,
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
      { kind, protocol, connection: number },
      {
        onEnd: () => pipe === opened && forget(),
        onCloseLeft: () => pipe === opened && port.onCloseLeft(),
        readPush: (bytes, at) => skipPush(protocol, bytes, at),
      },
    );
    return (pipe = opened);
  };
  const port: Port = {
    door: kind,
    failures: world.failures,
    get connection() {
      return number;
    },
    async exchange(operations) {
      const used = pipe ?? open();
      const answers = used.send(operations.map(sentOf));
      // It does not answer the server's close yet.
      if (used.isClosed) return await Promise.all(answers);
      if (random.chance(world.isCalm ? CALM_END_SHARE : END_SHARE)) {
        used.end();
        forget();
      } else if (random.chance(DESTROY_SHARE)) used.destroy();
      return await Promise.all(answers);
    },
    close: () => {
      pipe?.end();
      forget();
    },
    get isClosed() {
      return pipe?.isClosed === true;
    },
    onCloseLeft: () => {},
  };
  return port;
}

export const webSocketPort: OpenPort = (world, client, random, protocol = EDGE) =>
  socketPort(world, client, random, "websocket", protocol);
export const tcpPort: OpenPort = (world, client, random, protocol = EDGE) =>
  socketPort(world, client, random, "tcp", protocol);
export const gatewayPort: OpenPort = (world, client, random, protocol = EDGE) =>
  socketPort(world, client, random, "gateway", protocol);
