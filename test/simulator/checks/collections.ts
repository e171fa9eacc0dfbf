/**
 * Collections of a namespace as listings showed them, against the calls that changed them: see `checkListing` for what must be
 * in a listing. Beside that, each row shows what some call wrote, and rows are in the order that is promised for them.
 */
import { Phase, phaseOf } from "../../../src/wire/edge/codes.ts";
import { Durations } from "./durations.ts";
import { appliedBy, type Facts } from "./facts.ts";
import { describeCall, isAnswered, type Moment, type Violation } from "./history.ts";
import { lifetimesOf, meetsAny, type Change, type PossibleInterval } from "./lifetimes.ts";
import { checkListing, Things, type Presence } from "./listings.ts";
import type {
  Collection,
  Content,
  Listed,
  ListedRow,
  ListingCall,
  ListingOperation,
} from "./listing-calls.ts";

export interface CollectionTerms {
  readonly facts: Facts;
  /** The object that has a key of a collection. */
  objectOf(collection: Collection, key: string): string;
  /** Every shard always has few enough records to list them in the order of their keys. */
  readonly isOrdered: boolean;
  /** Whether all objects run today's code: that of the release before refuses cursors of today's. */
  readonly isToday: boolean;
}

/** A call that may have left a key present, with what it then held. */
interface Write {
  readonly change: Change;
  readonly content: Content | null;
}

type ListOperation = Extract<ListingOperation, { type: "list" }>;

const PROMISE = "Listings";
const COLLECTIONS: readonly Collection[] = ["records", "pairs", "semaphores", "leases"];
/** A cursor of SCAN that is longer is a place in the order of a table, and not a key. */
const KEY_BYTES_MAX = 255;

export function checkCollections(
  calls: readonly ListingCall[],
  terms: CollectionTerms,
): Violation[] {
  const contents = new Map(COLLECTIONS.map((name) => [name, new Contents(name, terms)]));
  for (const call of calls) noteCall(call, contents, terms);
  return calls.flatMap((call) => {
    const { operation, outcome } = call;
    if (operation.type !== "list" || !isAnswered(call)) return [];
    const checked = new ListedCheck(call, operation, outcome as Listed, terms);
    return checked.check(contents.get(operation.collection)!);
  });
}

/** Calls of all collections: a lease makes its semaphore, and removing all of a prefix removes each of its records. */
function noteCall(
  call: ListingCall,
  contents: ReadonlyMap<Collection, Contents>,
  { isToday }: CollectionTerms,
): void {
  const { operation, outcome } = call;
  if (operation.type === "list" || outcome === "refused" || outcome === "present") return;
  const window = { from: call.begun, to: appliedBy(call), certainty: certaintyOf(call) } as const;
  if (operation.type === "remove all") {
    const change = { ...window, leaves: "absent", mayFindNothing: true } as const;
    contents.get("records")!.removeAll(operation.prefix, change);
    return;
  }
  const { collection, key } = operation;
  const own = contents.get(collection)!;
  const semaphores = collection === "leases" ? contents.get("semaphores")! : null;
  const semaphore = key.slice(0, key.lastIndexOf("/"));
  if (operation.type === "remove") {
    own.note(key, { ...window, leaves: "absent" }, null);
    // It stays in the list for up to a day, but is promised there no longer.
    semaphores?.note(semaphore, { ...window, leaves: "absent", certainty: "open" }, null);
    return;
  }
  const { ttlMs, content } = operation;
  const written = { ...window, leaves: "present" } as const;
  // HOLDERS of release 0.4.0 shows a lease that has ended until another request ends it.
  const mayOutlive = collection === "leases" && !isToday;
  const livesMs = { fromMs: ttlMs, toMs: mayOutlive ? Infinity : ttlMs };
  own.note(key, { ...written, livesMs }, content);
  semaphores?.note(semaphore, { ...written, livesMs: { fromMs: ttlMs, toMs: Infinity } }, null);
}

function certaintyOf({ outcome }: ListingCall): Change["certainty"] {
  if (outcome === "unknown") return "open";
  return outcome === "absent" ? "seen" : "done";
}

/** What there was of a collection, and what its keys held. */
class Contents {
  readonly #name: Collection;
  readonly #terms: CollectionTerms;
  readonly #things: Things;
  readonly #changes = new Map<string, Write[]>();
  /** Of all keys that a prefix begins, also those that come later. */
  readonly #removals: { readonly prefix: string; readonly change: Change }[] = [];
  readonly #heldBy = new Map<Write, readonly PossibleInterval[]>();
  readonly #objects = new Map<string, string>();

