/**
 * The charge ledger: what was charged to limits, and may still be given back.
 *
 * A bucket that lacks 10 units can take back 10 in all, from any of its open charges. So each open charge has a *right*,
 * the most that it may give back: at first its units. A bucket that refills cuts the rights, the oldest first, until their
 * sum is at most what it lacks. A return then leaves the bucket at the level that a smaller charge would have left.
 * Without rights, a caller could let a bucket refill, give units back, and find more than a burst in it.
 *
 * The ledger is memory of the shard. A charge that it does not have counts as spent: a restart, a state that a SET or a
 * purge has replaced, or want of room lose units, and never admit more. Reservations are
 * stored, too (`reservations.ts`): want of room does not drop them, and after a restart they are put back.
 */
import { takeSlot, type Got } from "./ask-slot.ts";
import {
  isStored,
  KeyCharges,
  type ChargePlace,
  type Held,
  type OpenCharge,
  type StoredCharge,
} from "./key-charges.ts";
import type { Limiter } from "./ratelimit/limiter.ts";
import { DRAWS_MAX } from "./sizes.ts";

/** What a restart must know of a key with reservations, beside the charges themselves. */
export interface LedgerMark {
  /** The state that the key had when the mark was made. */
  readonly state: string;
  /** Of the reservations that it is about: those of another one were charged before a SET or a purge. */
  readonly lineage: number;
  /** Reservations that were opened so far. */
  readonly opened: number;
  /** Order of the first reservation with a right: those before it have none, those behind it all of theirs. */
  readonly first: number;
  /** The right of that charge. */
  readonly right: number;
  /** When the last reservation is over. */
  readonly endNs: bigint;
}

/** A charge that is given back. */
export interface ClosedCharge extends Pick<OpenCharge, "units" | "charged"> {
  /** Units, perhaps a part of one, that a bucket may get. */
  readonly right: number;
}

export class ChargeLedger {
  /** Keys without reservations. The first one is the one that was longest not charged. */
  readonly #keys = new Map<string, KeyCharges>();
  /** Keys with reservations, or a mark. */
  readonly #marked = new Map<string, KeyCharges>();
  #lastNumber: number;
  #lastLineage = 0;
  readonly #held: Held;

  /**
   * @param firstNumber other for each start of the shard, below 2^52: a draw from before must not be taken for one of
   * now
   * @param memory has the bytes of reservations added
   */
  constructor(firstNumber: number, memory: { bytesBeside: number } = { bytesBeside: 0 }) {
    this.#lastNumber = firstNumber;
    this.#held = { draws: 0, memory };
  }

  /** Nothing is known of any key. */
  get isEmpty(): boolean {
    return this.#keys.size === 0 && this.#marked.size === 0;
  }

  /** An id for a draw. */
  nextNumber(): number {
    return ++this.#lastNumber;
  }

  /**
   * Cuts the rights of a key to what its bucket lacks. It must run before each change of the state: a charge makes room
   * that is not the open charges' own.
   *
   * @param state what is stored, null for nothing: another one than was left here ends all charges of the key
   */
  cut(key: string, state: string | null, limiter: Pick<Limiter, "missing">, nowNs: bigint): void {
    const known = this.#known(key, state, nowNs);
    if (known === undefined || known.isWithoutRights) return;
    known.cut(limiter.missing(state, nowNs));
  }

  /** The key has a new state, which follows from the one before. */
  noteState(key: string, state: string): void {
    const known = this.#find(key);
    if (known !== undefined) known.state = state;
  }

  /** What is to be stored with the state of a key; null without reservations. */
  mark(key: string): LedgerMark | null {
    const known = this.#marked.get(key);
    if (known === undefined || known.reserved === 0) return null;
    const { state, lineage, opened, latestNs } = known;
    const first = known.firstReserved();
    return {
      state: state!,
      lineage,
      opened,
      first: first?.place.order ?? opened,
      right: first?.right ?? 0,
      endNs: latestNs,
    };
  }

  /** True for a key with a mark that is stored. */
  hasMark(key: string): boolean {
    return this.#marked.get(key)?.hasMark ?? false;
  }

  /** Says whether a mark is stored now. */
  noteMark(key: string, hasMark: boolean): void {
    const known = this.#marked.get(key);
    if (known === undefined) return;
    known.hasMark = hasMark;
    if (hasMark || known.reserved > 0) return;
    this.#marked.delete(key);
    this.#keys.set(key, known);
  }

  /** Until when the state of a key must be stored, ns, so that its reservations find it; 0 without any. */
  stateEndNs(key: string): bigint {
    const known = this.#marked.get(key);
    return known === undefined || known.reserved === 0 ? 0n : known.latestNs;
  }

