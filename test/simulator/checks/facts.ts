/** What checkers know of a run beside the calls of its clients: connections, the lives of objects, their clocks. */
import { ClockHistory } from "./clocks.ts";
import type { Call, Moment } from "./history.ts";
import { earlier, isBefore, NEVER } from "./order.ts";

/** How a connection ended. */
export interface Ending {
  /** When its end began: it was closed or cut, or its Hub was reset, whichever came first. */
  readonly begun: Moment;
  /** When the server can't have taken it for alive any more; null when that is not known. */
  ended: Moment | null;
}

/** One connection of a client. */
export interface Connection {
  /** As in `Call.connection`. */
  readonly number: number;
  /** 32 hex digits: its own channel. */
  readonly id: string;
  /** The object that it lives in. */
  readonly hub: string;
  readonly begun: Moment;
  /** Null when its client never learned that it was open. */
  readonly opened: Moment | null;
  ending: Ending | null;
  /** Since when it lives in a second copy of its Hub, which the present one does not know of; null for other connections. */
  readonly partedAt?: Moment | null;
}

/** One instance of an object, from its constructor to its end. */
export interface LifeSpan {
  readonly begun: Moment;
  /** Null for the one that runs when the run ends. */
  readonly ended: Moment | null;
  /** It ended with a reset, which loses what is in memory alone; false for one that was evicted, or that still runs. */
  readonly isReset: boolean;
}

/** A second copy of an object answered reads: those that overlap this may be as old as its beginning. */
export interface StaleSpan {
  readonly object: string;
  readonly asOf: Moment;
  readonly until: Moment;
}

/** A call of an object. */
export interface ObjectCall {
  readonly object: string;
  readonly method: string;
  readonly parameters: readonly unknown[];
  /** The object that called, or the door, and which of its lives: the first is 1. */
  readonly caller: string;
  readonly callerLife: number;
  readonly begun: Moment;
  /** The object has taken it; null where it never came. */
  taken: Moment | null;
  /** It was a second copy of the object that took it. */
  isTakenByCopy: boolean;
  /** The caller had an answer, or an error; NEVER while it has neither. */
  answered: Moment;
  hasFailed: boolean;
}

/** A line of the log, by which an object says that messages were lost to a Hub. */
interface Loss {
  readonly hub: string;
  readonly at: Moment;
}

export class Facts {
  readonly connections = new Map<number, Connection>();
  readonly clocks: ClockHistory;
  readonly #lives = new Map<string, LifeSpan[]>();
  readonly #stale: StaleSpan[] = [];
  readonly #members = new Map<string, string[]>();
  readonly #calls = new Map<string, ObjectCall[]>();
  readonly losses: Loss[] = [];
  /** Shards that have refused records, as they had no room. */
  readonly full = new Set<string>();

  constructor(clocks = new ClockHistory()) {
    this.clocks = clocks;
  }

  addConnection(connection: Connection): void {
    this.connections.set(connection.number, connection);
  }

  /** In the order of time for each object. */
  addLife(object: string, life: LifeSpan): void {
    const lives = this.#lives.get(object);
    if (lives === undefined) this.#lives.set(object, [life]);
    else lives.push(life);
  }

  addStale(span: StaleSpan): void {
    this.#stale.push(span);
  }

  /** In the order of time for each object. */
  addCall(call: ObjectCall): void {
    const calls = this.#calls.get(call.object);
    if (calls === undefined) this.#calls.set(call.object, [call]);
    else calls.push(call);
  }

  /** Calls of an object that were noted: those of Hubs and of groups of channels. */
  callsOf(object: string): readonly ObjectCall[] {
    return this.#calls.get(object) ?? [];
  }

  /** An object did a part of the work of another one: what befell it counts for both. */
  addMember(object: string, member: string): void {
    const members = this.#members.get(object);
    if (members === undefined) this.#members.set(object, [object, member]);
    else members.push(member);
    this.clocks.addMember(object, member);
  }

  /** The object, and those that did a part of its work. */
  membersOf(object: string): readonly string[] {
    return this.#members.get(object) ?? [object];
  }

  /** The shard, or one of those that it has split into, had no room at some time. */
  wasFull(object: string): boolean {
    return this.membersOf(object).some((member) => this.full.has(member));
  }

  livesOf(object: string): readonly LifeSpan[] {
    return this.membersOf(object).flatMap((member) => this.#lives.get(member) ?? []);
  }

  /** Lives of the object that overlap the time between two moments. */
  livesBetween(object: string, from: Moment, to: Moment): readonly LifeSpan[] {
    return this.livesOf(object).filter(
      ({ begun, ended }) => isBefore(begun, to) && (ended === null || isBefore(from, ended)),
    );
  }

  /** The object was reset between two moments. */
  wasReset(object: string, from: Moment, to: Moment): boolean {
    return this.livesOf(object).some(
      ({ ended, isReset }) => isReset && isBefore(from, ended!) && isBefore(ended!, to),
    );
  }

  /** A life of the object ended or began between two moments. */
  wasAway(object: string, from: Moment, to: Moment): boolean {
    return this.livesOf(object).some(
      ({ begun, ended }) =>
        (isBefore(from, begun) && isBefore(begun, to)) ||
        (ended !== null && isBefore(from, ended) && isBefore(ended, to)),
    );
  }

  /** The moment that an answer of an object to a call since `from` may be as old as. */
  staleSince(object: string, from: Moment, to: Moment): Moment {
    let since = from;
    const members = this.membersOf(object);
    for (const span of this.#stale) {
      if (!members.includes(span.object)) continue;
      if (isBefore(span.asOf, to) && isBefore(from, span.until)) since = earlier(since, span.asOf);
    }
    return since;
  }

  /** A second copy of the object took calls between two moments. */
  hadCopy(object: string, from: Moment, to: Moment): boolean {
    const members = this.membersOf(object);
    return this.#stale.some(
      (span) =>
        members.includes(span.object) && isBefore(span.asOf, to) && isBefore(from, span.until),
    );
  }
}

/** The last moment at which a call can have been applied. */
export function appliedBy({ ended, outcome, settled }: Call<unknown, unknown>): Moment {
  if (outcome === "unknown") return settled ?? NEVER;
  return ended ?? NEVER;
}
