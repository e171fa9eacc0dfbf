/**
 * The open charges of one key: by id, in the order in which they were charged, and by their ends.
 *
 * A key may have a hundred thousand of them, so no operation looks at all: closed ones stay in the lists until they are
 * half of them.
 */
import { ChargeEnds } from "./charge-ends.ts";
import { CLOSED_CHARGES_MIN } from "./sizes.ts";

/** A charge that may be given back. */
export interface OpenCharge {
  /** A number for a draw, a text for a charge that its caller has named. */
  readonly id: number | string;
  readonly units: number;
  /** The stored text that the charge left: it says which windows were charged. */
  readonly charged: string;
  /** From then on it counts as spent. */
  readonly endNs: bigint;
  /** Of a charge that is stored, as `nextPlace` gave it. */
  readonly place?: ChargePlace;
}

/** The place of a reservation among those of its key. */
export interface ChargePlace {
  /** As of `LedgerMark`. */
  readonly lineage: number;
  /** How many reservations of its lineage were opened before. */
  readonly order: number;
}

/** A charge that is stored: a reservation. */
export type StoredCharge = OpenCharge & { readonly place: ChargePlace };

/** A charge with its right. */
export type Entry = OpenCharge & {
  right: number;
  isClosed: boolean;
};

/** What all keys hold together. */
export interface Held {
  /** Open charges that are not stored. */
  draws: number;
  /** Has the bytes of open reservations added. */
  readonly memory: { bytesBeside: number };
}

/** A reservation in the lists, without the text that its charge left. */
const STORED_CHARGE_BYTES = 320;

export class KeyCharges {
  /**
   * The state that the key had when it was last written here: any other one has another history. The same text has the
   * same one, whatever was written in between: all operations on the limit look here first, so none came in between.
   */
  state: string | null;
  /** 0 until the first reservation. */
  lineage = 0;
  /** Reservations of the lineage that were opened. */
  opened = 0;
  /** Open reservations. */
  reserved = 0;
  /** No reservation is over later. */
  latestNs = 0n;
  /** A mark is stored. */
  hasMark = false;
  /** When the next caller that is refused may ask again. */
  askNs: bigint;
  readonly #held: Held;
  readonly #open = new Map<OpenCharge["id"], Entry>();
  /** The oldest first. */
  #charges: Entry[] = [];
  /** Charges before this one have no right. */
  #firstRight = 0;
  /** The sum of all rights. */
  #rights = 0;
  #ends = new ChargeEnds<Entry>([]);

  constructor(held: Held, state: string | null, nowNs: bigint) {
    this.#held = held;
    this.state = state;
    this.askNs = nowNs;
  }

  /** No charge is open. */
  get isEmpty(): boolean {
    return this.#open.size === 0;
  }

  /** No charge has a right. */
  get isWithoutRights(): boolean {
    return this.#rights === 0;
  }

  get(id: OpenCharge["id"]): Entry | undefined {
    return this.#open.get(id);
  }

  /** Adds a charge, with the right that it has. */
  add(charge: OpenCharge, right: number): void {
    const entry = { ...charge, right, isClosed: false };
    this.#open.set(entry.id, entry);
    this.#charges.push(entry);
    this.#ends.add(entry);
    this.#rights += right;
    this.#count(entry, 1);
    if (isStored(entry) && entry.endNs > this.latestNs) this.latestNs = entry.endNs;
  }

  close(entry: Entry): void {
    this.#rights -= entry.right;
    entry.right = 0;
    entry.isClosed = true;
    this.#open.delete(entry.id);
    this.#count(entry, -1);
    const { size } = this.#open;
    if (size === 0 || this.#charges.length > 2 * size + CLOSED_CHARGES_MIN) this.#compact();
  }

  /** Closes those that are over. */
  closeEnded(nowNs: bigint): void {
    for (let first = this.#ends.first; first !== undefined && first.endNs <= nowNs;) {
      this.#ends.removeFirst();
      if (!first.isClosed) this.close(first);
      first = this.#ends.first;
    }
  }

  closeAll(): void {
    for (const entry of this.#open.values()) this.close(entry);
  }

  /** Closes those that are not stored. */
  closeDraws(): void {
    for (const entry of this.#open.values()) if (!isStored(entry)) this.close(entry);
  }

  /** The key has a state with another history: all that was charged before counts as spent. */
  forget(state: string | null): void {
    this.closeAll();
    this.state = state;
    this.lineage = 0;
    this.opened = 0;
  }

  /** Cuts the rights to what the bucket lacks, those of the oldest charges first. */
  cut(missing: number): void {
    const charges = this.#charges;
    let excess = this.#rights - missing;
    while (excess > 0 && this.#firstRight < charges.length) {
      const entry = charges[this.#firstRight]!;
      const lost = Math.min(entry.right, excess);
      entry.right -= lost;
      this.#rights -= lost;
      excess -= lost;
      if (entry.right === 0) this.#firstRight++;
    }
  }

  /** The first reservation with a right. */
  firstReserved(): (Entry & StoredCharge) | undefined {
    const charges = this.#charges;
    while (charges[this.#firstRight]?.right === 0) this.#firstRight++;
    for (let at = this.#firstRight; at < charges.length; at++) {
      const entry = charges[at]!;
      if (isStored(entry) && entry.right > 0) return entry;
    }
    return undefined;
  }

  #count(entry: Entry, by: 1 | -1): void {
    if (!isStored(entry)) {
      this.#held.draws += by;
      return;
    }
    this.reserved += by;
    this.#held.memory.bytesBeside += by * storedChargeBytes(entry);
  }

  /** Takes closed charges out of the lists. */
  #compact(): void {
    this.#charges = [...this.#open.values()];
    this.#ends = new ChargeEnds(this.#charges);
    this.#firstRight = 0;
    this.#rights = this.#charges.reduce((sum, { right }) => sum + right, 0);
  }
}

/** Bytes of memory that a reservation takes, with the part of its key. They count against the budget of records. */
export const storedChargeBytes = ({ charged }: Pick<OpenCharge, "charged">): number =>
  STORED_CHARGE_BYTES + charged.length;

export const isStored = <Charge extends OpenCharge>(
  charge: Charge,
): charge is Charge & StoredCharge => charge.place !== undefined;
