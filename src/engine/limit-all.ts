/**
 * The part of a LIMIT_ALL that one shard has: several limits, all of which are charged in one step, or none.
 *
 * Where limits of other shards take part, the charge has an id, by which the door cancels it when another shard refuses.
 * A cancel may overtake its charge, so the id is remembered, and the charge refused when it comes.
 */
import { binaryString, ByteWriter } from "../wire/bytes.ts";
import { REPLY_HEADER_BYTES, writeError } from "../wire/edge/command.ts";
import { writeDecision } from "../wire/edge/decision.ts";
import { isComposite } from "../wire/ratelimit/binary.ts";
import { withoutSuffix } from "../wire/ratelimit/keys.ts";
import { STATUS_SUCCESS } from "../wire/throttr/requests.ts";
import { CancelledIds } from "./cancelled-ids.ts";
import type { ChargeParts } from "./charge-parts.ts";
import { giveBack } from "./given-back.ts";
import type { LimitParts } from "./limit-commands.ts";
import { keyOf, readEntries, type LimitEntry } from "./limit-all-entries.ts";
import { LimitStates, type StoredState } from "./limit-states.ts";
import type { Limiter, StoredDecision } from "./ratelimit/limiter.ts";
import { realDecision } from "./real-decision.ts";
import type { Records } from "./records.ts";
import { isRefusal, messageAbout, Refusal } from "./refusal.ts";

/** How long a charge can be cancelled: longer than a door waits for the answers of all shards. */
const CANCEL_NS = 10_000_000_000n;

/** A record that is charged: all entries that are about it. */
interface Charge {
  readonly key: string;
  /** The first of its entries. */
  readonly entry: LimitEntry;
  readonly limiter: Limiter;
  cost: number;
}

/** A charge that was judged, and what was stored before. */
interface Judged extends Charge {
  readonly before: StoredState | null;
  readonly decision: StoredDecision;
  /** Of the key, seeded. */
  readonly hash: number;
}

export class LimitAll {
  readonly #records: Records;
  readonly #states: LimitStates;
  readonly #parts: LimitParts & ChargeParts;
  readonly #out = new ByteWriter(1024);
  readonly #cancelled = new CancelledIds();

  constructor(records: Records, parts: LimitParts) {
    this.#records = records;
    this.#states = new LimitStates(records);
    this.#parts = { ...parts, records, states: this.#states };
  }

  /**
   * Charges all entries of a body, or none, and returns the reply.
   *
   * @param id cancels the charge; null where no other shard takes part
   */
  execute(body: Uint8Array, id: string | null): Uint8Array<ArrayBuffer> {
    this.#parts.reservations.ensureLedger();
    const out = this.#out;
    out.reset();
    try {
      const entries = readEntries(body);
      const judged = this.#decide(entries, id);
      out.u8(STATUS_SUCCESS);
      const sizeAt = out.reserve(REPLY_HEADER_BYTES - 1);
      for (const entry of entries) this.#write(entry, judged.get(keyOf(entry))!);
      out.view.setUint32(sizeAt, out.length - REPLY_HEADER_BYTES, true);
    } catch (error) {
      if (!isRefusal(error)) throw error;
      out.reset();
      writeError(out, error.message);
    }
    return out.take();
  }

  /**
   * Gives back what a body was charged for under an id, or sees to it that the charge is refused when it comes.
   *
   * @param body as of `execute`
   * @returns why a key has kept its charge; null where all have given it back
   */
  cancel(body: Uint8Array, id: string): Error | null {
    const { ledger, reservations } = this.#parts;
    reservations.ensureLedger();
    const nowNs = this.#records.now.toBig();
    let isKnown = false;
    let failure: Error | null = null;
    for (const { key, entry, limiter } of this.#chargesOf(readEntries(body)).values()) {
      try {
        const state = this.#states.find(entry);
        ledger.cut(key, state, limiter, nowNs);
        const charge = { id, units: Infinity };
        const given = giveBack(this.#parts, { ...entry, key, limiter }, state, charge);
        isKnown ||= given !== null;
      } catch (error) {
        // The other keys can give theirs back.
        if (!isRefusal(error)) throw error;
        failure = error;
      }
    }
    if (!isKnown) this.#cancelled.add(id, this.#records.nowMs);
    return failure;
  }

  #decide(entries: readonly LimitEntry[], id: string | null): ReadonlyMap<string, Judged> {
    const charges = this.#chargesOf(entries);
    for (const entry of entries) this.#takeReturns(entry, charges.get(keyOf(entry))!);
    if (id !== null && this.#cancelled.has(id, this.#records.nowMs)) throw new Refusal(CANCELLED);
    const judged = new Map<string, Judged>();
    for (const charge of charges.values()) {
      judged.set(
        charge.key,
        this.#about(charge.entry, () => this.#judge(charge)),
      );
    }
    const all = [...judged.values()];
    const isGranted = all.every(({ entry, decision }) => decision.allowed || entry.isShadow);
    if (isGranted)
      this.#charge(
        all.filter(({ decision }) => decision.allowed),
        id,
      );
    else for (const { entry } of all) this.#countRead(entry);
    return judged;
  }

