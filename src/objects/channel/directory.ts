/**
 * Directory: the object of a namespace that knows which Hubs have connections.
 *
 * To be connected is to be subscribed to `*`, so it is the object of that channel, with two tasks more. It drops Hubs that
 * turn out to have no connections; and it keeps the counts of callers over HTTP, which have no Hub, and of Hubs that are
 * empty, which may never be started again. The Directory of the deployment lists the namespaces, and does nothing else.
 */
import { presentMs } from "../../base/clock.ts";
import type { Environment } from "../../base/environment.ts";
import type { TallyFigures } from "../../engine/tally.ts";
import type { DirectoryCalls, DirectorySurvey, ListedNamespace } from "../../base/calls/channel.ts";
import type { HistoryMinute } from "../../wire/history.ts";
import { Channel } from "./channel.ts";
import { DataPoints } from "../../base/data-points.ts";
import { readSettings } from "../../base/settings.ts";
import { DirectoryCounts } from "./directory-counts.ts";
import { NamespaceList } from "./namespace-list.ts";

export class Directory extends Channel implements DirectoryCalls {
  /** The last hour, and all that no shard counts. */
  readonly #counts: DirectoryCounts;
  readonly #points: DataPoints;
  /** Of use in the Directory of the deployment alone. */
  readonly #namespaces: NamespaceList;

  constructor(ctx: DurableObjectState, env: Environment) {
    super(ctx, env);
    this.#namespaces = new NamespaceList(ctx.storage.sql);
    const { METRICS, HISTORY } = readSettings(env);
    const isKept = METRICS === "on" && HISTORY === "on";
    this.#counts = new DirectoryCounts(ctx, ctx.id.name!, isKept);
    this.#points = new DataPoints(
      env,
      (work) => ctx.waitUntil(work),
      { namespace: ctx.id.name!, kind: "door", name: "" },
      () => ({ tally: this.#counts.doorsSinceStart(presentMs()) }),
    );
  }

  /** A door lives for one request: what it has counted is kept here. */
  absorb(figures: TallyFigures): void {
    this.#counts.absorb(figures);
    this.#points.note();
  }

  /** The counts come with the leave, in one call: a Hub that is empty may never be started again. */
  async retire(...asked: Parameters<DirectoryCalls["retire"]>): Promise<void> {
    const [hub, figures, last = null] = asked;
    this.#counts.retire(hub, figures, last);
    await this.leave(hub);
  }

  async report(...asked: Parameters<DirectoryCalls["report"]>): Promise<void> {
    this.#counts.report(...asked);
  }

  async history(): Promise<HistoryMinute[]> {
    return this.#counts.minutes();
  }

  /** Calls no other object: the door asks the Hubs itself, all at once. */
  async survey(): Promise<DirectorySurvey> {
    const nowMs = presentMs();
    const doors = this.#counts.doorsSinceStart(nowMs);
    const figures = this.#counts.figures(nowMs);
    return { hubs: await this.hubs(), figures, doors, kept: this.#counts.hubs() };
  }

  registerNamespace(namespace: string): boolean {
    return this.#namespaces.add(namespace, presentMs());
  }

  namespacesPage(after: string | null, limit: number): ListedNamespace[] {
    return this.#namespaces.page(after, limit);
  }

  /** A group without names empties its storage, which the counts are in, too. */
  override async alarm(): Promise<void> {
    this.#counts.load();
    await super.alarm();
    this.#counts.writeIfGone();
  }

  /** Asks them again, as a connection may have been opened since. */
  async suspect(hubs: string[]): Promise<void> {
    await this.group!.joins.verify(hubs);
  }
}
