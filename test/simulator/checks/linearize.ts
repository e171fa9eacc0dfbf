/**
 * Whether calls on one key have an order that explains their answers: each takes effect at one moment between its begin and its
 * end, those of one connection in the order in which they were sent. A call with an unknown outcome takes effect at any moment
 * after its begin until nothing is left of it, or never; one that was certainly executed does so before nothing is left of it.
 *
 * The search is that of Wing and Gong, with Lowe's memory of what has been tried. It tries the likely order first: a call whose
 * answer fits is the next one, else the call that ends first, which lets the others take effect as late as they can. Where no
 * known call fits, it first tries all unknown calls of a connection one after the other: mostly a whole message was applied
 * whose answer was lost. So it goes through thousands of calls in milliseconds where there is an order.
 */
import type { MsSpan } from "../../support/models/span.ts";
import { isAnswered, type Call } from "./history.ts";

export interface Specification<State, Operation, Outcome> {
  readonly initial: State;
  /**
   * The states that a call may leave that is executed at some moment of a span of true time: those in which its answer is
   * right; all for null, an answer that is not known. The same object where the call changes nothing.
   */
  readonly statesAfter: (
    state: State,
    operation: Operation,
    outcome: Outcome | null,
    at: MsSpan,
  ) => readonly State[];
  /** Whether few states can be answered like that: where it fits, it is likely to have happened there. */
  readonly isTelling: (outcome: Outcome) => boolean;
  /** Whether a call that was answered like that has changed nothing, whatever the state was. */
  readonly isWithoutEffect: (operation: Operation, outcome: Outcome) => boolean;
  /** Equal for states of which one may cover the other. */
  readonly nameOf: (state: State) => string;
  /** Of two states of one name: whether all that may come of the second may come of the first; unless given, they are equal. */
  readonly covers?: (state: State, other: State) => boolean;
  /** Equal for calls that any state answers alike, and that leave the same state; null for one that has no equal. */
  readonly twinOf: (operation: Operation, outcome: Outcome | null) => string | null;
}

/** Where no order goes on. */
export interface Stuck<State, Operation, Outcome> {
  /** No order explains the calls up to the answer of this one. */
  readonly call: Call<Operation, Outcome>;
  /** What the calls before it may have left. */
  readonly states: readonly State[];
}

export type Linearization<State, Operation, Outcome> =
  /** `undecided`: the search was given up, as too many calls overlap. */
  | { readonly verdict: "explained" | "undecided" }
  | { readonly verdict: "stuck"; readonly stuck: Stuck<State, Operation, Outcome> };

/** Points of a search before it is given up: about a second, for some key of one run in some hundreds. */
const POINTS_MAX = 20_000;
const STATES_SHOWN = 5;
/** Points of a search that goes straight on. Where there is an order, few searches need more. */
const STRAIGHT_POINTS = 500;
/** States that are followed through the unknown calls of a connection. */
const RUN_STATES_MAX = 4;

interface Entry<Operation, Outcome> {
  readonly call: Call<Operation, Outcome>;
  readonly beginTick: number;
  /** Of an unknown outcome: from when on it can no longer take effect. */
  readonly endTick: number;
  readonly endMs: number;
  readonly connection: number | null;
  readonly outcome: Outcome | null;
  readonly isTelling: boolean;
  readonly isWithoutEffect: boolean;
  /** Of an unknown outcome: indices of the known calls that its connection sent before and after it; -1 for none. */
  readonly before: number;
  after: number;
  /** Undefined until it is asked for. */
  twin: string | null | undefined;
}

/** A state, and the calls that have taken effect on the way to it. */
interface Point<State> {
  readonly state: State;
  /** All known calls before this index have taken effect. */
  readonly from: number;
  /** Those from it on that have, by a bit each. */
  readonly beyond: bigint;
  readonly unknown: bigint;
}

/** The known calls that may be next: they began before any that is left has ended. */
interface Turn {
  readonly left: readonly number[];
  /** The one that ends first. */
  readonly first: number;
}

interface OpenPoint<State> {
  readonly point: Point<State>;
  readonly turn: Turn;
  /** The call that is likely the next one, when it was tried: what is left is to try the others. */
  readonly tried: number | null;
}

