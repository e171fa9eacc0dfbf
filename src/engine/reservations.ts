/**
 * Reservations as they are stored: buffers in a keyspace of their own, which no request lists or exports.
 *
 *     reservation = id 16, key: units f64, settled f64 or -1, lineage f64, order f64, text that the charge left
 *     mark        = zeros 16, key: first f64, right f64, lineage f64, opened f64, text of the key's state
 *
 * Little-endian. The key is that of the limit's state. A key with open reservations has one mark, which is written with
 * each change of its state and in the same commit: `LedgerMark`. With it a restart knows the rights of all
 * reservations, and whether the state was replaced since. Both expire when the reservations end; a settled one loses its
 * text, and stays, so that it is settled once.
 */
import { binaryBytes, binaryString, ByteWriter } from "../wire/bytes.ts";
import { RESERVATION_ID_BYTES } from "../wire/edge/reservation-bounds.ts";
import { Keyspace } from "../wire/keyspace.ts";
import type { ChargeLedger, LedgerMark } from "./charge-ledger.ts";
import type { ChargePlace, OpenCharge, StoredCharge } from "./key-charges.ts";
import type { StateKey } from "./limit-states.ts";
import type { Records } from "./records.ts";
import {
  EXPIRES_HIGH,
  EXPIRES_LOW,
  hasExpired,
  KEY_AT,
  keyLengthOf,
  keyspaceOf,
  LOW,
  META,
  SLOT_WORDS,
  type Segment,
} from "./segment.ts";
import { U64 } from "./time.ts";

/** Bytes of a value before its text. */
export const RESERVATION_FIELDS_BYTES = 32;
/** In place of a cost. */
const OPEN = -1;
/** TTL type, as of all records that callers don't see. */
const MILLISECONDS = 3;
/** A settled reservation is known for so long at least: the message that settles it may be sent again. */
const SETTLED_NS_MIN = 60_000_000_000n;
const MARK_ID = new Uint8Array(RESERVATION_ID_BYTES);

/** A reservation that was found. */
export interface StoredReservation {
  readonly units: number;
  /** The cost that it was settled with; null for an open one. */
  readonly settled: number | null;
}

/** A reservation as the walk after a restart finds it. */
interface FoundKey {
  mark: LedgerMark | null;
  readonly charges: StoredCharge[];
}

export class Reservations {
  readonly #records: Records;
  readonly #ledger: ChargeLedger;
  /** Records were restored that the ledger does not know. */
  #isStale = false;
  /** Key and value of a record. */
  readonly #scratch = new ByteWriter(256);
  readonly #expires = new U64();

  constructor(records: Records, ledger: ChargeLedger) {
    this.#records = records;
    this.#ledger = ledger;
  }

  /** Says that records of reservations were restored, or their times moved. */
  noteRestored(): void {
    this.#isStale = true;
  }

  /**
   * The reservation of an id, 16 bytes, and the key of a command; its record becomes the current one. Null where it does
   * not exist or has ended.
   */
  find(stateKey: StateKey, id: Uint8Array): StoredReservation | null {
    if (!this.#find(stateKey, id)) return null;
    const { segment, slot } = this.#records;
    const view = fieldsOf(segment, slot);
    const settled = view.getFloat64(8, true);
    return { units: view.getFloat64(0, true), settled: settled === OPEN ? null : settled };
  }

  /** Stores a reservation; false when the shard has no room. */
  add(
    stateKey: StateKey,
    id: Uint8Array,
    { units, charged, endNs }: Omit<OpenCharge, "id">,
    { lineage, order }: ChargePlace,
  ): boolean {
    this.#find(stateKey, id);
    return this.#set(stateKey, id, [units, OPEN, lineage, order], charged, endNs);
  }

  /** Takes back a reservation that was just added. */
  remove(stateKey: StateKey, id: Uint8Array): void {
    if (this.#find(stateKey, id)) this.#records.remove();
  }

  /**
   * Stores a mark for a key that has none, so that there is room for its first reservation's: `storeMark` must follow.
   *
   * @returns false when the shard has no room
   */
  addMark(stateKey: StateKey, { charged, endNs }: Pick<OpenCharge, "charged" | "endNs">): boolean {
    this.#find(stateKey, MARK_ID);
    return this.#set(stateKey, MARK_ID, [0, 0, 0, 0], charged, endNs);
  }

  /** Takes back a mark that was just added. */
  removeMark(stateKey: StateKey): void {
    this.remove(stateKey, MARK_ID);
  }

  /** Notes with which cost an open reservation was settled. */
  settle(stateKey: StateKey, id: Uint8Array, cost: number): void {
    if (!this.#find(stateKey, id)) return;
    const { segment, slot, now } = this.#records;
    const units = fieldsOf(segment, slot).getFloat64(0, true);
    const keptNs = now.toBig() + SETTLED_NS_MIN;
    const endNs = endOf(segment, slot);
    // It becomes shorter, so there is room.
    this.#set(stateKey, id, [units, cost, 0, 0], "", endNs > keptNs ? endNs : keptNs);
  }

  /** The key has a new state, which follows from the one before, and is stored. */
  noteState(stateKey: StateKey, key: string, state: string): void {
    this.#ledger.noteState(key, state);
    this.storeMark(stateKey, key);
  }

  /** Stores the mark of a key, or removes it with the last open reservation. */
  storeMark(stateKey: StateKey, key: string): void {
    const ledger = this.#ledger;
    const mark = ledger.mark(key);
    if (mark === null && !ledger.hasMark(key)) return;
    const exists = this.#find(stateKey, MARK_ID);
    let isSet = false;
    if (mark === null) {
      if (exists) this.#records.remove();
    } else {
      // A state that becomes longer makes its mark longer by as much: without it, reservations would be spent after a restart.
      this.#records.space.neverRefusing(() => {
        isSet = this.#setMark(stateKey, mark);
      });
    }
    ledger.noteMark(key, isSet);
  }

  #setMark(stateKey: StateKey, { first, right, lineage, opened, state, endNs }: LedgerMark) {
    return this.#set(stateKey, MARK_ID, [first, right, lineage, opened], state, endNs);
  }