  constructor(name: Collection, terms: CollectionTerms) {
    this.#name = name;
    this.#terms = terms;
    this.#things = new Things((key) => this.#durationsOf(key));
  }

  note(key: string, change: Change, content: Content | null): void {
    let changes = this.#changes.get(key);
    if (changes === undefined) {
      this.#changes.set(key, (changes = []));
      for (const removal of this.#removals) {
        if (key.startsWith(removal.prefix)) this.note(key, removal.change, null);
      }
    }
    changes.push({ change, content });
    this.#things.note(key, change);
  }

  removeAll(prefix: string, change: Change): void {
    this.#removals.push({ prefix, change });
    for (const key of this.#changes.keys()) {
      if (key.startsWith(prefix)) this.note(key, change, null);
    }
  }

  /** What there was while a call listed it. An object that is cut off from the others answers as of then. */
  during(begun: Moment, ended: Moment): Presence {
    const { keys } = this.#things.between(begun, ended);
    const presenceOf = (key: string): Presence =>
      this.#things.between(this.#since(key, begun, ended), ended);
    return {
      keys,
      isThroughout: (key) => presenceOf(key).isThroughout(key),
      isPossible: (key) => presenceOf(key).isPossible(key),
    };
  }

  /** Whether a key may have held what a row shows. */
  mayHold(row: ListedRow, begun: Moment, ended: Moment): boolean {
    const changes = this.#changes.get(row.key) ?? [];
    const since = this.#since(row.key, begun, ended);
    return changes.some(
      (write) =>
        write.content !== null &&
        shows(row, write.content) &&
        meetsAny(this.#heldFrom(row.key, write, changes), since, ended),
    );
  }

  /** When a key may have held what a call wrote: until another wrote or removed it. */
  #heldFrom(key: string, write: Write, changes: readonly Write[]): readonly PossibleInterval[] {
    let held = this.#heldBy.get(write);
    if (held === undefined) {
      const others = changes.filter((other) => other !== write);
      const ends = others.map(({ change }): Change => ({ ...change, leaves: "absent" }));
      held = lifetimesOf([write.change, ...ends], this.#durationsOf(key)).possible;
      this.#heldBy.set(write, held);
    }
    return held;
  }

  #since(key: string, begun: Moment, ended: Moment): Moment {
    return this.#terms.facts.staleSince(this.#objectOf(key), begun, ended);
  }

  #objectOf(key: string): string {
    let object = this.#objects.get(key);
    if (object === undefined) {
      object = this.#terms.objectOf(this.#name, key);
      this.#objects.set(key, object);
    }
    return object;
  }

  #durationsOf(key: string): Durations {
    return new Durations(this.#terms.facts.clocks, this.#objectOf(key));
  }
}

function shows({ kind, quota, bytes, value }: ListedRow, content: Content): boolean {
  if (kind !== undefined && kind !== content.kind) return false;
  if (content.kind === "counter") return quota === undefined || quota === content.quota;
  if (bytes !== undefined && bytes !== content.value.length) return false;
  return value === undefined || value === content.value;
}

/** One listing. */
class ListedCheck {
  readonly #call: ListingCall;
  readonly #operation: ListOperation;
  readonly #listed: Listed;
  readonly #terms: CollectionTerms;
  readonly #violations: Violation[] = [];

  constructor(call: ListingCall, operation: ListOperation, listed: Listed, terms: CollectionTerms) {
    this.#call = call;
    this.#operation = operation;
    this.#listed = listed;
    this.#terms = terms;
  }

  check(contents: Contents): Violation[] {
    const { begun } = this.#call;
    const ended = this.#call.ended!;
    const { prefix } = this.#operation;
    const rows = this.#listed.pages.flatMap((page) => page.rows);
    const listing = {
      what: this.#what,
      begun,
      ended,
      isComplete: this.#listed.isComplete,
      rows: rows.map(({ key }) => key),
      includes: (key: string) => key.startsWith(prefix),
    };
    const presence = contents.during(begun, ended);
    this.#violations.push(...checkListing(listing, presence));
    if (this.#operation.collection === "records" || this.#operation.collection === "pairs") {
      const strange = rows.find(
        (row) => presence.isPossible(row.key) && !contents.mayHold(row, begun, ended),
      );
      if (strange !== undefined) this.#violate(strange.key, `${textOf(strange)} was not written`);
    }
    this.#checkOrder();
    this.#checkPages();
    return this.#violations;
  }

