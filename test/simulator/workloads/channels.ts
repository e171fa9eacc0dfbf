/**
 * Clients subscribe and publish: over connections of all kinds, over HTTP, and as listeners of Server-Sent Events that come back for
 * what they have missed. Meanwhile channels and connections are listed and counted.
 */
import { GroupMap } from "../../../src/dispatch/placement.ts";
import { neighbours, type Plan } from "../campaign/plan.ts";
import { checkGroupPrices } from "../checks/budgets.ts";
import {
  payloadBytesMax,
  withExecuted,
  type ReplayRules,
  type Subscriber,
} from "../checks/channel-calls.ts";
import { checkChannels, isPublication } from "../checks/channels.ts";
import { Delivery } from "../checks/delivery.ts";
import { checkConnectionIds } from "../checks/whoami.ts";
import type { Violation } from "../checks/history.ts";
import { Subscriptions } from "../checks/subscriptions.ts";
import type { Workload, World } from "../world.ts";
import { afterMs, isBefore } from "../checks/order.ts";
import { carriagesOf } from "./channels/carriages.ts";
import { checkLists } from "./channels/list-check.ts";
import { startClients } from "./client.ts";
import { NEIGHBOUR } from "./namespaces.ts";
import { Listener } from "./channels/listener.ts";
import { Member } from "./channels/member.ts";
import { Neighbour } from "./channels/neighbour.ts";
import { pricesOf } from "./channels/prices.ts";
import { Publisher } from "./channels/publisher.ts";
import { EVERYBODY, Shared, type Ear } from "./channels/shared.ts";

const DEAF: Ear = { hasDefaults: true, receipts: [], heardUntil: null, unanswered: 0 };
const DAY_MS = 86_400_000;
const SIZE_OF_VALUES = 8;
/** What clients are, besides publishers over HTTP. */
const MEMBER_SHARE = 0.6;
const LISTENER_SHARE = 0.2;

export class Channels implements Workload {
  readonly name = "channels";
  readonly #plan: Plan;
  #shared!: Shared;

  constructor(plan: Plan) {
    this.#plan = plan;
  }

  start(world: World): void {
    this.#shared = new Shared(world);
    startClients(world, this.name, this.#plan, async (client) => {
      const at = client.random.next();
      if (at < MEMBER_SHARE) await new Member(client, this.#shared).work();
      else if (at < MEMBER_SHARE + LISTENER_SHARE) await new Listener(client, this.#shared).work();
      else await new Publisher(client, this.#shared).work();
    });
    startClients(world, `${this.name} of ${NEIGHBOUR}`, neighbours(this.#plan), async (client) => {
      await new Neighbour(client, this.#shared).work();
    });
  }

  check(world: World): Violation[] {
    const { facts } = world.witness;
    // Release 0.4.0 delivers late messages behind later ones, twice to a listener that comes back, and has numbers of its own.
    const since = afterMs(world.cluster.deployedMs);
    const all = this.#shared.history.calls;
    const hasTaken = (connection: number): boolean => world.hasTaken(connection);
    const calls = withExecuted(all, hasTaken).filter(
      (call) => !isPublication(call) || isBefore(since, call.begun),
    );
    const left = new Set(
      all.flatMap((call) =>
        isPublication(call) && !isBefore(since, call.begun) ? [call.operation.message] : [],
      ),
    );
    const subscribers = new Map<number, Subscriber>();
    for (const [number, connection] of facts.connections) {
      // Connections of other workloads take what is published to `*`, and don't tell.
      const ear = this.#shared.ears.get(number) ?? DEAF;
      subscribers.set(number, {
        ...ear,
        receipts: ear.receipts.filter(({ message }) => !left.has(message)),
        // What a connection of the release before has missed is not known.
        heardUntil: isBefore(since, connection.begun) ? ear.heardUntil : null,
        connection,
        payloadBytesMax: payloadBytesMax(SIZE_OF_VALUES),
      });
    }
    const { ears } = this.#shared;
    const listed = this.#shared.listed.filter(({ begun }) => isBefore(since, begun));
    const hubs = [...new Set(Array.from(facts.connections.values(), ({ hub }) => hub))];
    const carriages = carriagesOf(hubs.flatMap((hub) => facts.callsOf(hub)));
    const rules = this.#rules(world);
    const run = { rules, carriages };
    const delivery = new Delivery(facts, run);
    const isToday = this.#plan.release === "today";
    return [
      ...(isToday ? checkGroupPrices(pricesOf(world, calls, carriages, rules)) : []),
      ...checkChannels(calls, subscribers, facts, run),
      ...this.#leaks(),
      ...checkConnectionIds(this.#shared.toldIds),
      ...checkLists(listed, facts, ears, new Subscriptions(calls, subscribers, delivery)),
    ];
  }

  #leaks(): readonly Violation[] {
    const shared = this.#shared;
    for (const { id } of shared.toldIds) {
      if (shared.listedByNeighbours.has(id)) shared.noteLeak(id, "a neighbour has listed it");
    }
    return shared.leaks;
  }

  #rules({ sizes, settingsLeast }: World): ReplayRules {
    const { release } = this.#plan;
    const groups = new GroupMap("default", "");
    return {
      // Messages that the release before has kept take room that is not known.
      messagesMax: release === "today" ? settingsLeast.REPLAY_MESSAGES_MAX : 0,
      keptMs: DAY_MS,
      channelBytesMax: sizes.REPLAY_BYTES_MAX,
      groupBytesMax: sizes.GROUP_KEPT_BYTES_MAX,
      groupOf: (channel) =>
        channel === EVERYBODY
          ? "Directory default"
          : `Channel default/group/${groups.groupOf(channel)}`,
    };
  }
}
