/**
 * Directory: the object of a namespace that knows which Hubs have connections.
 *
 * To be connected is to be subscribed to `*`, so it is the object of that channel, with two tasks more. It drops Hubs that
 * turn out to have no connections; and it keeps the counts of callers over HTTP, which have no Hub, and of Hubs that are
 * empty, which may never be started again. The Directory of the deployment lists the namespaces, and does nothing else.
 */
import { presentMs } from "../../base/clock.ts";
import type { Environment } from "../../base/environment.ts";
import { sumFigures, Tally, type TallyFigures } from "../../engine/tally.ts";
import type { DirectoryCalls, DirectorySurvey, ListedNamespace } from "../../base/calls/channel.ts";
import { Channel } from "./channel.ts";
import { DataPoints } from "../../base/data-points.ts";
import { NamespaceList } from "./namespace-list.ts";

export class Directory extends Channel implements DirectoryCalls {
  /** Counts of callers over HTTP and service bindings. */
  readonly #doors = new Tally();
  /** Counts of Hubs that have no connections any more. Like all counts it starts anew with the object. */
  readonly #retired = new Tally();
  readonly #points: DataPoints;
  /** Of use in the Directory of the deployment alone. */
  readonly #namespaces: NamespaceList;

  constructor(ctx: DurableObjectState, env: Environment) {
    super(ctx, env);
    this.#namespaces = new NamespaceList(ctx.storage.sql);
    this.#points = new DataPoints(
      env,
      (work) => ctx.waitUntil(work),
      { namespace: ctx.id.name!, kind: "door", name: "" },
      () => ({ tally: this.#doors.figures(presentMs()) }),
    );
  }

  /** A door lives for one request: what it has counted is kept here, in memory. */
  absorb(figures: TallyFigures): void {
    this.#doors.absorb(figures, presentMs());
    this.#points.note();
  }

  /** The counts come with the leave, in one call: a Hub that is empty may never be started again. */
  async retire(hub: string, figures: TallyFigures): Promise<void> {
    this.#retired.absorb(figures, presentMs());
    await this.leave(hub);
  }

  /** Calls no other object: the door asks the Hubs itself, all at once. */
  async survey(): Promise<DirectorySurvey> {
    const nowMs = presentMs();
    const doors = this.#doors.figures(nowMs);
    const figures = sumFigures([doors, this.#retired.figures(nowMs)]);
    return { hubs: await this.hubs(), figures, doors };
  }

  registerNamespace(namespace: string): boolean {
    return this.#namespaces.add(namespace, presentMs());
  }

  namespacesPage(after: string | null, limit: number): ListedNamespace[] {
    return this.#namespaces.page(after, limit);
  }

  /** Asks them again, as a connection may have been opened since. */
  async suspect(hubs: string[]): Promise<void> {
    await this.group!.joins.verify(hubs);
  }
}
