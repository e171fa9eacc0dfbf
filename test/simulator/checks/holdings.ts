/**
 * What one holder of a semaphore may have held at each moment: a connection, whose requests are applied in their order until it
 * ends, or a lease, which lives by the time of its shard.
 */
import { Bounds } from "./bounds.ts";
import { Durations } from "./durations.ts";
import type { Moment } from "./history.ts";
import {
  lifetimesOf,
  mergeIntervals,
  type Change,
  type Interval,
  type Lifetimes,
} from "./lifetimes.ts";
import { afterMs, compare, earlier, isBefore, later, NEVER } from "./order.ts";
import { appliedBy, type Connection, type Facts } from "./facts.ts";
import type { HolderTimes, SemaphoreCall } from "./semaphore-calls.ts";

/** What a connection holds after some of its requests: any amount between the two. */
interface State {
  readonly least: number;
  readonly most: number;
}

/** One request of a connection, with the state that it found. */
export interface AppliedRequest {
  readonly call: SemaphoreCall;
  readonly from: Moment;
  readonly to: Moment;
  readonly before: State;
}

export interface Holder {
  /** For messages: `connection 3`, `lease 5f…`. */
  readonly name: string;
  readonly held: Bounds;
}

const NOTHING: State = { least: 0, most: 0 };

/** What a lease may have held, and what its calls were as changes. */
export interface LeaseHolder {
  readonly holder: Holder;
  readonly lifetimes: Lifetimes;
  readonly calls: readonly SemaphoreCall[];
  /** By call; those that were refused, and that say nothing of the lease, are missing. */
  readonly changes: ReadonlyMap<SemaphoreCall, Change>;
}

export function holdByLease(
  name: string,
  calls: readonly SemaphoreCall[],
  durations: Durations,
  canBeUndone: (call: SemaphoreCall) => boolean,
): LeaseHolder {
  const changes = new Map<SemaphoreCall, Change>();
  let [least, most] = [Infinity, 0];
  for (const call of calls) {
    const change = changeOfLease(call, durations, canBeUndone(call));
    if (change === null) continue;
    changes.set(call, change);
    const { type } = call.operation;
    if (type !== "acquire lease" && type !== "restore lease") continue;
    least = Math.min(least, call.operation.resources);
    most = Math.max(most, call.operation.resources);
  }
  const lifetimes = lifetimesOf([...changes.values()], durations);
  const held = new Bounds();
  for (const { from, to } of lifetimes.sure) {
    held.add(from, least, 0);
    held.add(to, -least, 0);
  }
  for (const { from, to } of mergeIntervals(lifetimes.possible)) {
    held.add(from, 0, most);
    held.add(to, 0, -most);
  }
  return { holder: { name, held }, lifetimes, calls, changes };
}

/** Null for a call that changed and saw nothing. */
function changeOfLease(
  call: SemaphoreCall,
  durations: Durations,
  canBeUndone: boolean,
): Change | null {
  const { operation, outcome, begun } = call;
  const isOpen = outcome === "unknown" || canBeUndone;
  const window = { from: begun, to: appliedBy(call) };
  if (operation.type === "release lease") {
    if (isOpen) return { ...window, leaves: "absent", certainty: "open" };
    const certainty = outcome === "released" ? "done" : "seen";
    return { ...window, leaves: "absent", certainty };
  }
  if (operation.type === "restore lease") {
    const livesMs = durations.until(operation.endsAtMs, {
      fromMs: window.from.ms,
      toMs: window.to.ms,
    });
    const present = { ...window, leaves: "present", livesMs } as const;
    if (isOpen) return { ...present, certainty: "open" };
    // An end that has passed leaves the lease as it was, and so does one that is there already and is kept.
    return outcome === "restored" ? { ...present, certainty: "done" } : null;
  }
  if (operation.type !== "acquire lease" && operation.type !== "renew lease") return null;
  const livesMs = { fromMs: operation.ttlMs, toMs: operation.ttlMs };
  const isExtension = operation.type === "renew lease";
  const present = { ...window, leaves: "present", isExtension, livesMs } as const;
  if (isOpen) return { ...present, certainty: "open" };
  if (typeof outcome === "object") return { ...present, certainty: "done" };
  return outcome === "absent" || outcome === "unavailable"
    ? { ...window, leaves: "absent", certainty: "seen" }
    : null;
}

/**
 * The requests of one connection on one semaphore, in the order in which it sent them.
 *
 * @param partedAt since when the shard may have given back what it holds, again and again; null for never
 */
export function holdByConnection(
  name: string,
  calls: readonly SemaphoreCall[],
  { end, partedAt }: { readonly end: Interval | null; readonly partedAt: Moment | null },
  canBeUndone: (call: SemaphoreCall) => boolean,
): { holder: Holder; requests: AppliedRequest[] } {
  const requests = windowsOf(calls);
  const states: State[] = [NOTHING];
  const applied = requests.map((request, i) => {
    const mayBeGivenBack = partedAt !== null && isBefore(partedAt, request.to);
    const before = mayBeGivenBack ? { ...states[i]!, least: 0 } : states[i]!;
    states.push(stateAfter(before, request.call, canBeUndone(request.call)));
    return { ...request, before };
  });
  return { holder: { name, held: boundsOf(requests, states, end) }, requests: applied };
}

