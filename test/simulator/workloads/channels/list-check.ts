/** Whether what CHANNELS, CONNECTIONS, INFO and `GET /v1/connections` said can be: rows, and the figures beside them. */
import type { Facts } from "../../checks/facts.ts";
import type { Violation } from "../../checks/history.ts";
import { checkListing } from "../../checks/listings.ts";
import { describeMoment, isBefore } from "../../checks/order.ts";
import type { Subscriptions } from "../../checks/subscriptions.ts";
import { INFO_FIGURES } from "./lists.ts";
import { Connections, type Range } from "./presence.ts";
import type { Ear, Listed } from "./shared.ts";

/** What Hubs are asked for listings, and for INFO. */
const LISTING_CALLS: readonly string[] = ["connectionsPage", "channelsPage", "figures"];
/** A listing waits so long for a Hub, in ms. */
const HUB_TIMEOUT_MS = 2000;

export function checkLists(
  listed: readonly Listed[],
  facts: Facts,
  ears: ReadonlyMap<number, Ear>,
  subscriptions: Subscriptions,
): Violation[] {
  const connections = new Connections(facts.connections.values(), ears);
  const hubs = new Set(Array.from(facts.connections.values(), ({ hub }) => hub));
  return listed.flatMap((one) => {
    const { kind, begun, ended, rows } = one;
    // A Hub that does not answer is left out, and with it all that it has.
    const isComplete = ![...hubs].some((hub) => wasSilent(facts, hub, one));
    if (kind === "info") {
      const ranges = connections.rangesOf(one, subscriptions);
      return INFO_FIGURES.flatMap((name) => checkFigure(one, name, ranges[name], isComplete));
    }
    const presence =
      kind === "channels"
        ? connections.presenceOfChannels(one, subscriptions)
        : connections.presence(one);
    const listing = { what: nameOf(one), begun, ended, isComplete, rows, includes: () => true };
    const figures = [...one.figures.keys()].flatMap((name) =>
      checkFigure(one, name, connections.subscriptionsOf(name, one, subscriptions), isComplete),
    );
    return [...checkListing(listing, presence), ...figures];
  });
}

function checkFigure(
  listed: Listed,
  name: string,
  { least, most }: Range,
  isComplete: boolean,
): Violation[] {
  const figure = listed.figures.get(name)!;
  if (figure <= most && (figure >= least || !isComplete)) return [];
  const span = `from ${describeMoment(listed.begun)} to ${describeMoment(listed.ended)}`;
  const what = listed.kind === "channels" ? `subscriptions to ${JSON.stringify(name)}` : name;
  const message = `${nameOf(listed)}, ${span}: it has ${figure} ${what}, but there were ${least} to ${most}`;
  return [{ promise: "Listings", subject: name, message }];
}

const nameOf = ({ kind }: Listed): string => `the listing of ${kind}`;

/** A call to the Hub failed, or was not answered within two seconds. */
const wasSilent = (facts: Facts, hub: string, listed: Listed): boolean =>
  facts
    .callsOf(hub)
    .some(
      ({ method, begun, answered, hasFailed }) =>
        LISTING_CALLS.includes(method) &&
        isBefore(begun, listed.ended) &&
        isBefore(listed.begun, answered) &&
        (hasFailed || answered.ms - begun.ms >= HUB_TIMEOUT_MS),
    );
