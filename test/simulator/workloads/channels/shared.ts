/** What the clients of the workload of channels share: the history of their calls, and what their connections received. */
import type {
  ChannelCall,
  ChannelOperation,
  ChannelOutcome,
  Receipt,
} from "../../checks/channel-calls.ts";
import type { ToldId } from "../../checks/whoami.ts";
import { History, type Door, type Moment, type Violation } from "../../checks/history.ts";
import type { Random } from "../../kernel/random.ts";
import type { World } from "../../world.ts";
import { SETTLED_MS } from "../give-up.ts";
import { messageOfPayload } from "./frames.ts";
import type { List, ListKind } from "./lists.ts";

export const NAMES = 6;
const SHOWN_BYTES = 80;
const decoder = new TextDecoder();
export const EVERYBODY = "*";

export const nameOf = (index: number): string => `channels:${index}`;

/** What a connection has received, and up to when nothing is missing. */
export interface Ear {
  readonly hasDefaults: boolean;
  readonly receipts: Receipt[];
  heardUntil: Moment | null;
  /** Requests that have no answer. */
  unanswered: number;
}

/** A listing that a client has, of one page or more. */
export interface Listed extends List {
  readonly kind: ListKind;
  readonly begun: Moment;
  readonly ended: Moment;
}

/** What all clients of the workload share. */
export class Shared {
  readonly world: World;
  readonly history: History<ChannelOperation, ChannelOutcome>;
  readonly ears = new Map<number, Ear>();
  readonly listed: Listed[] = [];
  /** Own channels of connections, also of neighbours; some have ended. */
  readonly ids: string[] = [];
  /** Answers to WHOAMI, in the order in which they came. */
  readonly toldIds: ToldId[] = [];
  /** IDs of connections that clients of another namespace have listed. */
  readonly listedByNeighbours = new Set<string>();
  /** What one namespace was shown of another. */
  readonly leaks: Violation[] = [];
  #messages = 0;

  constructor(world: World) {
    this.world = world;
    this.history = new History(world.moments);
  }

  newMessage(): number {
    return ++this.#messages;
  }

  newEar(connection: number, hasDefaults: boolean): Ear {
    const ear: Ear = { hasDefaults, receipts: [], heardUntil: null, unanswered: 0 };
    this.ears.set(connection, ear);
    return ear;
  }

  /** WHOAMI has answered on a connection. */
  learnId(connection: number, id: string): void {
    this.ids.push(id);
    this.toldIds.push({ connection, id, at: this.world.moments.now() });
  }

  /** @param message what was seen where it must not be */
  noteLeak(subject: string, message: string): void {
    this.leaks.push({ promise: "Namespaces", subject, message });
  }

  receive(ear: Ear, channel: string, number: number | null, payload: Uint8Array): void {
    const message = messageOfPayload(payload);
    if (message === null) {
      const text = decoder.decode(payload.subarray(0, SHOWN_BYTES));
      this.noteLeak(channel, `a payload was heard that was never sent: ${text}`);
      return;
    }
    ear.receipts.push({ message, channel, number, at: this.world.moments.now() });
  }

  begin(
    client: number,
    door: Door,
    connection: number | null,
    operation: ChannelOperation,
  ): ChannelCall {
    this.world.operations++;
    const call = this.history.begin({ client, door, connection, operation });
    if (operation.type === "publish") {
      this.world.time.after(SETTLED_MS, () => this.history.settle(call));
    }
    return call;
  }

  end(call: ChannelCall, outcome: ChannelOutcome | "unknown" | "refused"): void {
    if (outcome === "unknown") this.history.giveUp(call);
    else this.history.end(call, outcome);
  }

  pickChannel(random: Random): string {
    const at = random.next();
    if (at < 0.06) return EVERYBODY;
    if (at < 0.2 && this.ids.length > 0) return random.pick(this.ids);
    return nameOf(random.int(NAMES));
  }
}