  /** Says that a stored reservation has a lineage: later ones have others. */
  noteLineage(lineage: number): void {
    if (lineage > this.#lastLineage) this.#lastLineage = lineage;
  }

  /** Puts back what was stored of a key: its mark, and its reservations, in any order. */
  restore(key: string, mark: LedgerMark, stored: readonly StoredCharge[], nowNs: bigint): void {
    const { state, lineage, opened } = mark;
    const known = new KeyCharges(this.#held, state, nowNs);
    known.lineage = lineage;
    known.opened = opened;
    known.hasMark = true;
    this.#marked.set(key, known);
    const ofMark = stored.filter(({ place }) => place.lineage === lineage);
    for (const charge of ofMark.toSorted((a, b) => a.place.order - b.place.order)) {
      const { units, place } = charge;
      const { order } = place;
      const right = order < mark.first ? 0 : order === mark.first ? mark.right : units;
      known.add(charge, right);
    }
  }

  /** Forgets everything: what was stored is put back afterwards. */
  clear(): void {
    for (const known of this.#marked.values()) known.closeAll();
    this.#keys.clear();
    this.#marked.clear();
    this.#held.draws = 0;
  }

  /** Forgets keys, as other shards own them now. */
  forgetKeys(isForgotten: (key: string) => boolean): void {
    for (const keys of [this.#keys, this.#marked]) {
      for (const [key, known] of keys) {
        if (!isForgotten(key)) continue;
        known.closeAll();
        keys.delete(key);
      }
    }
  }

  /** Closes reservations that are over, and drops keys that had no others and have no open charges. */
  sweep(nowNs: bigint): void {
    for (const [key, known] of this.#marked) {
      if (known.latestNs > nowNs) continue;
      known.closeEnded(nowNs);
      if (known.isEmpty) this.#marked.delete(key);
    }
  }

  /** The place of the next reservation of a key. `cut` must have run at this moment. */
  nextPlace(key: string): ChargePlace {
    const { lineage = 0, opened: order = 0 } = this.#find(key) ?? {};
    return { lineage: lineage === 0 ? ++this.#lastLineage : lineage, order };
  }

  /**
   * Notes a charge.
   *
   * @param state what is stored now
   */
  open(key: string, state: string, charge: OpenCharge, nowNs: bigint): void {
    const known = this.#find(key) ?? new KeyCharges(this.#held, state, nowNs);
    known.state = state;
    if (isStored(charge)) {
      known.lineage = charge.place.lineage;
      known.opened = charge.place.order + 1;
    }
    known.add(charge, charge.units);
    this.#touch(key, known);
    this.#makeRoom();
  }

  /**
   * What a charge could give back now. `cut` must have run at this moment.
   *
   * @param state as of `cut`
   * @returns null for a charge that is not known, or is over
   */
  find(
    key: string,
    state: string | null,
    id: OpenCharge["id"],
    nowNs: bigint,
  ): ClosedCharge | null {
    return this.#known(key, state, nowNs)?.get(id) ?? null;
  }

  /**
   * Ends a charge, which counts once. `cut` must have run at this moment.
   *
   * @param state as of `cut`
   * @param units at most those charged count
   * @returns null for a charge that is not known, or is over
   */
  close(
    key: string,
    state: string | null,
    { id, units }: Pick<OpenCharge, "id" | "units">,
    nowNs: bigint,
  ): ClosedCharge | null {
    const known = this.#known(key, state, nowNs);
    const entry = known?.get(id);
    if (entry === undefined) return null;
    const { right, charged } = entry;
    known!.close(entry);
    return { units: Math.min(units, entry.units), right, charged };
  }

  /** The pause, ns, after which a caller asks again: the more callers, the longer. */
  pauseNs(key: string, state: string | null, got: Got, nowNs: bigint): bigint {
    let known = this.#find(key);
    const slot = takeSlot(known?.askNs ?? nowNs, got, nowNs);
    if (slot === null) return 0n;
    known ??= new KeyCharges(this.#held, state, nowNs);
    known.askNs = slot.askNs;
    this.#touch(key, known);
    this.#makeRoom();
    return slot.pauseNs;
  }

  #find(key: string): KeyCharges | undefined {
    return this.#marked.get(key) ?? this.#keys.get(key);
  }

  /** What is known of a key, if its state is the one that was left here. */
  #known(key: string, state: string | null, nowNs: bigint): KeyCharges | undefined {
    const known = this.#find(key);
    if (known === undefined) return undefined;
    if (known.state !== state) known.forget(state);
    known.closeEnded(nowNs);
    if (!known.isEmpty || known.askNs > nowNs || known.hasMark) return known;
    this.#keys.delete(key);
    this.#marked.delete(key);
    return undefined;
  }

  #touch(key: string, known: KeyCharges): void {
    this.#keys.delete(key);
    if (known.reserved > 0 || known.hasMark) this.#marked.set(key, known);
    else this.#keys.set(key, known);
  }

  /**
   * Drops what is known of keys without reservations, those not charged for longest first; then the draws of all other
   * keys.
   */
  #makeRoom(): void {
    const held = this.#held;
    for (const [key, known] of this.#keys) {
      if (held.draws <= DRAWS_MAX && this.#keys.size <= DRAWS_MAX) return;
      this.#keys.delete(key);
      known.closeAll();
    }
    if (held.draws <= DRAWS_MAX) return;
    for (const known of this.#marked.values()) known.closeDraws();
  }
}