  /** Takes those whose records were removed, with their marks, out of the ledger. */
  forgetRemoved(): void {
    const ledger = this.#ledger;
    ledger.forgetKeys((key) => {
      if (!ledger.hasMark(key)) return false;
      const bytes = binaryBytes(key);
      return !this.#find({ bytes, keyAt: 0, keyBytes: bytes.length }, MARK_ID);
    });
  }

  /** Puts the reservations of restored records into the ledger, once. */
  ensureLedger(): void {
    if (!this.#isStale) return;
    this.#isStale = false;
    this.#ledger.clear();
    const found = new Map<string, FoundKey>();
    for (const segment of this.#records.table.segments()) this.#collect(segment, found);
    const nowNs = this.#records.now.toBig();
    for (const [key, { mark, charges }] of found) {
      if (mark !== null) this.#ledger.restore(key, mark, charges, nowNs);
    }
  }

  #collect(segment: Segment, found: Map<string, FoundKey>): void {
    const { slots, arena } = segment;
    for (let slot = 0; slot < slots.length; slot += SLOT_WORDS) {
      const meta = slots[slot + META]!;
      if (meta === 0 || keyspaceOf(meta) !== Keyspace.reservations) continue;
      if (this.#records.table.isGiven(meta)) continue;
      if (hasExpired(slots, slot, this.#records.now)) continue;
      const idAt = slots[slot + KEY_AT]!;
      const id = binaryString(arena, idAt, RESERVATION_ID_BYTES);
      const keyBytes = keyLengthOf(meta) - RESERVATION_ID_BYTES;
      const key = binaryString(arena, idAt + RESERVATION_ID_BYTES, keyBytes);
      let ofKey = found.get(key);
      if (ofKey === undefined) found.set(key, (ofKey = { mark: null, charges: [] }));
      const view = fieldsOf(segment, slot);
      const text = textOf(segment, slot);
      const [a, b, lineage, d] = [0, 8, 16, 24].map((at) => view.getFloat64(at, true));
      const endNs = endOf(segment, slot);
      this.#ledger.noteLineage(lineage!);
      if (id === MARK_TEXT) {
        ofKey.mark = { first: a!, right: b!, lineage: lineage!, opened: d!, state: text, endNs };
      } else if (b === OPEN) {
        const place = { lineage: lineage!, order: d! };
        ofKey.charges.push({ id, units: a!, place, charged: text, endNs });
      }
    }
  }

  /** Looks up the record of an id and the key of a command. */
  #find({ bytes, keyAt, keyBytes }: StateKey, id: Uint8Array): boolean {
    const scratch = this.#scratch;
    scratch.reset();
    scratch.copy(id);
    scratch.copy(bytes, keyAt, keyAt + keyBytes);
    return this.#records.find(Keyspace.reservations, scratch.bytes, 0, scratch.length) !== 0;
  }

  /** Sets the record that `#find` has looked up. */
  #set(
    { keyBytes }: StateKey,
    id: Uint8Array,
    fields: readonly number[],
    text: string,
    endNs: bigint,
  ): boolean {
    const scratch = this.#scratch;
    for (const field of fields) scratch.f64(field);
    scratch.copy(binaryBytes(text));
    return this.#records.setBufferFrom(
      scratch,
      Keyspace.reservations,
      id.length + keyBytes,
      MILLISECONDS,
      this.#expires.setBig(endNs),
    );
  }
}

const MARK_TEXT = binaryString(MARK_ID, 0, RESERVATION_ID_BYTES);

function fieldsOf(segment: Segment, slot: number): DataView {
  const { buffer, byteOffset } = segment.arena;
  return new DataView(buffer, byteOffset + segment.valueAt(slot), RESERVATION_FIELDS_BYTES);
}

function textOf(segment: Segment, slot: number): string {
  const at = segment.valueAt(slot) + RESERVATION_FIELDS_BYTES;
  return binaryString(segment.arena, at, segment.slots[slot + LOW]! - RESERVATION_FIELDS_BYTES);
}

const endOf = ({ slots }: Segment, slot: number): bigint =>
  new U64().set(slots[slot + EXPIRES_HIGH]!, slots[slot + EXPIRES_LOW]!).toBig();
