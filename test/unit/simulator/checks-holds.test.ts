/** The checker of leases in the hands of callers: correct histories pass, and each kind of forged one is refused. */
import { describe, expect, it } from "vitest";
import type { Moment } from "../../simulator/checks/history.ts";
import { checkHolds, type Hold, type Renewal } from "../../simulator/checks/holds.ts";

const TTL_MS = 3000;

/** A forged moment: its tick is its time, so that a test reads one number. */
const at = (ms: number): Moment => ({ tick: ms, ms });

/** Answered after 10 ms unless given; null without an answer. */
function renewal(
  sentMs: number,
  outcome: Renewal["outcome"] = "held",
  answeredMs: number | null = outcome === "unknown" ? null : sentMs + 10,
): Renewal {
  return {
    sent: at(sentMs),
    answered: answeredMs === null ? null : at(answeredMs),
    outcome,
  };
}

const lostAt = (ms: number, renewals: readonly Renewal[]): string => check(ms, true, renewals);
const heldUntil = (ms: number, renewals: readonly Renewal[]): string => check(ms, false, renewals);

function check(
  toMs: number,
  isLost: boolean,
  renewals: readonly Renewal[],
  suspensions: Hold["suspensions"] = [],
): string {
  const hold: Hold = {
    client: 7,
    name: "gpu",
    leaseId: "a",
    ttlMs: TTL_MS,
    from: renewals[0]!.answered!,
    to: at(toMs),
    isLost,
    isHeld: !isLost,
    renewals,
    suspensions,
  };
  return checkHolds([hold])
    .map(({ promise, subject, message }) => `${promise}: ${subject}: ${message}`)
    .join("\n");
}

describe("the checker of leases in the hands of callers", () => {
  it("accepts a lease that is let go before its first renewal is due", () => {
    expect(heldUntil(900, [renewal(0)])).toBe("");
  });

  it("accepts a lease that is renewed after each third of its TTL", () => {
    expect(heldUntil(3900, [renewal(0), renewal(1000), renewal(2000), renewal(3000)])).toBe("");
  });

  it("accepts a renewal that is sent when the answer before it comes, which took longer than a third", () => {
    expect(heldUntil(1600, [renewal(0, "held", 1500), renewal(1501)])).toBe("");
  });

  it("accepts a lease that is lost when the server says that it ended", () => {
    expect(lostAt(1010, [renewal(0), renewal(1000, "ended")])).toBe("");
  });

  it("accepts a lease that is lost a TTL after the last renewal that was answered was sent", () => {
    expect(lostAt(3000, [renewal(0), renewal(1000, "unknown")])).toBe("");
    const late = renewal(1000, "held", 3200);
    expect(lostAt(3000, [renewal(0), late])).toBe("");
  });

  it("accepts a lease that is lost just before the answer to its renewal, at one moment", () => {
    const late = { ...renewal(1000), answered: { tick: 3001, ms: 3000 } };
    expect(lostAt(3000, [renewal(0), late])).toBe("");
    const inTime = { ...renewal(1000), answered: { tick: 2999, ms: 3000 } };
    expect(lostAt(3000, [renewal(0), inTime])).toContain("1000.0 ms too early");
  });

  it("refuses a lease that counts as held longer than a TTL after its last renewal", () => {
    const unanswered = [renewal(0), renewal(1000, "unknown")];
    expect(heldUntil(3100, unanswered)).toContain(
      'Semaphores: semaphore "gpu": client 7 was told that its lease is held 100.0 ms too long (lease a, held from #10 to #3100)',
    );
    expect(lostAt(3100, unanswered)).toContain("100.0 ms too long");
  });

  it("refuses a lease that is held again by an answer that came after its end", () => {
    const late = renewal(1000, "held", 3200);
    expect(heldUntil(3500, [renewal(0), late])).toContain("500.0 ms too long");
  });

  it("refuses a lease that counts as held though the server said that it ended", () => {
    expect(heldUntil(1200, [renewal(0), renewal(1000, "ended")])).toContain(
      "held after the server had said at 1010 that it ended",
    );
  });

  it("refuses a lease that is lost while the last renewal is younger than a TTL", () => {
    expect(lostAt(3500, [renewal(0), renewal(1000), renewal(2000), renewal(3000)])).toContain(
      "was told that its lease is lost 2500.0 ms too early",
    );
  });

  it("accepts a lost lease that its client notices up to a third of the TTL after a suspension", () => {
    const suspensions = [{ fromMs: 500, toMs: 8000 }];
    expect(check(8900, true, [renewal(0)], suspensions)).toBe("");
    expect(check(9100, true, [renewal(0)], suspensions)).toContain("6100.0 ms too long");
  });

  it("refuses a lease that counts as held after a suspension in which it ended", () => {
    const suspensions = [{ fromMs: 500, toMs: 8000 }];
    expect(check(8000, false, [renewal(0)], suspensions)).toContain("5000.0 ms too long");
  });

  it("accepts a renewal that was due while its client was suspended, and refuses one that is later", () => {
    const suspensions = [{ fromMs: 500, toMs: 1500 }];
    expect(check(2600, false, [renewal(0), renewal(2400)], suspensions)).toBe("");
    expect(check(2700, false, [renewal(0), renewal(2600)], suspensions)).toContain(
      "not renewed by 2503",
    );
  });

  it("refuses a lease that is not renewed when that is due", () => {
    expect(heldUntil(1100, [renewal(0)])).toContain(
      "holds a lease of 3000 ms that was not renewed by 1003",
    );
    expect(heldUntil(2600, [renewal(0), renewal(1000), renewal(2500)])).toContain(
      "not renewed by 2003",
    );
  });
});