/** When what a connection held is given back, at the earliest and at the latest; null for one that lives on. */
export function endOfHolding(
  connection: Connection,
  calls: readonly SemaphoreCall[],
  shard: string,
  facts: Facts,
  times: HolderTimes,
): Interval | null {
  const { ending } = connection;
  if (ending === null) return null;
  if (ending.ended === null) return { from: ending.begun, to: NEVER };
  // A request that is still on its way when its connection ends is found out as one of a connection that is gone.
  const lastAt = calls.reduce((last, call) => {
    return call.outcome === "refused" ? last : later(last, appliedBy(call));
  }, ending.ended);
  return { from: ending.begun, to: afterMs(foundOutBy(lastAt.ms, shard, facts, times)) };
}

/** True time at which a shard has released what a vanished connection held. A shard that is reset meanwhile counts anew. */
function foundOutBy(goneMs: number, shard: string, facts: Facts, times: HolderTimes): number {
  const durations = new Durations(facts.clocks, shard);
  const deadline = (fromMs: number): number =>
    durations.latestEnd({ fromMs, toMs: fromMs }, times.holderTimeoutMs) + times.slackMs;
  let dueMs = deadline(goneMs);
  const lives = facts.livesOf(shard);
  for (const [i, life] of lives.entries()) {
    // What is evicted leaves an alarm, which wakes it in time.
    if (!life.isReset || life.ended!.ms < goneMs || life.ended!.ms > dueMs) continue;
    const next = lives[i + 1];
    if (next === undefined) return Infinity;
    dueMs = Math.max(dueMs, deadline(next.begun.ms));
  }
  return dueMs;
}

/** Requests of a connection on a key are applied in their order: one that was answered is a bound for those around it. */
function windowsOf(
  calls: readonly SemaphoreCall[],
): { call: SemaphoreCall; from: Moment; to: Moment }[] {
  const windows = calls.map((call) => ({ call, from: call.begun, to: appliedBy(call) }));
  for (let i = 1; i < windows.length; i++) {
    windows[i]!.from = later(windows[i]!.from, windows[i - 1]!.from);
  }
  for (let i = windows.length - 2; i >= 0; i--) {
    windows[i]!.to = earlier(windows[i]!.to, windows[i + 1]!.to);
  }
  return windows;
}

function stateAfter(
  { least, most }: State,
  { operation, outcome }: SemaphoreCall,
  canBeUndone: boolean,
): State {
  const isOpen = outcome === "unknown" || canBeUndone;
  if (operation.type === "acquire") {
    const { resources } = operation;
    if (isOpen) return { least, most: most + resources };
    return outcome === "granted"
      ? { least: least + resources, most: most + resources }
      : { least, most };
  }
  if (operation.type !== "release") return { least, most };
  const { resources } = operation;
  if (isOpen) return { least: Math.max(0, least - resources), most };
  if (outcome === "released") {
    return { least: Math.max(0, least - resources), most: Math.max(0, most - resources) };
  }
  if (outcome === "not acquired") {
    // It held less than it wanted to release; of nothing, it held nothing.
    const atMost = Math.max(0, resources - 1);
    return { least: Math.min(least, atMost), most: Math.min(most, atMost) };
  }
  return outcome === "not found" ? NOTHING : { least, most };
}

/**
 * At each moment some requests are applied for sure and some may be: the bounds are those of all states in between. From the
 * beginning of the holder's end on nothing is held for sure, and from its last moment on nothing may be.
 */
function boundsOf(
  windows: readonly Interval[],
  states: readonly State[],
  end: Interval | null,
): Bounds {
  const begins = windows.map(({ from }) => ({ at: from, begun: 1, over: 0 }));
  const ends = windows.map(({ to }) => ({ at: to, begun: 0, over: 1 }));
  const marks = [...begins, ...ends].toSorted((a, b) => compare(a.at, b.at));
  const bounds = new Bounds();
  let [begun, over, low, high] = [0, 0, 0, 0];
  const set = (at: Moment, least: number, most: number): void => {
    bounds.add(at, least - low, most - high);
    [low, high] = [least, most];
  };
  for (const mark of marks) {
    if (end !== null && low > 0 && !isBefore(mark.at, end.from)) set(end.from, 0, high);
    if (mark.at.ms === Infinity || (end !== null && !isBefore(mark.at, end.to))) break;
    begun += mark.begun;
    over += mark.over;
    let [least, most] = [Infinity, 0];
    for (let i = over; i <= begun; i++) {
      least = Math.min(least, states[i]!.least);
      most = Math.max(most, states[i]!.most);
    }
    const isEnding = end !== null && !isBefore(mark.at, end.from);
    set(mark.at, isEnding ? 0 : least, most);
  }
  if (end === null) return bounds;
  if (low > 0) set(end.from, 0, high);
  set(end.to, 0, 0);
  return bounds;
}
