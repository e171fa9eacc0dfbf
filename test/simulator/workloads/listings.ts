/**
 * Clients list records, pairs, semaphores and leases in all ways, page by page, while others write, remove and let expire what is
 * listed. What a listing must have, and what it must not, follows from the calls of all of them.
 */
import { Keyspace } from "../../../src/wire/keyspace.ts";
import type { Plan } from "../campaign/plan.ts";
import { checkCollections } from "../checks/collections.ts";
import { History, isAnswered, type Violation } from "../checks/history.ts";
import type {
  Collection,
  Listed,
  ListedPage,
  ListingOperation,
  ListingOutcome,
} from "../checks/listing-calls.ts";
import type { RunningLife } from "../platform/running-life.ts";
import type { Workload, World } from "../world.ts";
import { pause, startClients, type Client } from "./client.ts";
import { giveUp } from "./give-up.ts";
import { Chooser, PREFIX, SEMAPHORES, Stock, type Change } from "./listings/choice.ts";
import { walksFor, type Means, type Page, type PageRequest, type Walk } from "./listings/walks.ts";
import { getJson, PortWay, portWay, wayOf, type Failed, type Way } from "./listings/ways.ts";
import { httpPort } from "./ports.ts";
import { bytesOf } from "./records/commands.ts";
import { shardsOf } from "./shards.ts";

type OwnHistory = History<ListingOperation, ListingOutcome>;

const LISTERS_SHARE = 0.4;
const MANY = { share: 0.3, least: 2, most: 150 };
/** Between two pages. */
const PAGE_PAUSE_SHARE = 0.3;
const PAGE_PAUSE_MS = { least: 1, most: 2000 };
/** The share of pages that another isolate, or another connection, asks for. */
const OTHER_WAY_SHARE = 0.3;
const LIMIT = { least: 1, most: 1000 };
const BYTES = { least: 1, most: 1 << 20 };
/** A longer listing is left unfinished, as people do. */
const PAGES_MOST = 60;
/** How often a page is asked for, if it fails. */
const TRIES_MAX = 3;
const REST_MS = 180_000;

const WALKS = walksFor((key) => key.startsWith(PREFIX));

export class Listings implements Workload {
  readonly name = "listings";
  readonly #plan: Plan;
  #history!: OwnHistory;
  #stock!: Stock;

  constructor(plan: Plan) {
    this.#plan = plan;
  }