  /** By key: the costs of entries that are about one record are added. */
  #chargesOf(entries: readonly LimitEntry[]): Map<string, Charge> {
    const charges = new Map<string, Charge>();
    for (const entry of entries) {
      const key = keyOf(entry);
      const known = charges.get(key);
      if (known !== undefined) {
        known.cost += entry.cost;
        continue;
      }
      const { bytes, configurationAt, end, cost } = entry;
      const limiter = this.#about(entry, () =>
        this.#parts.limiters.of(bytes, configurationAt, end),
      );
      charges.set(key, { key, entry, limiter, cost });
    }
    return charges;
  }

  /** Stores what is given back at once: it counts whatever is decided then. */
  #takeReturns({ returns }: LimitEntry, { key, entry, limiter }: Charge): void {
    if (returns.length === 0) return;
    this.#about(entry, () => {
      let state = this.#states.find(entry);
      this.#parts.ledger.cut(key, state, limiter, this.#records.now.toBig());
      for (const given of returns) {
        state = giveBack(this.#parts, { ...entry, key, limiter }, state, given) ?? state;
      }
    });
  }

  #judge(charge: Charge): Judged {
    const { key, entry, limiter, cost } = charge;
    const nowNs = this.#records.now.toBig();
    const before = this.#states.findStored(entry);
    const { hash } = this.#records.table;
    const state = before?.state ?? null;
    this.#parts.ledger.cut(key, state, limiter, nowNs);
    return { ...charge, before, decision: limiter.limit(state, nowNs, cost), hash };
  }

  /**
   * Stores charges, and notes them under the id.
   *
   * @throws Refusal when the shard has no room for one of them; all is as it was then
   */
  #charge(charges: readonly Judged[], id: string | null): void {
    const { ledger, reservations } = this.#parts;
    const stored: Judged[] = [];
    try {
      for (const charge of charges) {
        const { key, entry, decision } = charge;
        this.#about(entry, () => {
          this.#states.find(entry);
          this.#states.store(entry, decision.state!, decision.ttlNs, ledger.stateEndNs(key));
        });
        stored.push(charge);
      }
    } catch (error) {
      for (const { entry, before } of stored) this.#states.putBack(entry, before);
      throw error;
    }
    const nowNs = this.#records.now.toBig();
    for (const { key, entry, cost, decision } of charges) {
      const state = decision.state!;
      reservations.noteState(entry, key, state);
      if (id !== null) {
        const endNs = nowNs + CANCEL_NS;
        ledger.open(key, state, { id, units: cost, charged: state, endNs }, nowNs);
      }
    }
  }

  #countRead(entry: LimitEntry): void {
    if (this.#states.find(entry) !== null) this.#records.countRead();
  }

  /** Writes the decision about an entry, and counts it. */
  #write(
    { bytes, keyAt, keyBytes, configurationAt }: LimitEntry,
    { decision, hash }: Judged,
  ): void {
    // People know a key without the end that marks the state of a composite.
    const isPair = isComposite(bytes, configurationAt);
    const length = isPair ? withoutSuffix(bytes, keyAt, keyBytes) : keyBytes;
    this.#parts.figures?.countDecisions(decision.allowed, 1, hash, bytes, keyAt, length);
    writeDecision(this.#out, realDecision(this.#records, decision));
  }

  /**
   * Does something for an entry. What fails is counted as an error of its limit, and says which key it is about.
   *
   * @throws Refusal
   */
  #about<Result>(entry: LimitEntry, act: () => Result): Result {
    try {
      return act();
    } catch (error) {
      if (!isRefusal(error)) throw error;
      const { bytes, keyAt, keyBytes } = entry;
      this.#parts.figures?.countError(bytes, keyAt, keyBytes);
      throw new Refusal(messageAbout(error, binaryString(bytes, keyAt, keyBytes)));
    }
  }
}

const CANCELLED = "charge_cancelled: the charge was cancelled before it came";
