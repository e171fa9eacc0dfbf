/** The ledger of open charges: rights, ends, and how much it keeps. */
import fc from "fast-check";
import { describe, expect, inject, it } from "vitest";
import { ChargeLedger } from "../../src/engine/charge-ledger.ts";
import { storedChargeBytes } from "../../src/engine/key-charges.ts";
import { runs } from "../support/runs.ts";

const KEY = "api:ada";
const LIFE_NS = 1000n;

/** A ledger over one key, whose bucket lacks what the test says. */
class Desk {
  readonly ledger = new ChargeLedger(1);
  state = "state";
  nowNs = 0n;
  missing = Infinity;

  open(units: number, lifeNs = LIFE_NS): number {
    this.cut();
    const id = this.ledger.nextNumber();
    const charge = { id, units, charged: this.state, endNs: this.nowNs + lifeNs };
    this.ledger.open(KEY, this.state, charge, this.nowNs);
    return id;
  }

  cut(): void {
    this.ledger.cut(KEY, this.state, { missing: () => this.missing }, this.nowNs);
  }

  /** The right of a charge, which is closed; null for one that is unknown. */
  close(id: number, units = Infinity): number | null {
    this.cut();
    return this.ledger.close(KEY, this.state, { id, units }, this.nowNs)?.right ?? null;
  }
}

