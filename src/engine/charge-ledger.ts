/**
 * The charge ledger: what was charged to limits, and may still be given back.
 *
 * A bucket that lacks 10 units can take 10 back, whoever gives them. So every open charge has a *right*: at first its
 * units. A bucket that refills uses up the rights, the oldest first, until all of them together are no more than it
 * lacks. What is given back then leaves the bucket as it would be had it charged less in the first place; without
 * rights, a caller could let a bucket refill, give back, and find more than a burst in it.
 *
 * The ledger is memory of the shard. A charge that it does not have counts as spent: a restart, a state that a SET or a
 * purge has replaced, or want of room lose units, and never admit more.
 */
import type { Limiter } from "./ratelimit/limiter.ts";

/** A charge that may be given back. */
export interface OpenCharge {
  /** A number for a draw, a text for a charge that its caller has named. */
  readonly id: number | string;
  readonly units: number;
  /** The stored text that the charge left: it says which windows were charged. */
  readonly charged: string;
  /** From then on it counts as spent. */
  readonly endNs: bigint;
}

/** A charge that is given back. */
export interface ClosedCharge extends Pick<OpenCharge, "units" | "charged"> {
  /** Units, perhaps a part of one, that a bucket may get. */
  readonly right: number;
}

type Entry = OpenCharge & {
  right: number;
  isClosed: boolean;
};

/** Of one key. */
interface KeyCharges {
  /** The state that the key had when it was last written here: any other one has another history. */
  state: string | null;
  /** The oldest first. Those that are closed or over stay until there are twice as many as were in use. */
  charges: Entry[];
  sweepAt: number;
  /** Charges before this one have no right. */
  firstRight: number;
  /** The sum of all rights. */
  rights: number;
  /** When the next caller that is refused may ask again. */
  askNs: bigint;
}

/** Charges of all keys, and keys with a pause. A stranger can draw from any number of keys. */
const ENTRIES_MAX = 16_384;
/** A key that is refused is asked about once in so many ns, however many callers wait for it. */
const ASK_INTERVAL_NS = 2_000_000n;
/** A key has so many charges before it is swept. */
const SWEEP_MIN = 16;

export class ChargeLedger {
  /** The first key is the one that was longest not charged. */
  readonly #keys = new Map<string, KeyCharges>();
  #entries = 0;
  #lastNumber: number;

  /**
   * @param firstNumber other for each start of the shard, below 2^52: a draw from before must not be taken for one of
   * now
   */
  constructor(firstNumber: number) {
    this.#lastNumber = firstNumber;
  }

  /** Nothing is known of any key. */
  get isEmpty(): boolean {
    return this.#keys.size === 0;
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
    if (known === undefined || known.rights === 0) return;
    const { charges } = known;
    let excess = known.rights - limiter.missing(state, nowNs);
    while (excess > 0 && known.firstRight < charges.length) {
      const entry = charges[known.firstRight]!;
      const lost = Math.min(entry.right, excess);
      entry.right -= lost;
      known.rights -= lost;
      excess -= lost;
      if (entry.right === 0) known.firstRight++;
    }
  }

  /** The key has a new state, which follows from the one before. */
  noteState(key: string, state: string): void {
    const known = this.#keys.get(key);
    if (known !== undefined) known.state = state;
  }

  /**
   * Notes a charge.
   *
   * @param state what is stored now
   */
  open(key: string, state: string, charge: OpenCharge, nowNs: bigint): void {
    const known = this.#keys.get(key) ?? newKey(state, nowNs);
    if (known.charges.length >= known.sweepAt) this.#sweep(known, nowNs);
    known.state = state;
    known.charges.push({ ...charge, right: charge.units, isClosed: false });
    known.rights += charge.units;
    this.#entries++;
    this.#touch(key, known);
    this.#makeRoom();
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
    const entry = known?.charges.find((charge) => charge.id === id && isOpen(charge, nowNs));
    if (entry === undefined) return null;
    const { right, charged } = entry;
    known!.rights -= right;
    entry.right = 0;
    entry.isClosed = true;
    return { units: Math.min(units, entry.units), right, charged };
  }

  /**
   * The pause, ns, after which a caller that was refused asks again: the more callers, the longer, so that a key near
   * its limit does not send every check to the shard.
   *
   * @param pauseNsMax the longest pause
   */
  pauseNs(key: string, state: string | null, pauseNsMax: bigint, nowNs: bigint): bigint {
    const known = this.#keys.get(key) ?? newKey(state, nowNs);
    const earliestNs = known.askNs > nowNs ? known.askNs : nowNs;
    const pauseNs = earliestNs + ASK_INTERVAL_NS - nowNs;
    known.askNs = nowNs + (pauseNs < pauseNsMax ? pauseNs : pauseNsMax);
    this.#touch(key, known);
    this.#makeRoom();
    return known.askNs - nowNs;
  }

  /** What is known of a key, if its state is the one that was left here. */
  #known(key: string, state: string | null, nowNs: bigint): KeyCharges | undefined {
    const known = this.#keys.get(key);
    if (known === undefined) return undefined;
    if (known.state !== state) this.#forgetCharges(known, state, nowNs);
    const last = known.charges.at(-1);
    if (last !== undefined && !isOpen(last, nowNs)) this.#sweep(known, nowNs);
    if (known.charges.length > 0 || known.askNs > nowNs) return known;
    this.#keys.delete(key);
    return undefined;
  }

  #forgetCharges(known: KeyCharges, state: string | null, nowNs: bigint): void {
    this.#entries -= known.charges.length;
    Object.assign(known, { ...newKey(state, nowNs), askNs: known.askNs });
  }

  /** Drops the charges of a key that are closed or over. */
  #sweep(known: KeyCharges, nowNs: bigint): void {
    const charges = known.charges.filter((charge) => isOpen(charge, nowNs));
    this.#entries -= known.charges.length - charges.length;
    known.charges = charges;
    known.sweepAt = Math.max(SWEEP_MIN, 2 * charges.length);
    known.firstRight = 0;
    known.rights = charges.reduce((sum, { right }) => sum + right, 0);
  }

  #touch(key: string, known: KeyCharges): void {
    this.#keys.delete(key);
    this.#keys.set(key, known);
  }

  /** Drops what is known of keys, those not charged for longest first. */
  #makeRoom(): void {
    for (const [key, { charges }] of this.#keys) {
      if (this.#entries <= ENTRIES_MAX && this.#keys.size <= ENTRIES_MAX) return;
      this.#keys.delete(key);
      this.#entries -= charges.length;
    }
  }
}

const newKey = (state: string | null, nowNs: bigint): KeyCharges => ({
  state,
  charges: [],
  sweepAt: SWEEP_MIN,
  firstRight: 0,
  rights: 0,
  askNs: nowNs,
});

const isOpen = ({ isClosed, endNs }: Entry, nowNs: bigint): boolean => !isClosed && endNs > nowNs;