  get #what(): string {
    return `${describeCall(this.#call)}: ${this.#operation.by} of ${JSON.stringify(this.#operation.prefix)}`;
  }

  #violate(key: string, fault: string): void {
    this.#violations.push({ promise: PROMISE, subject: key, message: `${this.#what}: ${fault}` });
  }

  /** Names of all pages are in order where that is promised; those of an export within each shard. */
  #checkOrder(): void {
    const { pages } = this.#listed;
    switch (this.#operation.by) {
      case "SEMAPHORES":
      case "HOLDERS":
        return this.#checkSorted(pages.flatMap(({ rows }) => rows));
      case "EXPORT":
      case "EXPORT_LEASES":
        return this.#checkByShard(pages.flatMap(({ rows }) => rows));
      case "LIST":
      case "STATS":
        if (this.#terms.isOrdered) this.#checkSorted(pages.flatMap(({ rows }) => rows));
        return;
      case "SCAN":
      case "/v1/records":
        return this.#checkScan();
    }
  }

  /** A page whose cursor is a key is in the order of keys; and so is every page while all shards have few records. */
  #checkScan(): void {
    const { pages } = this.#listed;
    for (const { rows, cursor } of pages) {
      const isKey = cursor !== null && cursor.length <= KEY_BYTES_MAX;
      if (isKey || (this.#terms.isOrdered && cursor === null)) this.#checkSorted(rows);
      if (this.#terms.isOrdered && cursor !== null && !isKey) {
        this.#violate(
          "order",
          "its cursor follows the order of a table, though every shard has few enough records for the order of keys",
        );
      }
    }
  }

  #checkSorted(rows: readonly ListedRow[]): void {
    const { collection } = this.#operation;
    const isById = this.#operation.by === "EXPORT_LEASES";
    const stored = rows.map(({ key }) => {
      if (isById) return leaseById(key);
      return collection === "pairs" ? storedPair(key) : key;
    });
    const wrong = rows.find((_, i) => i > 0 && stored[i]! < stored[i - 1]!);
    if (wrong === undefined) return;
    this.#violate(wrong.key, `${JSON.stringify(wrong.key)} is not in the order of the keys`);
  }

  #checkByShard(rows: readonly ListedRow[]): void {
    const { collection } = this.#operation;
    const byShard = Map.groupBy(rows, ({ key }) => this.#terms.objectOf(collection, key));
    for (const own of byShard.values()) this.#checkSorted(own);
    const shards = rows.map(({ key }) => this.#terms.objectOf(collection, key));
    const turns = shards.filter((shard, i) => shard !== shards[i - 1]).length;
    if (turns > byShard.size) this.#violate("order", "a shard is in it in two places");
  }

  #checkPages(): void {
    if (!this.#terms.isToday) return;
    for (const { fault } of this.#listed.pages) {
      if (fault !== null) this.#violate("page", fault);
    }
    const { brokenOff } = this.#listed;
    if (brokenOff === null) return;
    if (phaseOf(brokenOff) === Phase.argument) {
      this.#violate(
        "page",
        `was refused with ${brokenOff}, though its cursor was one of the server`,
      );
    }
    const cursor = this.#listed.pages.at(-1)?.cursor ?? null;
    const isKey = cursor === null || cursor.length <= KEY_BYTES_MAX;
    if (brokenOff === "cursor_lost" && isKey) {
      this.#violate("page", "was refused with cursor_lost, though its cursor was a key");
    }
  }
}

/** As it is stored and ordered: the sizes of its two names are in front of them. */
function storedPair(key: string): string {
  const at = key.indexOf("/");
  const sizes = String.fromCharCode(at, key.length - at - 1);
  return sizes + key.slice(0, at) + key.slice(at + 1);
}

/** A lease as exports order it: by its ID, and then by the name of its semaphore. */
function leaseById(key: string): string {
  const at = key.lastIndexOf("/");
  return key.slice(at + 1) + key.slice(0, at);
}

const textOf = (row: ListedRow): string =>
  JSON.stringify(row, (_, value: unknown) => (typeof value === "bigint" ? `${value}` : value));
