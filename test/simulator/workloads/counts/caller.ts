/**
 * A client that alone sends EVENT, which no shard sees: the Hub of its connection counts it, or the Directory, for a door. It comes by one
 * way after the other, so that Hubs lose their last connections, and counts are handed on.
 */
import { RequestType } from "../../../../src/wire/throttr/request-types.ts";
import type { Operation } from "../../../../src/wire/edge/operation.ts";
import { checkRequests } from "../../checks/counts.ts";
import { History, isAnswered, type Call, type Violation } from "../../checks/history.ts";
import { NEVER } from "../../checks/order.ts";
import type { World } from "../../world.ts";
import { pauseBeside } from "../client.ts";
import type { Port } from "../port.ts";
import { PORTS } from "../every-port.ts";
import { exchangeNoted } from "./exchange.ts";

interface EventOutcome {
  readonly isRefused: boolean;
}
type EventCall = Call<"event", EventOutcome>;

const PAUSE_MS = { least: 200, most: 60_000 };
const AT_ONCE_MOST = 12;
/** How often it changes to another door, or to another connection. */
const CHANGE_SHARE = 0.15;
/** An empty message to a channel without a name. It is refused, as only the server may push. */
const EVENT: Operation<EventOutcome> = {
  type: RequestType.event,
  frame: new Uint8Array([RequestType.event, ...new Uint8Array(9)]),
  isRead: false,
  isRepeatable: false,
  replyLength: (_bytes, at, end) => (at < end ? 1 : 0),
  read: (reply) => ({ isRefused: reply[0] === 0 }),
};

export class CountedCaller {
  #history!: History<"event", EventOutcome>;
  /** How many the server says in the end; null where it was not asked. */
  total: number | null = null;

  start(world: World): void {
    this.#history = new History(world.moments);
    world.start("caller that is counted", async (life) => {
      const random = world.random.fork(life.name);
      const open = (): Port => random.pick(PORTS)(world, life, random);
      let port = open();
      while (!world.isClosing) {
        await pauseBeside(world, life, random, PAUSE_MS);
        if (random.chance(CHANGE_SHARE)) {
          port.close();
          port = open();
        }
        const count = 1 + Math.floor(random.skewed(0.1, AT_ONCE_MOST));
        const asked = Array.from(
          { length: count },
          () => ({ operation: "event", frame: EVENT }) as const,
        );
        await exchangeNoted(world, this.#history, port, asked);
      }
      port.close();
    });
  }

  check(world: World): readonly Violation[] {
    const { calls } = this.#history;
    const applied = calls.filter((call) => isAnswered(call) && !call.outcome.isRefused);
    const violations = applied.map(() => ({
      promise: "Order per key",
      subject: "EVENT",
      message: "a client could push, which the server alone may",
    }));
    if (this.total === null) return violations;
    const isCounted = (call: EventCall): boolean => world.isCalm && isReported(call, world);
    return [...violations, ...checkRequests("event", this.total, calls, isCounted)];
  }
}

/**
 * Where nothing goes wrong: whether the Directory knows of it for certain, or the Hub of its connection still does. A Hub reports with the
 * first event of a minute. So sleep loses what it has counted since, and that may be long ago.
 */
function isReported({ connection, begun }: EventCall, world: World): boolean {
  const { facts } = world.witness;
  const hub = facts.connections.get(connection!)?.hub;
  return hub === undefined || !facts.wasAway(hub, begun, NEVER);
}