const bit = (i: number): bigint => 1n << BigInt(i);
/** -1 where no bit is set. */
const highestBit = (bits: bigint): number => (bits === 0n ? -1 : bits.toString(2).length - 1);

/**
 * Judges calls on one key, in the order in which they began. Those that were refused are left out.
 *
 * @param isExecuted whether a call of an unknown outcome was certainly executed
 */
export function linearize<State, Operation, Outcome>(
  specification: Specification<State, Operation, Outcome>,
  calls: readonly Call<Operation, Outcome>[],
  isExecuted: (call: Call<Operation, Outcome>) => boolean = () => false,
): Linearization<State, Operation, Outcome> {
  return new Search(specification, calls, isExecuted).run();
}

class Search<State, Operation, Outcome> {
  readonly #specification: Specification<State, Operation, Outcome>;
  readonly #known: Entry<Operation, Outcome>[] = [];
  readonly #unknown: Entry<Operation, Outcome>[] = [];
  /** Of known calls, in the order of their ends. */
  readonly #ranks: readonly number[];
  readonly #open = new OpenPoints<State>();
  /** Points that were tried, by name: all but the unknown calls that have taken effect, and what states cover. */
  readonly #tried = new Map<string, Pick<Point<State>, "state" | "unknown">[]>();
  #stuckAt = -1;
  #stuckStates: State[] = [];

