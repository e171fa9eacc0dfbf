/**
 * Listings: each thing that stayed while it was listed is there exactly once, and none that was absent all the while. One rule
 * for LIST, SCAN, `/v1/records`, export, CHANNELS, CONNECTIONS, SEMAPHORES, Dump and HOLDERS, as docs/guarantees.md has it.
 */
import type { Durations } from "./durations.ts";
import type { Moment, Violation } from "./history.ts";
import { coversAll, lifetimesOf, meetsAny, type Change, type Lifetimes } from "./lifetimes.ts";
import { describeMoment } from "./order.ts";

/** A listing, of one page or many. */
export interface Listing {
  /** For messages: what was listed, and by which call. */
  readonly what: string;
  /** Its first page was asked for, and its last one was there. */
  readonly begun: Moment;
  readonly ended: Moment;
  /** False for one that broke off: what it lacks says nothing. */
  readonly isComplete: boolean;
  /** In the order in which they came. */
  readonly rows: readonly string[];
  /** Whether it is about a thing, by a prefix or a kind. */
  includes(key: string): boolean;
  /** A thing may come twice: in a Dump whose shard restarted. */
  mayRepeat?(key: string): boolean;
  /** A thing may be missing though it stayed: its Hub did not answer within 2 s. */
  mayLack?(key: string): boolean;
}

/** What there was while a listing lasted. */
export interface Presence {
  /** All things that were ever there. */
  readonly keys: Iterable<string>;
  isThroughout(key: string): boolean;
  isPossible(key: string): boolean;
}

const PROMISE = "Listings";
/** The first ones are named, the others counted. */
const SHOWN_KEYS = 5;

export function checkListing(listing: Listing, presence: Presence): Violation[] {
  const { what, begun, ended, isComplete, rows } = listing;
  const seen = new Set<string>();
  const repeated: string[] = [];
  const strange: string[] = [];
  const foreign: string[] = [];
  for (const key of rows) {
    if (!listing.includes(key)) foreign.push(key);
    if (seen.has(key)) {
      if (listing.mayRepeat?.(key) !== true) repeated.push(key);
      continue;
    }
    seen.add(key);
    if (!presence.isPossible(key)) strange.push(key);
  }
  const missing: string[] = [];
  if (isComplete) {
    for (const key of presence.keys) {
      if (seen.has(key) || !listing.includes(key)) continue;
      if (presence.isThroughout(key) && listing.mayLack?.(key) !== true) missing.push(key);
    }
  }
  const span = `from ${describeMoment(begun)} to ${describeMoment(ended)}`;
  const violations: Violation[] = [];
  const violate = (keys: readonly string[], fault: string): void => {
    if (keys.length === 0) return;
    const message = `${what}, ${span}: ${namesOf(keys)} ${fault}`;
    violations.push({ promise: PROMISE, subject: keys[0]!, message });
  };
  violate(missing, "there all the while, but not listed");
  violate(repeated, "listed more than once");
  violate(strange, "listed, but absent all the while");
  violate(foreign, "listed, but not what was asked for");
  return violations;
}

/** Things that come and go by calls, such as records. */
export class Things {
  readonly #changes = new Map<string, Change[]>();
  readonly #lifetimes = new Map<string, Lifetimes>();
  readonly #durationsOf: (key: string) => Durations;

  /** @param durationsOf by the time of the object that has a thing */
  constructor(durationsOf: (key: string) => Durations) {
    this.#durationsOf = durationsOf;
  }

  note(key: string, change: Change): void {
    const changes = this.#changes.get(key);
    if (changes === undefined) this.#changes.set(key, [change]);
    else changes.push(change);
    this.#lifetimes.delete(key);
  }

  /** What there was between two moments. */
  between(from: Moment, to: Moment): Presence {
    return {
      keys: this.#changes.keys(),
      isThroughout: (key) => coversAll(this.#lifetimesOf(key).sure, from, to),
      isPossible: (key) => meetsAny(this.#lifetimesOf(key).possible, from, to),
    };
  }

  #lifetimesOf(key: string): Lifetimes {
    let lifetimes = this.#lifetimes.get(key);
    if (lifetimes === undefined) {
      lifetimes = lifetimesOf(this.#changes.get(key) ?? [], this.#durationsOf(key));
      this.#lifetimes.set(key, lifetimes);
    }
    return lifetimes;
  }
}

function namesOf(keys: readonly string[]): string {
  const names = keys.slice(0, SHOWN_KEYS).map((key) => JSON.stringify(key));
  const more = keys.length > SHOWN_KEYS ? ` and ${keys.length - SHOWN_KEYS} more` : "";
  return `${names.join(", ")}${more} ${keys.length === 1 ? "was" : "were"}`;
}