describe("the ledger of charges", () => {
  it("a charge of a bucket that has not refilled may be given back whole, once", () => {
    const desk = new Desk();
    const id = desk.open(20);
    expect(desk.close(id)).toBe(20);
    expect(desk.close(id)).toBeNull();
  });

  it("a bucket that has refilled takes the right of the oldest charge first", () => {
    const desk = new Desk();
    const ids = [desk.open(20), desk.open(30), desk.open(40)];
    desk.missing = 60;
    expect(ids.map((id) => desk.close(id))).toEqual([0, 20, 40]);
  });

  it("a right that was cut stays cut when the bucket is emptied again", () => {
    const desk = new Desk();
    const id = desk.open(20);
    desk.missing = 5;
    desk.cut();
    desk.missing = 100;
    expect(desk.close(id)).toBe(5);
  });

  it("a full bucket leaves the right of later charges whole", () => {
    const desk = new Desk();
    const before = desk.open(20);
    desk.missing = 0;
    const after = desk.open(30);
    desk.missing = 30;
    expect([desk.close(before), desk.close(after)]).toEqual([0, 30]);
  });

  it("a charge that is over is unknown, also between others that are not", () => {
    const desk = new Desk();
    const long = desk.open(1, 10n * LIFE_NS);
    const short = desk.open(2);
    const last = desk.open(3, 10n * LIFE_NS);
    desk.nowNs = LIFE_NS;
    expect([desk.close(short), desk.close(long), desk.close(last)]).toEqual([null, 1, 3]);
  });

  it("all charges of a key end when its state has another history", () => {
    const desk = new Desk();
    const id = desk.open(20);
    desk.state = "another";
    expect(desk.close(id)).toBeNull();
    expect(desk.close(desk.open(7))).toBe(7);
  });

  it("a state that follows from the one before keeps the charges", () => {
    const desk = new Desk();
    const id = desk.open(20);
    desk.ledger.noteState(KEY, "next");
    desk.state = "next";
    expect(desk.close(id)).toBe(20);
  });

  it("a key whose charges are closed or over is forgotten", () => {
    const desk = new Desk();
    desk.close(desk.open(1));
    desk.cut();
    expect(desk.ledger.isEmpty).toBe(true);
    desk.open(2);
    desk.nowNs = LIFE_NS;
    desk.cut();
    expect(desk.ledger.isEmpty).toBe(true);
  });

  it("charges of one key that come and go keep their rights over any number of sweeps", () => {
    const desk = new Desk();
    const held = desk.open(5, 1_000_000n);
    for (let i = 0; i < 1000; i++) {
      desk.nowNs += LIFE_NS / 4n;
      desk.open(1);
      desk.missing = 200;
    }
    expect(desk.close(held)).toBe(5);
  });

  it("a stranger who charges ever more keys makes the ledger forget the oldest ones, not grow", () => {
    const { ledger } = new Desk();
    const open = (i: number): void =>
      ledger.open(`key ${i}`, "s", { id: i, units: 1, charged: "s", endNs: 9n }, 0n);
    const isKnown = (i: number): boolean =>
      ledger.close(`key ${i}`, "s", { id: i, units: 1 }, 1n) !== null;
    for (let i = 0; i < 20_000; i++) open(i);
    expect(isKnown(3615)).toBe(false);
    expect(isKnown(3616)).toBe(true);
    expect(isKnown(19_999)).toBe(true);
  });

  it("want of room drops draws, also those of keys with reservations, and no reservation", () => {
    const memory = { bytesBeside: 0 };
    const ledger = new ChargeLedger(1, memory);
    const open = (key: string, id: number | string): void => {
      const place = typeof id === "string" ? { place: ledger.nextPlace(key) } : {};
      ledger.open(key, "s", { id, units: 1, charged: "s", endNs: 9n, ...place }, 0n);
    };
    const isKnown = (key: string, id: number | string): boolean =>
      ledger.close(key, "s", { id, units: 1 }, 1n) !== null;
    open(KEY, "held");
    expect(memory.bytesBeside).toBe(storedChargeBytes({ charged: "s" }));
    for (let i = 0; i < 20_000; i++) open(KEY, i);
    expect(isKnown(KEY, 3615)).toBe(false);
    expect(isKnown(KEY, 19_999)).toBe(true);
    for (let i = 0; i < 20_000; i++) open(`key ${i}`, i);
    expect(isKnown(KEY, "held")).toBe(true);
    expect(memory.bytesBeside).toBe(0);
  });

  it("a reservation that is over leaves its right to those that are not", () => {
    const desk = new Desk();
    const open = (id: string, units: number, endNs: bigint): void => {
      desk.cut();
      const place = desk.ledger.nextPlace(KEY);
      const charge = { id, units, charged: desk.state, endNs, place };
      desk.ledger.open(KEY, desk.state, charge, desk.nowNs);
    };
    open("long", 20, 10n * LIFE_NS);
    open("short", 30, LIFE_NS);
    open("last", 40, 10n * LIFE_NS);
    desk.nowNs = LIFE_NS;
    desk.missing = 60;
    desk.cut();
    const rightOf = (id: string) =>
      desk.ledger.find(KEY, desk.state, id, desk.nowNs)?.right ?? null;
    expect(["long", "short", "last"].map(rightOf)).toEqual([20, null, 40]);
    desk.nowNs = 10n * LIFE_NS;
    desk.ledger.sweep(desk.nowNs);
    expect(desk.ledger.isEmpty).toBe(true);
  });

  it("charges end in any order of ends, and leave nothing behind", () => {
    const charge = fc.record({
      lifeNs: fc.integer({ min: 1, max: 300 }),
      isStored: fc.boolean(),
      isClosed: fc.boolean(),
    });
    fc.assert(
      fc.property(fc.array(charge, { minLength: 1, maxLength: 200 }), (charges) => {
        const memory = { bytesBeside: 0 };
        const ledger = new ChargeLedger(1, memory);
        const anyMissing = { missing: () => Infinity };
        const close = (id: number, nowNs: bigint): boolean =>
          ledger.close(KEY, "s", { id, units: 1 }, nowNs) !== null;
        for (const [id, { lifeNs, isStored }] of charges.entries()) {
          const place = isStored ? { place: ledger.nextPlace(KEY) } : {};
          const opened = { id, units: 1, charged: "s", endNs: BigInt(lifeNs), ...place };
          ledger.open(KEY, "s", opened, 0n);
        }
        for (const [id, { isClosed }] of charges.entries()) if (isClosed) close(id, 0n);
        ledger.cut(KEY, "s", anyMissing, 150n);
        const known = charges.map((_, id) => ledger.find(KEY, "s", id, 150n) !== null);
        expect(known).toEqual(charges.map(({ lifeNs, isClosed }) => !isClosed && lifeNs > 150));
        ledger.cut(KEY, "s", anyMissing, 300n);
        expect([memory.bytesBeside, ledger.isEmpty]).toEqual([0, true]);
      }),
      { seed: inject("seed"), numRuns: runs(200) },
    );
  });

  it("a key with 100,000 open charges is served without a look at each of them", () => {
    const memory = { bytesBeside: 0 };
    const ledger = new ChargeLedger(1, memory);
    const missing = { missing: () => Infinity };
    const open = (id: number, nowNs: bigint, lifeNs: bigint): void => {
      const place = ledger.nextPlace(KEY);
      ledger.open(KEY, "s", { id, units: 1, charged: "s", endNs: nowNs + lifeNs, place }, nowNs);
    };
    for (let id = 0; id < 100_000; id++) open(id, 0n, BigInt(1000 + id));
    const startMs = performance.now();
    for (let i = 0; i < 5000; i++) {
      // One charge ends, one is opened and closed at once, and one in the middle is closed.
      const nowNs = BigInt(1000 + i);
      ledger.cut(KEY, "s", missing, nowNs);
      open(-1, nowNs, LIFE_NS);
      expect(ledger.close(KEY, "s", { id: -1, units: 1 }, nowNs)).not.toBeNull();
      expect(ledger.close(KEY, "s", { id: 50_000 + i, units: 1 }, nowNs)).not.toBeNull();
      expect(ledger.mark(KEY)!.first).toBe(i + 1);
    }
    // Looks at each of them would take a minute.
    expect(performance.now() - startMs).toBeLessThan(5000);
  });
});