  constructor(
    specification: Specification<State, Operation, Outcome>,
    calls: readonly Call<Operation, Outcome>[],
    isExecuted: (call: Call<Operation, Outcome>) => boolean,
  ) {
    this.#specification = specification;
    const latest = new Map<number, number>();
    for (const call of calls) {
      if (call.outcome === "refused") continue;
      const { connection, begun, settled } = call;
      const before = connection === null ? -1 : (latest.get(connection) ?? -1);
      const common = {
        call,
        beginTick: begun.tick,
        connection,
        before,
        after: -1,
        twin: undefined,
      };
      if (isAnswered(call)) {
        const { outcome, ended } = call;
        if (connection !== null) this.#noteOnConnection(connection, latest);
        const isTelling = specification.isTelling(outcome);
        const isWithoutEffect = specification.isWithoutEffect(call.operation, outcome);
        this.#known.push({
          ...common,
          outcome,
          isTelling,
          isWithoutEffect,
          endTick: ended.tick,
          endMs: ended.ms,
        });
      } else {
        const entry = {
          ...common,
          outcome: null,
          isTelling: false,
          isWithoutEffect: false,
          endTick: settled?.tick ?? Infinity,
          endMs: settled?.ms ?? Infinity,
        };
        if (isExecuted(call)) {
          if (connection !== null) this.#noteOnConnection(connection, latest);
          this.#known.push(entry);
        } else this.#unknown.push(entry);
      }
    }
    this.#ranks = ranksOf(this.#known);
  }

  /** The known call that comes next is the latest of its connection, and follows the unknown ones of it. */
  #noteOnConnection(connection: number, latest: Map<number, number>): void {
    const index = this.#known.length;
    latest.set(connection, index);
    for (const entry of this.#unknown) {
      if (entry.connection === connection && entry.after === -1) entry.after = index;
    }
  }

  run(): Linearization<State, Operation, Outcome> {
    if (this.#known.length === 0) return { verdict: "explained" };
    this.#add({ state: this.#specification.initial, from: 0, beyond: 0n, unknown: 0n });
    for (let points = 0; points < POINTS_MAX; points++) {
      const open = this.#open.take();
      if (open === null) return { verdict: "stuck", stuck: this.#stuck };
      const isExplained = open.tried === null ? this.#tryLikely(open) : this.#tryOthers(open);
      if (isExplained) return { verdict: "explained" };
    }
    return { verdict: "undecided" };
  }

  /** Lets the call take effect that is likely the next one. True when no call is left. */
  #tryLikely(open: OpenPoint<State>): boolean {
    const { point, turn } = open;
    const forced = this.#forcedNext(point, turn);
    const [next, states] = forced ?? this.#likelyNext(point, turn);
    if (states.length === 0) return this.#tryOthers(open);
    for (const state of states) {
      const after = this.#withKnown(point, state, next);
      if (after.from === this.#known.length) return true;
      this.#add(after, true);
    }
    if (forced === null) this.#open.add({ point, turn, tried: next }, this.#ranks[turn.first]!);
    return false;
  }

  /** A call that fits and never changes anything: it may as well happen now, where nothing else becomes impossible by it. */
  #forcedNext(point: Point<State>, turn: Turn): readonly [number, readonly State[]] | null {
    for (const i of turn.left) {
      const entry = this.#known[i]!;
      if (!entry.isWithoutEffect || !this.#isInTurn(i, turn)) continue;
      const states = this.#after(point.state, entry);
      if (states.includes(point.state) && this.#isFree(point, entry, turn)) return [i, states];
    }
    return null;
  }

  /** A call whose answer fits this state and hardly another, else the one that ends first, with what it leaves. */
  #likelyNext(point: Point<State>, turn: Turn): readonly [number, readonly State[]] {
    for (const i of turn.left) {
      const entry = this.#known[i]!;
      if (!entry.isTelling || !this.#isInTurn(i, turn)) continue;
      const states = this.#after(point.state, entry);
      if (states.length > 0) return [i, states];
    }
    const { first } = turn;
    return [
      first,
      this.#isInTurn(first, turn) ? this.#after(point.state, this.#known[first]!) : [],
    ];
  }

  /** Lets each other call take effect that may be next. */
  #tryOthers({ point, turn, tried }: OpenPoint<State>): boolean {
    if (!this.#isNew("from", point)) return false;
    const next: Point<State>[] = [];
    for (const i of turn.left) {
      const entry = this.#known[i]!;
      if (i === tried || !this.#isInTurn(i, turn) || this.#hasEarlierTwin(entry, turn)) continue;
      // Before the one that ends first, which is to come.
      const states = this.#after(point.state, entry, this.#known[turn.first]!.endMs);
      next.push(...states.map((state) => this.#withKnown(point, state, i)));
    }
    for (const i of this.#unknownNext(point, turn)) {
      const after = this.#withUnknown(point, i, this.#known[turn.first]!.endMs);
      // Without an effect it need not have happened.
      next.push(...after.filter((each) => each !== point));
    }
    if (tried !== turn.first) this.#noteStuck(turn.first, point.state);
    for (const each of next) if (this.#isNew("to", each)) this.#add(each);
    for (const each of this.#afterRuns(point, turn)) {
      if (this.#isNew("to", each)) this.#add(each, true);
    }
    return false;
  }

  /** What each connection leaves whose unknown calls take effect one after the other, as far as they may be next. */
  #afterRuns(point: Point<State>, turn: Turn): readonly Point<State>[] {
    const begun = new Set<number>();
    return this.#unknownNext(point, turn).flatMap((i) => {
      const { connection } = this.#unknown[i]!;
      if (connection === null || begun.has(connection)) return [];
      begun.add(connection);
      return this.#afterRun(point, turn, i, connection);
    });
  }

  #afterRun(
    point: Point<State>,
    turn: Turn,
    first: number,
    connection: number,
  ): readonly Point<State>[] {
    const { endTick, endMs } = this.#known[turn.first]!;
    const earliest = this.#latestBegin(point);
    let after: readonly Point<State>[] = [point];
    let calls = 0;
    for (let i = first; i < this.#unknown.length; i++) {
      const entry = this.#unknown[i]!;
      if (entry.connection !== connection || entry.endTick < earliest) continue;
      if (entry.beginTick > endTick || !this.#isUnknownInTurn(entry, i, point)) break;
      calls++;
      after = after.flatMap((each) => this.#withUnknown(each, i, endMs)).slice(0, RUN_STATES_MAX);
    }
    // One call alone is tried as all others are.
    return calls < 2 ? [] : after.filter((each) => each !== point);
  }

  /** The same point where the call has no effect. */
  #withUnknown(point: Point<State>, i: number, toMs: number): readonly Point<State>[] {
    const unknown = point.unknown | bit(i);
    return this.#after(point.state, this.#unknown[i]!, toMs).map((state) =>
      state === point.state ? point : { ...point, state, unknown },
    );
  }

  #add(point: Point<State>, isLikely = false): void {
    const turn = this.#turnOf(point);
    this.#open.add({ point, turn, tried: null }, this.#ranks[turn.first]!, isLikely);
  }

  #turnOf({ from, beyond }: Point<State>): Turn {
    const known = this.#known;
    let first = from;
    const left: number[] = [];
    for (let i = from; i < known.length && known[i]!.beginTick < known[first]!.endTick; i++) {
      if (i > from && (beyond & bit(i - from)) !== 0n) continue;
      left.push(i);
      if (known[i]!.endTick < known[first]!.endTick) first = i;
    }
    return { first, left };
  }

  /** False where a point was tried that can do all that this one can: fewer unknown calls have taken effect. */
  #isNew(list: "from" | "to", { state, from, beyond, unknown }: Point<State>): boolean {
    const { nameOf, covers = () => true } = this.#specification;
    const name = `${list} ${from} ${beyond} ${nameOf(state)}`;
    const tried = this.#tried.get(name);
    if (tried === undefined) this.#tried.set(name, [{ state, unknown }]);
    else if (
      tried.some(
        (other) => (other.unknown & unknown) === other.unknown && covers(other.state, state),
      )
    )
      return false;
    else tried.push({ state, unknown });
    return true;
  }

  /** @param toMs when it must have taken effect, if it has not ended before */
  #after(state: State, entry: Entry<Operation, Outcome>, toMs = Infinity): readonly State[] {
    const { call, outcome, endMs } = entry;
    const at = { fromMs: call.begun.ms, toMs: Math.min(endMs, toMs) };
    return this.#specification.statesAfter(state, call.operation, outcome, at);
  }

  /** Requests of a connection are executed in the order in which they were sent. */
  #isInTurn(i: number, { left }: Turn): boolean {
    const { connection } = this.#known[i]!;
    if (connection === null) return true;
    return left.every((other) => other >= i || this.#known[other]!.connection !== connection);
  }

  /**
   * Of two equal calls that may both be next, the one that ends first may as well be the first; not of those of a connection,
   * where others come before them and behind them.
   */
  #hasEarlierTwin(entry: Entry<Operation, Outcome>, turn: Turn): boolean {
    if (entry.connection !== null) return false;
    const twin = this.#twinOf(entry);
    if (twin === null) return false;
    return turn.left.some((i) => {
      const other = this.#known[i]!;
      if (other === entry || other.connection !== null) return false;
      return other.endTick < entry.endTick && this.#twinOf(other) === twin;
    });
  }

  #twinOf(entry: Entry<Operation, Outcome>): string | null {
    if (entry.twin === undefined) {
      entry.twin = this.#specification.twinOf(entry.call.operation, entry.outcome);
    }
    return entry.twin;
  }

  /** The calls of unknown outcomes that may be next. */
  #unknownNext(point: Point<State>, { first }: Turn): number[] {
    if (this.#unknown.length === 0) return [];
    const latest = this.#known[first]!.endTick;
    const earliest = this.#latestBegin(point);
    const next: number[] = [];
    const twins = new Map<string, number>();
    for (const [i, entry] of this.#unknown.entries()) {
      if (entry.beginTick > latest) break;
      if ((point.unknown & bit(i)) !== 0n || entry.endTick < earliest) continue;
      if (entry.connection !== null && !this.#isUnknownInTurn(entry, i, point)) continue;
      const twin = this.#twinOf(entry);
      // Of equal ones, that which ends first may as well be the first, or the only one, unless that would be too early.
      if (twin !== null && entry.connection === null) {
        const earlier = twins.get(twin);
        const mustEnd = Math.min(entry.endTick, latest);
        if (earlier !== undefined && mustEnd <= earlier && earlier <= entry.endTick) continue;
        twins.set(twin, entry.endTick);
      }
      next.push(i);
    }
    return next;
  }

  /** All that its connection sent before and that is known has taken effect, and nothing that it sent later. */
  #isUnknownInTurn(
    { connection, before, after }: Entry<Operation, Outcome>,
    i: number,
    point: Point<State>,
  ): boolean {
    for (let later = i + 1; later < this.#unknown.length; later++) {
      const isDone = (point.unknown & bit(later)) !== 0n;
      if (isDone && this.#unknown[later]!.connection === connection) return false;
    }
    return isDone(before, point) && (after === -1 || !isDone(after, point));
  }

  /** Whether no unknown call, that could be next or comes behind others, is too late once this one has taken effect. */
  #isFree(
    point: Point<State>,
    { beginTick, connection }: Entry<Operation, Outcome>,
    turn: Turn,
  ): boolean {
    const earliest = this.#latestBegin(point);
    for (const [i, { endTick }] of this.#unknown.entries()) {
      const canBeTooLate = endTick >= earliest && endTick <= beginTick;
      if (canBeTooLate && (point.unknown & bit(i)) === 0n) return false;
    }
    if (connection === null) return true;
    return this.#unknownNext(point, turn).every((i) => this.#unknown[i]!.connection !== connection);
  }

  /** The latest begin of a call that has taken effect: nothing else takes effect before it. */
  #latestBegin({ from, beyond, unknown }: Point<State>): number {
    const known = beyond === 0n ? from - 1 : from + highestBit(beyond);
    return Math.max(
      this.#known[known]?.beginTick ?? -Infinity,
      this.#unknown[highestBit(unknown)]?.beginTick ?? -Infinity,
    );
  }

  #withKnown({ from, beyond, unknown }: Point<State>, state: State, i: number): Point<State> {
    if (i > from) return { state, from, beyond: beyond | bit(i - from), unknown };
    let rest = beyond >> 1n;
    let next = from + 1;
    for (; (rest & 1n) !== 0n; rest >>= 1n) next++;
    return { state, from: next, beyond: rest, unknown };
  }

  #noteStuck(first: number, state: State): void {
    const known = this.#stuckAt < 0 ? -1 : this.#ranks[this.#stuckAt]!;
    if (this.#ranks[first]! < known) return;
    if (this.#ranks[first]! > known) this.#stuckStates = [];
    this.#stuckAt = first;
    const { nameOf } = this.#specification;
    const isNew = !this.#stuckStates.some((other) => nameOf(other) === nameOf(state));
    if (isNew && this.#stuckStates.length < STATES_SHOWN) this.#stuckStates.push(state);
  }

  get #stuck(): Stuck<State, Operation, Outcome> {
    return { call: this.#known[this.#stuckAt]!.call, states: this.#stuckStates };
  }
}

const isDone = (i: number, { from, beyond }: Point<unknown>): boolean =>
  i < from || (beyond & bit(i - from)) !== 0n;

/** The place of each in the order of their ends. */
function ranksOf(entries: readonly { readonly endTick: number }[]): number[] {
  const ranks: number[] = [];
  const byEnd = entries
    .map((_, i) => i)
    .toSorted((a, b) => entries[a]!.endTick - entries[b]!.endTick);
  for (const [rank, i] of byEnd.entries()) ranks[i] = rank;
  return ranks;
}

/**
 * Points that are left to try. It gives out those that have come farthest, of these the likely ones first, and then in their
 * order. A long search takes every second point from another rank, one rank after the other. Without that, a search that has
 * come far on a wrong way would try all of that way before what it left out early.
 */
class OpenPoints<State> {
  readonly #ranks: { likely: OpenPoint<State>[]; others: OpenPoint<State>[]; taken: number }[] = [];
  #farthest = -1;
  /** The rank whose turn is next. */
  #next = 0;
  #taken = 0;

  add(point: OpenPoint<State>, rank: number, isLikely = false): void {
    const ofRank = (this.#ranks[rank] ??= { likely: [], others: [], taken: 0 });
    (isLikely ? ofRank.likely : ofRank.others).push(point);
    this.#farthest = Math.max(this.#farthest, rank);
  }

  take(): OpenPoint<State> | null {
    const isInTurn = ++this.#taken > STRAIGHT_POINTS && this.#taken % 2 === 0;
    return (isInTurn ? this.#takeInTurn() : null) ?? this.#takeFarthest();
  }

  #takeFarthest(): OpenPoint<State> | null {
    for (; this.#farthest >= 0; this.#farthest--) {
      const point = this.#takeOf(this.#farthest);
      if (point !== null) return point;
    }
    return null;
  }

  /** Null where a round ends, too. */
  #takeInTurn(): OpenPoint<State> | null {
    while (this.#next <= this.#farthest) {
      const point = this.#takeOf(this.#next++);
      if (point !== null) return point;
    }
    this.#next = 0;
    return null;
  }

  #takeOf(rank: number): OpenPoint<State> | null {
    const ofRank = this.#ranks[rank];
    if (ofRank === undefined) return null;
    const { likely, others, taken } = ofRank;
    if (likely.length > 0) return likely.pop()!;
    return taken < others.length ? others[ofRank.taken++]! : null;
  }
}
