/**
 * What calls on one semaphore were answered, against what its holders may have held. Calls that overlap may have been applied in any
 * order, so the check knows for each moment the least and the most that may have been in use: an answer contradicts the promise
 * where no moment of its call allows it.
 */
import { Bounds } from "./bounds.ts";
import { Durations } from "./durations.ts";
import { describeCall, isAnswered, spanOf, type Moment, type Violation } from "./history.ts";
import {
  endOfHolding,
  holdByConnection,
  holdByLease,
  type AppliedRequest,
  type Holder,
  type LeaseHolder,
} from "./holdings.ts";
import { coversAll, meetsAny } from "./lifetimes.ts";
import { checkListing, type Listing } from "./listings.ts";
import { describeMoment, isBefore } from "./order.ts";
import type { HolderRow, SemaphoreCall, SemaphoreRules } from "./semaphore-calls.ts";
import { appliedBy, type Facts } from "./facts.ts";

export const SEMAPHORES = "Semaphores";

const SHOWN_HOLDERS = 8;
const CLOCK_ROUNDING_MS = 8;

/** A grant, and what was in use for sure right after it. */
interface Grant {
  readonly call: SemaphoreCall;
  readonly ended: Moment;
  readonly least: number;
}

/** One semaphore. Its calls are in the order in which they began; those of a connection in which they were sent. */
export class SemaphoreCheck {
  readonly #name: string;
  readonly #shard: string;
  readonly #facts: Facts;
  readonly #rules: SemaphoreRules;
  readonly #calls: readonly SemaphoreCall[];
  readonly #holders: Holder[] = [];
  /** By the connection's or lease's own ID. */
  readonly #byId = new Map<string, Holder>();
  readonly #requests: AppliedRequest[] = [];
  readonly #leases: LeaseHolder[] = [];
  /** What is in use. */
  readonly inUse = new Bounds();
  readonly #grants: readonly Grant[];
  readonly #violations: Violation[] = [];

