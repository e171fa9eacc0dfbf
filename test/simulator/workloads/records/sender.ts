/** Ways of a client to send requests on records: over a port, or by the calls of the package's client. */
import type { ThrottrClient } from "../../../../src/client/client.ts";
import type { Operation } from "../../../../src/wire/edge/operation.ts";
import { protocolByName } from "../../../../src/wire/throttr/protocol.ts";
import type { RecordAnswer, RecordOperation } from "../../../support/models/record.ts";
import type { Door, Open } from "../../checks/history.ts";
import type { Random } from "../../kernel/random.ts";
import type { RunningLife } from "../../platform/running-life.ts";
import type { World } from "../../world.ts";
import { clientOf } from "../package.ts";
import type { Port } from "../port.ts";
import { bindingPort, httpPort } from "../ports.ts";
import { gatewayPort, tcpPort, webSocketPort } from "../socket-port.ts";
import { commandFrame, commandOf } from "./commands.ts";
import { frameOf } from "./frames.ts";
import { openOutcomeOf, outcomeOf } from "./outcome.ts";

export interface Sender {
  readonly door: Door;
  /** Whether it can send frames of dialect 7.3 beside commands. */
  readonly hasFrames: boolean;
  /** Number of the connection or body that a message travels in, by how many requests it has; null where they have no order. */
  connectionOf(requests: number): number | null;
  /** Sends requests as one message. None of the promises rejects. */
  send(operations: readonly RecordOperation[]): Promise<RecordAnswer | Open>[];
  close(): void;
}

const EDGE = protocolByName("edge", undefined)!;
/** Requests of several messages have an order, too. */
const CONNECTIONS: readonly Door[] = ["websocket", "tcp", "gateway"];

export class PortSender implements Sender {
  readonly door: Door;
  readonly hasFrames = true;
  readonly #port: Port;

  constructor(port: Port) {
    this.#port = port;
    this.door = port.door;
  }

  connectionOf(requests: number): number | null {
    return requests > 1 || CONNECTIONS.includes(this.door) ? this.#port.connection : null;
  }

  send(operations: readonly RecordOperation[]): Promise<RecordAnswer | Open>[] {
    const frames = operations.map(frameFor);
    const answers = this.#port.exchange(frames);
    return frames.map(async (frame, i) => {
      const answer = (await answers)[i]!;
      return answer.kind === "reply" ? outcomeOf(() => frame.read(answer.reply)) : answer.kind;
    });
  }

  close(): void {
    this.#port.close();
  }
}

const frameFor = (operation: RecordOperation): Operation<RecordAnswer> =>
  operation.dialect === "edge" ? commandFrame(operation) : frameOf(operation, EDGE);

type Call = (...given: readonly unknown[]) => Promise<unknown>;

/** Calls of one turn are a message. The client sends again what is safe to repeat. */
export class ClientSender implements Sender {
  readonly door = "client";
  readonly hasFrames = false;
  readonly #client: ThrottrClient;

  constructor(client: ThrottrClient) {
    this.#client = client;
  }

  connectionOf(): null {
    return null;
  }

  send(operations: readonly RecordOperation[]): Promise<RecordAnswer | Open>[] {
    return operations.map(async (operation) => {
      const { name, given, answerOf } = commandOf(operation);
      const client = this.#client as unknown as Readonly<Record<typeof name, Call>>;
      try {
        return answerOf((await client[name](...given)) as never);
      } catch (error) {
        return openOutcomeOf(error);
      }
    });
  }

  close(): void {
    void this.#client.close();
  }
}

const PORTS = [httpPort, bindingPort, webSocketPort, tcpPort, gatewayPort];
const CLIENT_SHARE = 0.25;

/** Any of the ways. */
export function senderOf(world: World, life: RunningLife, random: Random): Sender {
  if (!random.chance(CLIENT_SHARE)) return new PortSender(random.pick(PORTS)(world, life, random));
  return new ClientSender(clientOf(world, life, random));
}
