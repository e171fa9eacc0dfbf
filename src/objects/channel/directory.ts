/**
 * Directory: the object of a namespace that knows which Hubs have connections.
 *
 * To be connected is to be subscribed to `*`, so it is the object of that channel, with two tasks more. It drops Hubs that
 * turn out to have no connections; and it keeps the counts of callers over HTTP, which have no Hub, and of Hubs that are
 * empty, which may never be started again. It keeps what shards report of themselves, and it keeps the list of revoked tokens, too. The Directory of the deployment lists
 * the namespaces, keeps the revoked tokens for all of them, and has no channel.
 */
import { aheadAfterRing } from "../../base/alarm-clock.ts";
import { presentMs } from "../../base/clock.ts";
import type { Environment } from "../../base/environment.ts";
import type { TallyFigures } from "../../engine/tally.ts";
import type { DirectoryCalls, DirectorySurvey, ListedNamespace } from "../../base/calls/channel.ts";
import type { ShardReport } from "../../base/calls/shard.ts";
import type { HistoryMinute } from "../../wire/history.ts";
import type { Revocations } from "../../engine/revocations.ts";
import { DEPLOYMENT } from "../../base/names.ts";
import { directoryStub, hubStub } from "../../base/stubs.ts";
import { logWarning } from "../../base/log.ts";
import { withTimeout } from "../../base/in-time.ts";
import { RevokedTokens, type Told } from "./revoked-tokens.ts";
import { Channel } from "./channel.ts";
import { DataPoints } from "../../base/data-points.ts";
import { readSettings } from "../../base/settings.ts";
import { DirectoryCounts } from "./directory-counts.ts";
import { NamespaceList } from "./namespace-list.ts";
import { ShardReports } from "./shard-reports.ts";
import { NAMESPACES_TOLD_AT_ONCE } from "../../engine/sizes.ts";

/** To end the connections of revoked tokens. */
const HUB_TIMEOUT_MS = 2000;
/** To have its Hubs do so. */
const DIRECTORY_TIMEOUT_MS = 5000;

export class Directory extends Channel implements DirectoryCalls {
  /** The last hour, and all that no shard counts. */
  readonly #counts: DirectoryCounts;
  readonly #shards: ShardReports;
  readonly #points: DataPoints;
  /** Of use in the Directory of the deployment alone. */
  readonly #namespaces: NamespaceList;
  readonly #revoked: RevokedTokens;
  /** By how much the platform's alarms are ahead of this object's clock, as far as rings have shown. */
  #aheadMs = 0;
  /** The alarm for what is to be told later; null where it was set for a change, and rings at once. */
  #later: { readonly setAtMs: number; readonly ringsAtMs: number } | null = null;