  start(world: World): void {
    this.#history = new History(world.moments);
    this.#stock = new Stock(world.random.fork("stock of listings"));
    startClients(world, this.name, this.#plan, async (client) => {
      const { number, random } = client;
      const own = { ...client, history: this.#history };
      // One of each at least.
      const isLister = number === 1 || (number > 1 && random.chance(LISTERS_SHARE));
      if (isLister) await new Lister(own, this.#stock).work();
      else await new Writer(own, this.#stock).work();
    });
  }

  async finish(world: World, life: RunningLife): Promise<void> {
    await life.settled(REST_MS, "rest", () => {});
    const history = this.#history;
    for (const call of history.calls) {
      if (!isAnswered(call) && call.settled === null) history.settle(call);
    }
    const random = world.random.fork("finish of listings");
    const way = new PortWay(httpPort(world, life, random));
    const client = { world, life, random, number: -1, most: Infinity, history };
    const lister = new Lister(client, this.#stock, way);
    for (const walk of WALKS) {
      const listed = await lister.list(walk, { isWhole: true });
      if (!listed.isComplete) {
        throw new Error(`the last listing broke off with ${listed.brokenOff}`);
      }
    }
  }

  check(world: World): readonly Violation[] {
    const { release, workloads } = this.#plan;
    const { facts } = world.witness;
    const shardOf = shardsOf(this.#plan);
    const objectOf = (collection: Collection, key: string): string =>
      shardOf(...placeOf(collection, key));
    const isToday = release === "today";
    const isAlone = workloads.length === 1;
    const isOrdered =
      isToday && isAlone && keysOf(this.#history) <= world.sizes.ORDERED_RECORDS_MAX;
    return checkCollections(this.#history.calls, { facts, objectOf, isOrdered, isToday });
  }
}

/** How many keys there may be at most: a shard counts all that it has, whatever it is. */
function keysOf({ calls }: OwnHistory): number {
  const keys = new Set<string>();
  for (const { operation } of calls) {
    if ("key" in operation) keys.add(`${operation.collection} ${operation.key}`);
  }
  return keys.size + SEMAPHORES;
}

/** By which keyspace and key a row has its shard: a lease is in that of its semaphore. */
function placeOf(collection: Collection, key: string): [Keyspace, Uint8Array] {
  const slash = key.lastIndexOf("/");
  switch (collection) {
    case "records":
      return [Keyspace.throttr, bytesOf(key)];
    case "pairs": {
      const names = bytesOf(key.slice(0, slash) + key.slice(slash + 1));
      return [Keyspace.throttrPairs, Uint8Array.of(slash, key.length - slash - 1, ...names)];
    }
    case "semaphores":
      return [Keyspace.semaphores, bytesOf(key)];
    case "leases":
      return [Keyspace.semaphores, bytesOf(key.slice(0, slash))];
  }
}

/** A client, and the history of all of them. */
interface OwnClient extends Client {
  readonly history: OwnHistory;
}

/** Writes and removes, alone and many at once. */
class Writer {
  readonly #client: OwnClient;
  readonly #stock: Stock;
  readonly #way: Way;
  readonly #chooser: Chooser;

  constructor(client: OwnClient, stock: Stock) {
    const { world, life, random, number } = client;
    this.#client = client;
    this.#stock = stock;
    this.#way = wayOf(world, life, random);
    this.#chooser = new Chooser(random.fork("choice"), stock, number, () => world.time.nowMs);
  }

  async work(): Promise<void> {
    const { world, random, most } = this.#client;
    for (let made = 0; made < most && !world.isClosing;) {
      // There is much to list from the beginning on.
      if (made > 0) await pause(this.#client);
      const count = random.chance(MANY.share)
        ? Math.round(random.skewed(MANY.least, MANY.most))
        : 1;
      made += count;
      await this.#send(Array.from({ length: count }, () => this.#chooser.next()));
    }
    this.#way.close();
  }

  async #send(changes: readonly Change[]): Promise<void> {
    const { world, number, history } = this.#client;
    world.operations += changes.length;
    const { door } = this.#way;
    const calls = changes.map(({ operation }) =>
      history.begin({ client: number, door, connection: null, operation }),
    );
    const answers = await this.#way.call(changes.map(({ call }) => call));
    for (const [i, change] of changes.entries()) {
      const [call, answer] = [calls[i]!, answers[i]!];
      if ("result" in answer) history.end(call, change.outcomeOf(answer.result));
      else if (answer.failed === "refused") history.end(call, "refused");
      else {
        giveUp(world, history, call);
        const { operation } = change;
        if (operation.type === "remove all") this.#stock.leave(operation.prefix);
      }
    }
  }
}

/** Lists, page by page. */
class Lister {
  readonly #client: OwnClient;
  readonly #stock: Stock;
  readonly #ways: readonly Way[];
  readonly #means: Means;
  #made = 0;

  /** @param only the one that it uses; otherwise it uses several, also for one listing */
  constructor(client: OwnClient, stock: Stock, only: PortWay | null = null) {
    const { world, life, random } = client;
    this.#client = client;
    this.#stock = stock;
    const port = only ?? portWay(world, life, random);
    this.#ways = only === null ? [port, wayOf(world, life, random)] : [only];
    let way = random.pick(this.#ways);
    this.#means = {
      port,
      way: () => (random.chance(OTHER_WAY_SHARE) ? (way = random.pick(this.#ways)) : way),
      getJson: async (path) => await getJson({ world, life, random, path, kind: "listings" }),
    };
  }

  async work(): Promise<void> {
    const { world, random, most } = this.#client;
    while (this.#made < most && !world.isClosing) {
      await pause(this.#client);
      await this.list(random.pick(WALKS), { isWhole: false });
    }
    for (const way of this.#ways) way.close();
  }

  /** @param isWhole to the end, and of everything */
  async list(walk: Walk, { isWhole }: { readonly isWhole: boolean }): Promise<Listed> {
    const { random, number, history } = this.#client;
    const { by, collection } = walk;
    const prefix = this.#prefixFor(walk, isWhole);
    const operation = { type: "list", collection, prefix, by } as const;
    const { door } = this.#ways[0]!;
    const call = history.begin({ client: number, door, connection: null, operation });
    const listed = await this.#pages(walk, {
      prefix: walk.hasPrefix ? prefix : "",
      limit: isWhole ? LIMIT.most : Math.round(random.skewed(LIMIT.least, LIMIT.most)),
      bytesMax: isWhole ? BYTES.most : Math.round(random.skewed(BYTES.least, BYTES.most)),
      pagesMax: isWhole ? Infinity : PAGES_MOST,
    });
    history.end(call, listed);
    return listed;
  }

  #prefixFor({ by, hasPrefix }: Walk, isWhole: boolean): string {
    const { random } = this.#client;
    if (by === "HOLDERS") return `${this.#stock.semaphore(random)}/`;
    // A prefix of names is one of the keys of leases, too, as these begin with the name.
    if (by === "EXPORT_LEASES") {
      return isWhole || random.chance(0.5) ? PREFIX : this.#stock.semaphore(random);
    }
    return isWhole || !hasPrefix || random.chance(0.5) ? PREFIX : this.#stock.prefix(random);
  }

  async #pages(
    walk: Walk,
    asked: {
      readonly prefix: string;
      readonly limit: number;
      readonly bytesMax: number;
      readonly pagesMax: number;
    },
  ): Promise<Listed> {
    const { life, random } = this.#client;
    const pages: ListedPage[] = [];
    for (let cursor: unknown = null; pages.length < asked.pagesMax;) {
      const page = await this.#page(walk, { ...asked, cursor });
      if ("failed" in page) return { pages, isComplete: false, brokenOff: page.code };
      pages.push(page);
      if (page.next === null) return { pages, isComplete: true, brokenOff: null };
      cursor = page.next;
      if (random.chance(PAGE_PAUSE_SHARE)) {
        const ms = random.skewed(PAGE_PAUSE_MS.least, PAGE_PAUSE_MS.most);
        await life.settled(ms, "pause", () => {});
      }
    }
    return { pages, isComplete: false, brokenOff: null };
  }

  /** A read may be repeated. */
  async #page(walk: Walk, request: PageRequest): Promise<Page | Failed> {
    for (let tries = 1; ; tries++) {
      this.#made++;
      this.#client.world.operations++;
      const page = await walk.page(this.#means, request);
      if (!("failed" in page) || tries === TRIES_MAX || page.code === "cursor_lost") return page;
    }
  }
}
