/**
 * Clients subscribe and publish: over connections of all kinds, over HTTP, and as listeners of Server-Sent Events that come back for
 * what they have missed. Meanwhile channels and connections are listed.
 */
import { GroupMap } from "../../../src/dispatch/placement.ts";
import type { Plan } from "../campaign/plan.ts";
import { payloadBytesMax, type ReplayRules, type Subscriber } from "../checks/channel-calls.ts";
import { checkChannels } from "../checks/channels.ts";
import { Delivery } from "../checks/delivery.ts";
import type { Violation } from "../checks/history.ts";
import { checkListing } from "../checks/listings.ts";
import { Subscriptions } from "../checks/subscriptions.ts";
import type { Workload, World } from "../world.ts";
import { startClients } from "./client.ts";
import { Listener } from "./channels/listener.ts";
import { Member } from "./channels/member.ts";
import { Connections } from "./channels/presence.ts";
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
  }

  check(world: World): Violation[] {
    // Release 0.4.0 delivers late messages behind later ones, twice to a listener that comes back, and has numbers of its own.
    if (this.#plan.release !== "today") return [];
    const { facts } = world.witness;
    const subscribers = new Map<number, Subscriber>();
    for (const [number, connection] of facts.connections) {
      // Connections of other workloads take what is published to `*`, and don't tell.
      const ear = this.#shared.ears.get(number) ?? DEAF;
      subscribers.set(number, {
        ...ear,
        connection,
        payloadBytesMax: payloadBytesMax(SIZE_OF_VALUES),
      });
    }
    const { calls } = this.#shared.history;
    return [
      ...checkChannels(calls, subscribers, facts, this.#rules(world)),
      ...this.#checkListings(
        world,
        new Subscriptions(calls, subscribers, new Delivery(facts, null)),
      ),
    ];
  }

  #rules({ sizes }: World): ReplayRules {
    const groups = new GroupMap("default", "");
    return {
      messagesMax: Number(this.#plan.variables["REPLAY_MESSAGES_MAX"] ?? 0),
      keptMs: DAY_MS,
      channelBytesMax: sizes.REPLAY_BYTES_MAX,
      groupBytesMax: sizes.GROUP_KEPT_BYTES_MAX,
      groupOf: (channel) =>
        channel === EVERYBODY
          ? "Directory default"
          : `Channel default/group/${groups.groupOf(channel)}`,
    };
  }

  #checkListings({ witness: { facts } }: World, subscriptions: Subscriptions): Violation[] {
    const { ears, listed } = this.#shared;
    const connections = new Connections(facts.connections.values(), ears);
    const hubs = new Set([...facts.connections.values()].map(({ hub }) => hub));
    return listed.flatMap((one) => {
      const { kind, begun, ended, rows } = one;
      const presence =
        kind === "channels"
          ? connections.presenceOfChannels(one, subscriptions)
          : connections.presence(one);
      const what = `the listing of ${kind}`;
      // A Hub that does not answer is left out, and with it all that it has.
      const isComplete = ![...hubs].some((hub) => facts.hadOutage(hub, begun, ended));
      return checkListing({ what, begun, ended, isComplete, rows, includes: () => true }, presence);
    });
  }
}
