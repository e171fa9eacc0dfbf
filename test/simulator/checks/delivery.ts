/**
 * How messages came to Hubs, and what that excuses. A call to a Hub that fails, a second copy of the Hub or of the channel's group,
 * and a Hub that takes messages too slowly: then a message may be late, or lost to the Hub. As docs/guarantees.md has it.
 */
import type { Carriage, ChannelRun, Publication } from "./channel-calls.ts";
import type { Connection, Facts } from "./facts.ts";
import type { Moment } from "./history.ts";
import { isBefore, later, NEVER } from "./order.ts";

/** A publisher waits so long for a Hub, in ms. */
const HUB_TIMEOUT_MS = 2000;

export class Delivery {
  readonly #facts: Facts;
  /** Null where nothing goes wrong: each message comes while its publisher waits. */
  readonly #run: ChannelRun | null;
  /** By Hub and message. */
  readonly #carriages = new Map<string, Map<number, Carriage[]>>();
  /** By Hub and who called it, in the order of time. */
  readonly #ways = new Map<string, Carriage[]>();
  /** What `#busySince` has found: each connection that listens asks for the same. */
  readonly #since = new Map<Carriage, number>();

  constructor(facts: Facts, run: ChannelRun | null) {
    this.#facts = facts;
    this.#run = run;
    for (const carriage of run?.carriages ?? []) {
      const { call, message } = carriage;
      let ofHub = this.#carriages.get(call.object);
      if (ofHub === undefined) this.#carriages.set(call.object, (ofHub = new Map()));
      const ofMessage = ofHub.get(message);
      if (ofMessage === undefined) ofHub.set(message, [carriage]);
      else ofMessage.push(carriage);
      const way = this.#ways.get(wayOf(carriage));
      if (way === undefined) this.#ways.set(wayOf(carriage), [carriage]);
      else way.push(carriage);
    }
  }

