/** What listings of channels and of connections must have, and may have. */
import type { Connection } from "../../checks/facts.ts";
import type { Moment } from "../../checks/history.ts";
import type { Presence } from "../../checks/listings.ts";
import { afterMs, isBefore, NEVER } from "../../checks/order.ts";
import type { Span, Subscriptions } from "../../checks/subscriptions.ts";
import { SETTLED_MS } from "../give-up.ts";
import type { InfoFigure } from "./lists.ts";
import { nameOf, NAMES, type Ear, type Listed } from "./shared.ts";

/** How many there were while they were listed: certainly, and at most. */
export interface Range {
  least: number;
  most: number;
}

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
    return {
      keys: Array.from({ length: NAMES }, (_, i) => nameOf(i)),
      isThroughout: (name) => this.subscriptionsOf(name, listed, subscriptions).least > 0,
      isPossible: (name) => this.subscriptionsOf(name, listed, subscriptions).most > 0,
    };
  }

  /** How many subscriptions to a channel there were while it was listed. */
  subscriptionsOf(name: string, listed: Listed, subscriptions: Subscriptions): Range {
    const { begun, ended } = listed;
    let [least, most] = [0, 0];
    for (const { subscriber, spans } of subscriptions.membersOf(name)) {
      const { connection } = subscriber;
      const isSure = (span: Span): boolean =>
        isBefore(span.confirmed, begun) && isBefore(ended, span.endBegun);
      const isPossible = (span: Span): boolean =>
        isBefore(span.begun, ended) && isBefore(begun, span.endEnded);
      // Of connections of other workloads it is not known whether they have subscriptions.
      const isKnown = this.#ears.has(connection.number);
      if (isKnown && isThroughout(connection, listed) && spans.some(isSure)) least++;
      if (this.#isPossible(connection, listed) && spans.some(isPossible)) most++;
    }
    return { least, most };
  }

  /** What INFO may say. */
  rangesOf(listed: Listed, subscriptions: Subscriptions): Readonly<Record<InfoFigure, Range>> {
    const sums = {
      connections: { least: 0, most: 0 },
      subscriptions: { least: 0, most: 0 },
      channels: { least: 0, most: 0 },
    };
    for (const connection of this.#byId.values()) {
      if (isThroughout(connection, listed)) sums.connections.least++;
      if (this.#isPossible(connection, listed)) sums.connections.most++;
    }
    for (const name of subscriptions.channels()) {
      const { least, most } = this.subscriptionsOf(name, listed, subscriptions);
      sums.subscriptions.least += least;
      sums.subscriptions.most += most;
      if (least > 0) sums.channels.least++;
      if (most > 0) sums.channels.most++;
    }
    return sums;
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
