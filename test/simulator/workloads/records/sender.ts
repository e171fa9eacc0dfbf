/** Ways of a client to send requests on records: over a port, or by the calls of the package's client. */
import type { ClientOptions } from "../../../../src/client/options.ts";
import type { ThrottrClient } from "../../../../src/client/client.ts";
import type { Operation } from "../../../../src/wire/edge/operation.ts";
import type { RecordAnswer, RecordOperation } from "../../../support/models/record.ts";
import type { Door, Open } from "../../checks/history.ts";
import type { CallTimes } from "../../call-times.ts";
import type { Failures } from "../../failures.ts";
import type { Random } from "../../kernel/random.ts";
import type { RunningLife } from "../../platform/running-life.ts";
import type { World } from "../../world.ts";
import { clientOf } from "../package.ts";
import type { OpenPort, Port } from "../port.ts";
import { bindingPort, httpPort } from "../ports.ts";
import { gatewayPort, tcpPort, webSocketPort } from "../socket-port.ts";
import { commandFrame, commandOf } from "./commands.ts";
import { frameOf } from "./frames.ts";
import { openOutcomeOf, outcomeOf } from "./outcome.ts";
import { pairFrameOf } from "./pair-frames.ts";
import { CALLS, EDGE, OTHERS, speechIn, type Speech } from "./speech.ts";

export interface Sender {
  readonly door: Door;
  readonly speech: Speech;
  /** Number of the connection or body that a message travels in, by how many requests it has; null where they have no order. */
  connectionOf(requests: number): number | null;
  /** Sends requests as one message. None of the promises rejects. */
  send(operations: readonly RecordOperation[]): Promise<RecordAnswer | Open>[];
  close(): void;
  /** The server has closed the connection, and what is sent now must not be applied. */
  readonly isClosed: boolean;
  /** @param listener is called when that has come to be */
  onCloseLeft(listener: () => void): void;
}

/** Requests of several messages have an order, too. */
const CONNECTIONS: readonly Door[] = ["websocket", "tcp", "gateway"];

export class PortSender implements Sender {
  readonly door: Door;
  readonly speech: Speech;
  readonly #port: Port;
  /** Of the last request of dialect 2. */
  #id = 0;

  constructor(port: Port, speech: Speech) {
    this.#port = port;
    this.door = port.door;
    this.speech = speech;
  }

  connectionOf(requests: number): number | null {
    return requests > 1 || CONNECTIONS.includes(this.door) ? this.#port.connection : null;
  }

  send(operations: readonly RecordOperation[]): Promise<RecordAnswer | Open>[] {
    const frames = operations.map((operation) => this.#frameFor(operation));
    const answers = this.#port.exchange(frames);
    return frames.map(async (frame, i) => {
      const answer = (await answers)[i]!;
      if (answer.kind !== "reply") return answer.kind;
      const { failures } = this.#port;
      return outcomeOf(() => failures.read("records", () => frame.read(answer.reply)));
    });
  }

  #frameFor(operation: RecordOperation): Operation<RecordAnswer> {
    switch (operation.dialect) {
      case "edge":
        return commandFrame(operation);
      case "throttr":
        return frameOf(operation, this.speech.protocol);
      case "pairs":
        return pairFrameOf(operation, ++this.#id);
    }
  }

  close(): void {
    this.#port.close();
  }

  get isClosed(): boolean {
    return this.#port.isClosed;
  }

  onCloseLeft(listener: () => void): void {
    this.#port.onCloseLeft = listener;
  }
}

type Call = (...given: readonly unknown[]) => Promise<unknown>;

/** Calls of one turn are a message. The client sends again what is safe to repeat. */
export class ClientSender implements Sender {
  readonly door = "client";
  readonly speech = CALLS;
  /** The package's client answers each close. */
  readonly isClosed = false;
  readonly #client: ThrottrClient;
  readonly #failures: Failures;
  readonly #times: CallTimes;
  readonly #life: RunningLife;

  constructor(client: ThrottrClient, { failures, times }: World, life: RunningLife) {
    this.#client = client;
    this.#failures = failures;
    this.#times = times;
    this.#life = life;
  }

  connectionOf(): null {
    return null;
  }

  send(operations: readonly RecordOperation[]): Promise<RecordAnswer | Open>[] {
    return operations.map(async (operation) => {
      const { name, given, answerOf } = commandOf(operation);
      const client = this.#client as unknown as Readonly<Record<typeof name, Call>>;
      try {
        const answer = this.#times.of("client", name, client[name](...given), this.#life);
        return answerOf((await answer) as never);
      } catch (error) {
        this.#failures.noteCall(`${name} of a client`, error, "records");
        // Others may have been sent in the same turn, which are one message with it.
        return openOutcomeOf(error, true);
      }
    });
  }

  close(): void {
    void this.#client.close();
  }

  onCloseLeft(): void {}
}

const OPEN_DOORS: readonly OpenPort[] = [httpPort, webSocketPort, tcpPort, gatewayPort];
const DOORS = [...OPEN_DOORS, bindingPort];
const CLIENT_SHARE = 0.25;
/** Of ports: those of another dialect than the edge dialect. */
const OTHERS_SHARE = 0.25;

/** Answers are kept longer than any attempt of a call is on its way. */
const KEPT_MS = 300_000;

/** Where they are not, an attempt that comes late may be applied again: then each attempt is a call of its own. */
const attemptsIn = ({ settings }: World): ClientOptions =>
  settings.IDEMPOTENCY_TTL_MS < KEPT_MS ? { attemptsMax: 1 } : {};

/** Any of the ways to a namespace. */
export function senderOf(
  world: World,
  life: RunningLife,
  random: Random,
  namespace: string,
): Sender {
  if (random.chance(CLIENT_SHARE)) {
    const options = { ...attemptsIn(world), namespace };
    return new ClientSender(clientOf(world, life, random, options), world, life);
  }
  const isOther = random.chance(OTHERS_SHARE);
  const speech = speechIn(namespace, isOther ? random.pick(OTHERS) : EDGE);
  const open = random.pick(isOther ? OPEN_DOORS : DOORS);
  return new PortSender(open(world, life, random, speech.wire), speech);
}