  constructor(ctx: DurableObjectState, env: Environment) {
    super(ctx, env);
    this.#namespaces = new NamespaceList(ctx.storage.sql);
    const { METRICS, HISTORY } = readSettings(env);
    const isKept = METRICS === "on" && HISTORY === "on";
    this.#counts = new DirectoryCounts(ctx, ctx.id.name!, isKept);
    this.#shards = new ShardReports(ctx, ctx.id.name!, isKept);
    this.#revoked = new RevokedTokens(ctx.storage, async (list, after, missed) =>
      this.group === null
        ? await this.#tellNamespaces(list, after, missed)
        : { after: null, missed: await this.#tellHubs(list) },
    );
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

  async report(...asked: Parameters<DirectoryCalls["report"]>): Promise<boolean> {
    const [object, report, counts, shard = null] = asked;
    this.#counts.report(object, report, counts);
    return shard !== null && this.#shards.note(shard);
  }

  async shardReports(isKept: boolean): Promise<ShardReport[]> {
    return this.#shards.list(isKept);
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

  async revokeToken(id: string, expiresAtMs: number | null): Promise<boolean> {
    this.#later = null;
    return await this.#revoked.revoke(id, expiresAtMs);
  }

  async revokeTokensBefore(issuedBeforeMs: number): Promise<void> {
    this.#later = null;
    await this.#revoked.revokeAllBefore(issuedBeforeMs);
  }

  revokedTokens(version: number): Revocations | null {
    const { list } = this.#revoked;
    return list.version === version ? null : list;
  }

  revocations(): Revocations {
    return this.#revoked.inForce();
  }

  async endConnections(list: Revocations): Promise<void> {
    const missed = await this.#tellHubs(list, DEPLOYMENT);
    if (missed.length > 0) throw new Error(`${missed[0]!} has not answered`);
  }

  /**
   * The daily look comes after the last telling, as it sets the alarm for the next day. A group without names empties its part
   * of the storage, and all of it where nothing else is there.
   */
  override async alarm(): Promise<void> {
    this.#noteRing();
    const nextMs = await this.#revoked.tellDue();
    if (nextMs !== null) {
      await this.#setAlarm(nextMs);
      return;
    }
    const isStored = (): boolean =>
      this.#revoked.isStored || this.#counts.isStored || this.#shards.isStored;
    await this.group?.lookThrough(isStored);
    // Tokens may have been revoked during the look, which has set the alarm for the next day since.
    const { dueAtMs } = this.#revoked;
    if (dueAtMs !== null) await this.#setAlarm(dueAtMs);
  }

  #noteRing(): void {
    if (this.#later === null) return;
    const { setAtMs, ringsAtMs } = this.#later;
    this.#aheadMs = aheadAfterRing(this.#aheadMs, setAtMs, ringsAtMs, presentMs());
    this.#later = null;
  }

  /** For a moment by this object's clock: an alarm that has passed for the platform would ring again and again until then. */
  async #setAlarm(atMs: number): Promise<void> {
    const setAtMs = presentMs();
    const isLater = atMs > setAtMs;
    const ringsAtMs = isLater ? atMs + this.#aheadMs : atMs;
    this.#later = isLater ? { setAtMs, ringsAtMs } : null;
    await this.ctx.storage.setAlarm(ringsAtMs);
  }

  /**
   * @param issuer `ns` of the tokens; missing for those of the namespace
   * @returns Hubs that have not answered
   */
  async #tellHubs(list: Revocations, issuer = this.ctx.id.name!): Promise<string[]> {
    const hubs = await this.hubs();
    return await this.#missedOf(hubs, async (hub) => {
      await withTimeout(hubStub(this.env, hub).endRevoked(issuer, list), HUB_TIMEOUT_MS);
    });
  }

  /** Tells the next namespaces, or those that were missed. Their Directories tell the Hubs. */
  async #tellNamespaces(
    list: Revocations,
    after: string | null,
    missed: readonly string[] | null,
  ): Promise<Told> {
    const page = (): string[] =>
      this.#namespaces.page(after, NAMESPACES_TOLD_AT_ONCE).map(({ name }) => name);
    const names = missed ?? page();
    const isLast = missed !== null || names.length < NAMESPACES_TOLD_AT_ONCE;
    const still = await this.#missedOf(names, async (name) => {
      await withTimeout(directoryStub(this.env, name).endConnections(list), DIRECTORY_TIMEOUT_MS);
    });
    return { after: isLast ? null : names.at(-1)!, missed: still };
  }

  /**
   * Asks all at once; returns those whose call has failed, such as objects of an earlier release: they know the call once they
   * are updated.
   */
  async #missedOf(
    names: readonly string[],
    ask: (name: string) => Promise<void>,
  ): Promise<string[]> {
    const asked = await Promise.allSettled(names.map(ask));
    return names.filter((name, i) => {
      const answer = asked[i]!;
      if (answer.status === "fulfilled") return false;
      const error = `${name}: ${String(answer.reason)}`;
      logWarning("revocation_untold", { directory: this.ctx.id.name!, error });
      return true;
    });
  }

  /** Asks them again, as a connection may have been opened since. */
  async suspect(hubs: string[]): Promise<void> {
    await this.group!.joins.verify(hubs);
  }
}
