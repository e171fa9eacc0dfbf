/**
 * Joins of a group: which Hubs have subscribers of which channels. A join is a row, so that a restart knows them.
 *
 * Names come from strangers, so joins are bounded by bytes. A Hub that has died can't leave: it is dropped when it says,
 * the next time that it is asked, that it has no subscriber of the name.
 *
 * After a partition of the network an old copy of a Hub may go on for a while: its sockets end, and it leaves names that the
 * present one has subscribers of. So each life of a Hub has an ID, and a leave counts by itself only if that life alone has joined.
 * Otherwise the group asks, and it is the present Hub that answers.
 */
import { Courier, type CourierHost, type Join, type Member } from "./courier.ts";
import { blobOf, channelOfBlob, type GroupStore } from "./group-store.ts";
import { JOINED_BYTES_MAX } from "../../engine/sizes.ts";

/** What a join takes beside its name. */
const JOIN_OVERHEAD_BYTES = 128;

/** Of one group. All joins are in memory; the rows are only read at a start. */
export class GroupJoins {
  readonly #store: GroupStore;
  readonly #host: CourierHost;
  readonly #onEmpty: (channel: string) => void;
  /** By channel, as a binary string; no entry where there are no Hubs. */
  readonly #members = new Map<string, Member[]>();
  /** By name of the Hub: one way for the messages of all channels. */
  readonly #couriers = new Map<string, Courier>();
  /** Of names and joins: a bound on memory, as names are made up by callers. */
  #bytes = 0;

  /** @param onEmpty is called when the last Hub has left a name */
  constructor(
    store: GroupStore,
    host: Pick<CourierHost, "name" | "env" | "waitUntil">,
    onEmpty: (channel: string) => void,
  ) {
    this.#store = store;
    this.#onEmpty = onEmpty;
    this.#host = {
      ...host,
      onDenied: (channel, member) => {
        if (this.membersOf(channel)?.includes(member)) this.drop(channel, member.courier.hub);
      },
      onIdle: (courier) => this.#dismiss(courier),
    };
    const rows = store.rows<{ name: ArrayBuffer; hub: string }>("SELECT name, hub FROM joins");
    for (const { name, hub } of rows) this.#add(channelOfBlob(name), hub, null);
  }

  /** Names that have subscribers in some Hub. */
  get size(): number {
    return this.#members.size;
  }

  has(channel: string): boolean {
    return this.#members.has(channel);
  }

  membersOf(channel: string): readonly Member[] | undefined {
    return this.#members.get(channel);
  }

  /** Names of the Hubs that have subscribers of a channel. */
  hubsOf(channel: string): string[] {
    return (this.#members.get(channel) ?? []).map(({ courier }) => courier.hub);
  }

  /**
   * A Hub has a subscriber from now on. False when there is no room for it.
   *
   * @param life ID of the Hub's life; null from a release that sends none
   */
  join(channel: string, hub: string, life: string | null): boolean {
    // It was joined already: a Hub that was reset joins again, and knows nothing of before. No row is written for that.
    const member = this.#memberOf(channel, hub);
    if (member !== undefined) {
      member.joins++;
      if (member.life !== life) member.life = null;
      return true;
    }
    if (this.#bytes + joinBytes(channel) > JOINED_BYTES_MAX) return false;
    this.#store.write("INSERT OR IGNORE INTO joins VALUES (?, ?)", blobOf(channel), hub);
    this.#add(channel, hub, life);
    return true;
  }

  /** A life of a Hub has no subscriber any more. False when another one may have: then the Hub has to be asked. */
  leave(channel: string, hub: string, life: string | null): boolean {
    const member = this.#memberOf(channel, hub);
    if (member === undefined) return true;
    if (life === null || member.life !== life) return false;
    this.drop(channel, hub);
    return true;
  }

  /** Forgets that a Hub has subscribers. */
  drop(channel: string, hub: string): void {
    const members = this.#members.get(channel);
    const member = this.#memberOf(channel, hub);
    if (members === undefined || member === undefined) return;
    this.#store.write("DELETE FROM joins WHERE name = ? AND hub = ?", blobOf(channel), hub);
    this.#bytes -= joinBytes(channel);
    member.courier.names--;
    this.#dismiss(member.courier);
    members.splice(members.indexOf(member), 1);
    if (members.length > 0) return;
    this.#members.delete(channel);
    this.#onEmpty(channel);
  }

  /** Asks Hubs, all or some, about the names that they have joined, and drops what they deny. */
  async verify(hubs: readonly string[] = [...this.#couriers.keys()]): Promise<void> {
    const joined = new Map(hubs.map((hub): [string, Join[]] => [hub, []]));
    for (const [channel, members] of this.#members) {
      for (const member of members) joined.get(member.courier.hub)?.push({ channel, member });
    }
    await Promise.all(
      Array.from(joined, async ([hub, joins]) => await this.#couriers.get(hub)?.ask(joins)),
    );
  }

  /** Asks a Hub about some names, and drops those that it denies. */
  async verifyNames(hub: string, channels: readonly string[]): Promise<void> {
    const joins = channels.flatMap((channel): Join[] => {
      const member = this.#memberOf(channel, hub);
      return member === undefined ? [] : [{ channel, member }];
    });
    await this.#couriers.get(hub)?.ask(joins);
  }

  /** Forgets a courier that has nothing to do any more. */
  #dismiss(courier: Courier): void {
    if (courier.isDone) this.#couriers.delete(courier.hub);
  }

  /** Searched, not looked up: a channel has far fewer Hubs than subscribers. */
  #memberOf(channel: string, hub: string): Member | undefined {
    return this.#members.get(channel)?.find(({ courier }) => courier.hub === hub);
  }

  /** Adds a join that is on disk. */
  #add(channel: string, hub: string, life: string | null): void {
    let courier = this.#couriers.get(hub);
    if (courier === undefined) {
      courier = new Courier(this.#host, hub);
      this.#couriers.set(hub, courier);
    }
    courier.names++;
    const member: Member = { courier, joins: 0, life };
    const members = this.#members.get(channel);
    if (members === undefined) this.#members.set(channel, [member]);
    else members.push(member);
    this.#bytes += joinBytes(channel);
  }
}

/** What a join counts; more than it takes on disk, about what it takes in memory. */
function joinBytes(channel: string): number {
  return channel.length + JOIN_OVERHEAD_BYTES;
}
