/** What listings of channels and of connections must have, and may have. */
import type { Connection } from "../../checks/facts.ts";
import type { Moment } from "../../checks/history.ts";
import type { Presence } from "../../checks/listings.ts";
import { afterMs, isBefore, NEVER } from "../../checks/order.ts";
import type { Member, Subscriptions } from "../../checks/subscriptions.ts";
import { nameOf, NAMES, SETTLED_MS, type Ear, type Listed } from "./shared.ts";

/** Connections as listings have them. */
export class Connections {
  readonly #ears: ReadonlyMap<number, Ear>;
  readonly #byId = new Map<string, Connection>();

  constructor(connections: Iterable<Connection>, ears: ReadonlyMap<number, Ear>) {
    this.#ears = ears;
    for (const connection of connections) this.#byId.set(connection.id, connection);
  }

  presence(listed: Listed): Presence {
    return {
      keys: this.#byId.keys(),
      isThroughout: (id) => isThroughout(this.#byId.get(id)!, listed),
      isPossible: (id) => {
        const connection = this.#byId.get(id);
        return connection !== undefined && this.#isPossible(connection, listed);
      },
    };
  }

  presenceOfChannels(listed: Listed, subscriptions: Subscriptions): Presence {
    const { begun, ended } = listed;
    const isMember = (name: string, holds: (member: Member) => boolean): boolean =>
      [...subscriptions.membersOf(name)].some((member) => holds(member));
    return {
      keys: Array.from({ length: NAMES }, (_, i) => nameOf(i)),
      isThroughout: (name) =>
        isMember(
          name,
          ({ subscriber: { connection }, spans }) =>
            isThroughout(connection, listed) &&
            spans.some((span) => isBefore(span.confirmed, begun) && isBefore(ended, span.endBegun)),
        ),
      isPossible: (name) =>
        isMember(
          name,
          ({ subscriber: { connection }, spans }) =>
            this.#isPossible(connection, listed) &&
            spans.some((span) => isBefore(span.begun, ended) && isBefore(begun, span.endEnded)),
        ),
    };
  }

  #isPossible(connection: Connection, { begun, ended }: Listed): boolean {
    return isBefore(connection.begun, ended) && isBefore(begun, this.#endOf(connection));
  }

  /**
   * Until when a connection may be listed: what its peer has sent before its end is executed first. Of connections of other
   * workloads it is not known whether that is anything.
   */
  #endOf({ number, ending }: Connection): Moment {
    const over = ending === null ? NEVER : (ending.ended ?? NEVER);
    const isExecuting = this.#ears.get(number)?.unanswered !== 0;
    return isExecuting && over !== NEVER ? afterMs(over.ms + SETTLED_MS) : over;
  }
}

function isThroughout({ opened, ending }: Connection, { begun, ended }: Listed): boolean {
  return opened !== null && isBefore(opened, begun) && isBefore(ended, ending?.begun ?? NEVER);
}