  /** When the Hub of a connection had a message at the latest: it may come when its publisher has its answer already. */
  arrived(connection: Connection, publication: Publication): Moment {
    const ended = publication.ended ?? NEVER;
    return this.#carriagesOf(connection, publication).reduce(
      (last, { call: { taken } }) => (taken === null ? last : later(last, taken)),
      ended,
    );
  }

  /** The publisher may have been answered without the Hub of a connection, whose deliveries it does not count then. */
  wasLeftOut(connection: Connection, publication: Publication): boolean {
    const { begun, ended } = publication;
    const carriages = this.#carriagesOf(connection, publication);
    return carriages.some((carriage) => {
      const { hasFailed, answered } = carriage.call;
      const sinceMs = Math.min(begun.ms, this.#busySince(carriage));
      const isSlow = answered.ms - sinceMs >= HUB_TIMEOUT_MS;
      return hasFailed || isSlow || isBefore(ended ?? NEVER, answered);
    });
  }

  /** The publisher was answered while a call with its message was under way to a Hub that was not slow. */
  wasAnsweredEarly(connection: Connection, publication: Publication): boolean {
    const { begun, ended } = publication;
    if (ended === null || ended.ms - begun.ms >= HUB_TIMEOUT_MS) return false;
    return this.#carriagesOf(connection, publication).some(
      (carriage) =>
        isBefore(ended, carriage.call.answered) &&
        ended.ms - this.#busySince(carriage) < HUB_TIMEOUT_MS,
    );
  }

  /** A message may be lost to a connection. */
  mayMiss(connection: Connection, publication: Publication): boolean {
    if (this.#mayBeWithCopy(connection, publication)) return true;
    const carriages = this.#carriagesOf(connection, publication);
    if (carriages.some(({ call }) => call.hasFailed || call.isTakenByCopy)) return true;
    if (carriages.some(({ call }) => call.taken !== null)) return false;
    // It was not sent there, or the call has never left.
    const { begun, ended, outcome, operation } = publication;
    if (this.#run === null) return false;
    if (outcome === "unknown") return true;
    const until = ended ?? NEVER;
    const isWithin = (at: Moment): boolean => isBefore(begun, at) && isBefore(at, until);
    const { id, hub } = connection;
    if (this.#facts.losses.some((loss) => loss.hub === hub && isWithin(loss.at))) return true;
    if (operation.channel === id) return this.#wasLostWithDoor(publication);
    const group = this.#run.rules.groupOf(operation.channel);
    if (this.#facts.hadCopy(group, begun, until)) return true;
    // It waited for the Hub in the memory of its group, which was reset.
    return this.#wasSlow(group, hub, publication) && this.#facts.wasReset(group, begun, NEVER);
  }

  /**
   * Its Hub had a second copy while it was opened: one of the two has it, and messages may come to the other. Or it had one since,
   * and the connection has stayed with the older one.
   */
  #mayBeWithCopy(
    { hub, begun, opened, partedAt = null }: Connection,
    { ended }: Publication,
  ): boolean {
    if (this.#facts.hadCopy(hub, begun, opened ?? NEVER)) return true;
    return partedAt !== null && isBefore(partedAt, ended ?? NEVER);
  }

  /**
   * A message came behind a later one of its publisher, and may: the group had it under way when it was reset, or got a second
   * copy; or it went to an own channel by a request over HTTP, which was over before the Hub took it.
   */
  mayBeOvertaken(connection: Connection, late: Publication, overtaking: Publication): boolean {
    const before = this.#carriagesOf(connection, late);
    if (late.connection === null && late.operation.channel === connection.id) {
      const over = late.ended ?? late.begun;
      if (before.some(({ call: { taken } }) => taken !== null && isBefore(over, taken)))
        return true;
    }
    const after = this.#carriagesOf(connection, overtaking);
    return before.some(({ call: old }) =>
      after.some(({ call }) => old.caller === call.caller && old.callerLife < call.callerLife),
    );
  }

  /** A message to an own channel waited for its Hub in the memory of its publisher's Hub, or of the door, which was reset. */
  #wasLostWithDoor({ begun, ended, connection }: Publication): boolean {
    if (ended !== null && ended.ms - begun.ms < HUB_TIMEOUT_MS) return false;
    const hub = connection === null ? undefined : this.#facts.connections.get(connection)?.hub;
    return hub === undefined || this.#facts.wasReset(hub, begun, NEVER);
  }

  /** A publication may have been answered while its message waited for the Hub. */
  #wasSlow(group: string, hub: string, { begun, ended }: Publication): boolean {
    if (ended === null || ended.ms - begun.ms >= HUB_TIMEOUT_MS) return true;
    const under = (this.#ways.get(`${group} ${hub}`) ?? []).filter(
      ({ call }) => isBefore(call.begun, ended) && isBefore(begun, call.answered),
    );
    return under.some((carriage) => ended.ms - this.#busySince(carriage) >= HUB_TIMEOUT_MS);
  }

  /** Since when one call to the Hub has followed the other, as ms. */
  #busySince(carriage: Carriage): number {
    let sinceMs = this.#since.get(carriage);
    if (sinceMs === undefined) this.#since.set(carriage, (sinceMs = this.#findBusySince(carriage)));
    return sinceMs;
  }

  #findBusySince(carriage: Carriage): number {
    const way = this.#ways.get(wayOf(carriage))!;
    let sinceMs = carriage.call.begun.ms;
    for (let i = way.indexOf(carriage) - 1; i >= 0; i--) {
      const { begun, answered, callerLife } = way[i]!.call;
      // An older life has calls of its own under way.
      if (callerLife !== carriage.call.callerLife) continue;
      if (answered.ms < sinceMs) break;
      sinceMs = Math.min(sinceMs, begun.ms);
    }
    return sinceMs;
  }

  /** Calls with a message by which a connection may have got it: its own channel has a way of its own. */
  #carriagesOf({ id, hub }: Connection, { operation }: Publication): readonly Carriage[] {
    const all = this.#carriages.get(hub)?.get(operation.message) ?? NONE;
    const isOwner = operation.channel === id;
    return all.filter(({ call }) => OWNER_CALLS.includes(call.method) === isOwner);
  }
}

/** What takes messages to the connections whose own channels they were published to. */
const OWNER_CALLS: readonly string[] = ["deliverToOwners", "deliverToOwner"];
const NONE: readonly Carriage[] = [];

const wayOf = ({ call: { caller, object } }: Carriage): string => `${caller} ${object}`;