  constructor(name: string, calls: readonly SemaphoreCall[], facts: Facts, rules: SemaphoreRules) {
    this.#name = name;
    this.#shard = rules.shardOf(name);
    this.#facts = facts;
    this.#rules = rules;
    this.#calls = calls;
    const byConnection = new Map<number, SemaphoreCall[]>();
    const byLease = new Map<string, SemaphoreCall[]>();
    for (const call of calls) {
      const { operation, connection } = call;
      if (operation.type === "acquire" || operation.type === "release") {
        append(byConnection, connection!, call);
      } else if ("leaseId" in operation) append(byLease, operation.leaseId, call);
    }
    for (const [number, own] of byConnection) this.#addConnection(number, own);
    for (const [id, own] of byLease) this.#addLease(id, own);
    for (const { held } of this.#holders) {
      let [low, high] = [0, 0];
      for (const segment of held.segments) {
        this.inUse.add(segment.at, segment.low - low, segment.high - high);
        ({ low, high } = segment);
      }
    }
    this.#grants = calls.filter(isGrant).map((call) => {
      const ended = appliedBy(call);
      return { call, ended, least: this.inUse.leastBetween(ended, ended) };
    });
  }

  get #subject(): string {
    return `semaphore ${JSON.stringify(this.#name)}`;
  }

  check(): Violation[] {
    for (const request of this.#requests) this.#checkRequest(request);
    for (const lease of this.#leases) {
      this.#checkLease(lease);
      this.#checkRestorations(lease);
    }
    for (const call of this.#calls) {
      if (!isAnswered(call) || typeof call.outcome !== "object") continue;
      const [from, to] = this.#seenBetween(call);
      if ("consumption" in call.outcome) {
        const { consumption, mostHeld } = call.outcome;
        this.checkFigures(call, from, to, consumption, mostHeld);
      } else if ("holders" in call.outcome) this.#checkHolders(call, call.outcome.holders);
    }
    this.#checkAbsence();
    this.#checkMaximum();
    return this.#violations;
  }

  /** Figures that a call saw between two moments. Null for a most that was not told. */
  checkFigures(
    call: SemaphoreCall,
    from: Moment,
    to: Moment,
    consumption: number,
    mostHeld: number | null,
  ): void {
    if (!this.inUse.mayBe(consumption, from, to)) {
      const what = `${describeCall(call)} was told that ${consumption} are in use`;
      this.#violate(`${what}, but ${this.#expected(from, to)}`);
    }
    if (mostHeld === null) return;
    if (mostHeld < consumption) {
      this.#violate(
        `${describeCall(call)} was told that ${consumption} are in use and at most ${mostHeld} were`,
      );
    }
    const most = this.inUse.mostUntil(to);
    if (mostHeld > most) {
      this.#violate(
        `${describeCall(call)} was told that ${mostHeld} were in use at once, but never more than ${most} can have been`,
      );
    }
    // A full shard removes unused semaphores sooner, and with them the most that was held.
    if (this.#rules.wasFull(this.#shard)) return;
    for (const { call: grant, ended, least } of this.#grants) {
      if (mostHeld >= least || !isBefore(ended, from)) continue;
      if (!this.#isOneInterval(grant.begun, to)) continue;
      this.#violate(
        `${describeCall(call)} was told that at most ${mostHeld} were in use, but ${least} were at ${describeMoment(ended)}, in the same interval`,
      );
      return;
    }
  }

  /** Names of a listing: in use for certain between two moments, or at no moment up to the second one. */
  isSurelyInUse(from: Moment, to: Moment): boolean {
    return this.inUse.leastBetween(from, to) > 0;
  }

  mayExist(to: Moment): boolean {
    return this.#calls.some(
      (call) => (isAcquisition(call) || mayRestore(call)) && isBefore(call.begun, to),
    );
  }

  takeViolations(): Violation[] {
    return this.#violations.splice(0);
  }

  #addConnection(number: number, calls: readonly SemaphoreCall[]): void {
    const connection = this.#facts.connections.get(number);
    if (connection === undefined) {
      throw new Error(`connection ${number} has calls, and the run does not know it`);
    }
    const end = endOfHolding(connection, calls, this.#shard, this.#facts, this.#rules);
    const name = `connection ${number}`;
    const { partedAt = null } = connection;
    const { holder, requests } = holdByConnection(name, calls, { end, partedAt }, (call) =>
      this.#isUndone(call),
    );
    this.#holders.push(holder);
    this.#byId.set(connection.id, holder);
    this.#requests.push(...requests);
  }

  #addLease(id: string, calls: readonly SemaphoreCall[]): void {
    const durations = new Durations(this.#facts.clocks, this.#shard);
    const lease = holdByLease(`lease ${id}`, calls, durations, (call) => this.#isUndone(call));
    this.#holders.push(lease.holder);
    this.#byId.set(id, lease.holder);
    this.#leases.push(lease);
  }

  /** A reset may have taken back what was answered. */
  #isUndone(call: SemaphoreCall): boolean {
    return isAnswered(call) && this.#rules.hasLost(this.#shard, spanOf(call));
  }

  /** When an answer that changed nothing was true: a stale copy of the shard answers with what was. */
  #seenBetween(call: SemaphoreCall): [from: Moment, to: Moment] {
    const to = call.ended!;
    return [this.#facts.staleSince(this.#shard, call.begun, to), to];
  }

  #checkRequest({ call, from, to, before }: AppliedRequest): void {
    const { operation, outcome } = call;
    if (operation.type === "acquire") {
      if (outcome === "granted") this.#checkGrant(call, from, to);
      else if (outcome === "unavailable") this.#checkRefusal(call);
      return;
    }
    if (operation.type !== "release") return;
    const { resources } = operation;
    const { least, most } = before;
    const violate = (what: string): void => {
      const held = least === most ? `${most}` : `${least} to ${most}`;
      const release = `${describeCall(call)}: Release of ${resources}`;
      this.#violate(`${release} ${what}, but the connection held ${held}`);
    };
    if (outcome === "released" && (most < resources || most === 0)) violate("succeeded");
    if (outcome === "not acquired" && least >= Math.max(1, resources)) {
      violate("was refused as not acquired");
    }
    if (outcome === "not found" && least > 0) violate("found no semaphore");
  }

  #checkGrant(call: SemaphoreCall, from: Moment, to: Moment): void {
    const { operation } = call;
    if (operation.type !== "acquire" && operation.type !== "acquire lease") return;
    const { resources, maximum } = operation;
    const least = this.inUse.leastBetween(from, to);
    if (least + resources <= maximum) return;
    const what = `${describeCall(call)} was granted ${resources} of at most ${maximum}`;
    this.#violate(`${what}, but at least ${least} were in use: ${this.#describeHolders(from)}`);
  }

  #checkRefusal(call: SemaphoreCall): void {
    const { operation } = call;
    if (operation.type !== "acquire" && operation.type !== "acquire lease") return;
    const { resources, maximum } = operation;
    const [from, to] = this.#seenBetween(call);
    const most = this.inUse.mostBetween(from, to);
    if (most + resources > maximum) return;
    const what = `${describeCall(call)} was refused ${resources} of at most ${maximum}`;
    const held = most === 0 ? "nothing" : `at most ${most}`;
    this.#violate(`${what}, but ${held} can have been in use: ${this.#describeHolders(to)}`);
  }

  #checkLease({ holder: { name }, lifetimes, changes }: LeaseHolder): void {
    for (const [call, change] of changes) {
      if (!isAnswered(call) || call.operation.type === "restore lease") continue;
      const { operation, outcome } = call;
      const to = call.ended;
      const isHeld = typeof outcome === "object" || outcome === "released";
      const [from] = isHeld ? [call.begun] : this.#seenBetween(call);
      const wasPossible = meetsAny(lifetimes.possible, from, to, change);
      const wasSure = coversAll(lifetimes.sure, from, to);
      if (!isHeld && wasSure) {
        this.#violate(
          `${describeCall(call)}: ${operation.type} found that ${name} is ${outcome as string}, but it was held all the while`,
        );
      }
      if (operation.type === "acquire lease") {
        if (outcome === "unavailable") this.#checkRefusal(call);
        // One that was there before is renewed, whatever is in use.
        else if (isHeld && !wasPossible) this.#checkGrant(call, from, to);
      } else if (isHeld && !wasPossible) {
        this.#violate(
          `${describeCall(call)}: ${operation.type} found ${name}, but it can't have been held any more`,
        );
      }
      if (typeof outcome === "object" && "endsAtMs" in outcome && "ttlMs" in operation) {
        this.#checkLeaseEnd(call, outcome.endsAtMs, operation.ttlMs);
      }
    }
  }

  /** A lease that is there already is kept, unless it is to be replaced. Its end is seen by what is in use later. */
  #checkRestorations({ holder: { name }, lifetimes, calls, changes }: LeaseHolder): void {
    for (const call of calls) {
      const { operation, outcome } = call;
      if (operation.type !== "restore lease" || !isAnswered(call)) continue;
      const to = call.ended;
      if (outcome === "kept") {
        const [from] = this.#seenBetween(call);
        if (meetsAny(lifetimes.possible, from, to, changes.get(call))) continue;
        this.#violate(`${describeCall(call)}: ${name} was kept, but it can't have been held`);
      } else if (outcome === "restored" && !operation.isReplacing) {
        if (!coversAll(lifetimes.sure, call.begun, to)) continue;
        this.#violate(`${describeCall(call)}: ${name} was restored, but it was held all the while`);
      }
    }
  }

  /** Callers get times of the platform's clock. Where the shard's own is ahead, the lease lasts a ninth longer. */
  #checkLeaseEnd(call: SemaphoreCall, endsAtMs: number, ttlMs: number): void {
    const { begun, ended } = call;
    const span = this.#facts.clocks.spanOf(this.#shard, begun.ms, ended!.ms);
    const isSet = span.toMs - span.fromMs > ended!.ms - begun.ms + CLOCK_ROUNDING_MS;
    const latestMs = span.toMs + (isSet ? Math.ceil((ttlMs * 10) / 9) : ttlMs);
    if (endsAtMs >= span.fromMs + ttlMs && endsAtMs <= latestMs) return;
    this.#violate(
      `${describeCall(call)}: a lease of ${ttlMs} ms ends at ${endsAtMs}, expected ${span.fromMs + ttlMs} to ${latestMs}`,
    );
  }

  #checkHolders(call: SemaphoreCall, rows: readonly HolderRow[]): void {
    const [from, to] = this.#seenBetween(call);
    const listing: Listing = {
      what: `${describeCall(call)}: the holders of ${this.#subject}`,
      begun: from,
      ended: to,
      isComplete: true,
      rows: rows.map(({ id }) => id),
      includes: () => true,
    };
    const violations = checkListing(listing, {
      keys: this.#byId.keys(),
      isThroughout: (id) => this.#byId.get(id)!.held.leastBetween(from, to) > 0,
      isPossible: (id) => (this.#byId.get(id)?.held.mostBetween(from, to) ?? 0) > 0,
    });
    this.#violations.push(...violations);
    for (const { id, resources } of rows) {
      const holder = this.#byId.get(id);
      if (holder === undefined || holder.held.mayBe(resources, from, to)) continue;
      this.#violate(
        `${describeCall(call)} was told that ${holder.name} holds ${resources}, but ${rangeOf(holder.held, from, to)}`,
      );
    }
  }

  /** A semaphore that is not there is not in use, and was not since the interval began. */
  #checkAbsence(): void {
    for (const call of this.#calls) {
      const { operation, outcome } = call;
      if (outcome !== "not found" || call.ended === null) continue;
      const [from, to] = this.#seenBetween(call);
      const what = `${describeCall(call)}: ${operation.type} found no semaphore`;
      if (!this.inUse.mayBe(0, from, to)) {
        this.#violate(`${what}, but ${this.#expected(from, to)}`);
        continue;
      }
      const grant = this.#grants.find(
        (other) =>
          isBefore(other.ended, from) &&
          !this.#isUndone(other.call) &&
          this.#isOneInterval(other.call.begun, to),
      );
      // A full shard removes unused semaphores sooner.
      if (grant === undefined || this.#rules.wasFull(this.#shard)) continue;
      this.#violate(`${what}, but ${describeCall(grant.call)} acquired of it in the same interval`);
    }
  }

  /** Whether no boundary of the statistics can have been between two moments, by the shard's clock. */
  #isOneInterval(from: Moment, to: Moment): boolean {
    const { statsIntervalMs } = this.#rules;
    const { fromMs, toMs } = this.#facts.clocks.spanOf(this.#shard, from.ms, to.ms);
    return Math.floor(fromMs / statsIntervalMs) === Math.floor(toMs / statsIntervalMs);
  }

  /**
   * What is held for sure was granted by calls one of which was the last: it had room below its maximum. What was restored has no
   * maximum, and comes on top of that.
   */
  #checkMaximum(): void {
    const acquisitions = this.#calls
      .filter((call) => isAcquisition(call) || mayRestore(call))
      .toSorted((a, b) => (isBefore(a.begun, b.begun) ? -1 : 1));
    let next = 0;
    let maximum = 0;
    let restored = 0;
    for (const { at, low } of this.inUse.segments) {
      while (next < acquisitions.length && isBefore(acquisitions[next]!.begun, at)) {
        const { operation } = acquisitions[next++]!;
        if (operation.type === "restore lease") restored += operation.resources;
        else maximum = Math.max(maximum, "maximum" in operation ? operation.maximum : 0);
      }
      if (low <= maximum + restored) continue;
      this.#violate(
        `at ${describeMoment(at)} ${low} were in use, but at most ${maximum + restored} was ever granted or restored: ${this.#describeHolders(at)}`,
      );
      return;
    }
  }

  #expected(from: Moment, to: Moment): string {
    return `${rangeOf(this.inUse, from, to)}: ${this.#describeHolders(from)}`;
  }

  #describeHolders(at: Moment): string {
    const rows: { readonly low: number; readonly text: string }[] = [];
    for (const { name, held: bounds } of this.#holders) {
      for (const { low, high } of bounds.between(at, at)) {
        if (high === 0) continue;
        rows.push({ low, text: `${name} holds ${low === high ? low : `${low} to ${high}`}` });
      }
    }
    // Those that hold something for sure say the most.
    const held = rows.toSorted((a, b) => b.low - a.low).map(({ text }) => text);
    if (held.length === 0) return "there was no holder";
    const more = held.length > SHOWN_HOLDERS ? ` and ${held.length - SHOWN_HOLDERS} more` : "";
    return `at ${describeMoment(at)} ${held.slice(0, SHOWN_HOLDERS).join(", ")}${more}`;
  }

  #violate(message: string): void {
    this.#violations.push({ promise: SEMAPHORES, subject: this.#subject, message });
  }
}

function isGrant({ operation: { type }, outcome }: SemaphoreCall): boolean {
  if (type === "acquire") return outcome === "granted";
  return type === "acquire lease" && typeof outcome === "object";
}

/** It was granted, or may have been. */
function isAcquisition(call: SemaphoreCall): boolean {
  const { type } = call.operation;
  const isOpen = call.outcome === "unknown" && (type === "acquire" || type === "acquire lease");
  return isOpen || isGrant(call);
}

/** A lease was restored, or may have been. */
function mayRestore({ operation, outcome }: SemaphoreCall): boolean {
  const isRestored = outcome === "restored" || outcome === "unknown";
  return operation.type === "restore lease" && isRestored;
}

function rangeOf(bounds: Bounds, from: Moment, to: Moment): string {
  const least = bounds.leastBetween(from, to);
  const most = bounds.mostBetween(from, to);
  return least === most ? `it was ${least}` : `it was ${least} to ${most}`;
}

function append<Key, Value>(map: Map<Key, Value[]>, key: Key, value: Value): void {
  const values = map.get(key);
  if (values === undefined) map.set(key, [value]);
  else values.push(value);
}
