/** The checker of tokens: correct histories pass, and each kind of forged one is refused. */
import { describe, expect, it } from "vitest";
import type { Moment } from "../../simulator/checks/history.ts";
import {
  ACCEPTED,
  checkTokens,
  type SeenToken,
  type TokenCall,
  type TokenOperation,
  type TokenTerms,
} from "../../simulator/checks/tokens.ts";

/** A forged moment: its tick is its time, so that a test reads one number. */
const at = (ms: number): Moment => ({ tick: ms, ms });

/** Of the first thousand seconds. */
const TOKEN: SeenToken = { id: "a", issuedAtS: 0, expiresAtS: 1000, isForAll: false };
const CALM: TokenTerms = { hasFaults: false, unread: [] };
const FAULTY: TokenTerms = { ...CALM, hasFaults: true };
const WORK_MS = 10;

function call(operation: TokenOperation, beginMs: number, outcome: string): TokenCall {
  const ended = at(beginMs + WORK_MS);
  const of = { client: 1, door: "http", connection: null, operation } as const;
  return { ...of, begun: at(beginMs), ended, outcome, settled: null };
}

const use = (ms: number, outcome: string): TokenCall =>
  call({ name: "use", token: TOKEN, openedAt: null }, ms, outcome);
const useOver = (openedMs: number, ms: number): TokenCall =>
  call({ name: "use", token: TOKEN, openedAt: at(openedMs) }, ms, ACCEPTED);
const revoke = (
  ms: number,
  what: { id: string } | { issuedBeforeMs: number } = { id: "a" },
  outcome = ACCEPTED,
  isForAll = false,
): TokenCall => call({ name: "revoke", of: { ...what, isForAll } }, ms, outcome);

const check = (calls: readonly TokenCall[], terms = CALM): string =>
  checkTokens(calls, terms)
    .map(({ message }) => message)
    .join("\n");

describe("the checker of tokens", () => {
  it("accepts a token that is accepted until its end, and refused as expired behind it", () => {
    expect(check([use(999_000, ACCEPTED), use(1_000_001, "token_expired")])).toBe("");
  });

  it("refuses a token that is accepted behind its end", () => {
    expect(check([use(1_003_000, ACCEPTED)])).toContain("1000 ms after its end");
  });

  it("refuses a token that is refused as expired before its end", () => {
    expect(check([use(900_000, "token_expired")])).toContain("before its end");
  });

  it("leaves the time of a minute open around the end where clocks differ", () => {
    const calls = [use(1_050_000, ACCEPTED), use(950_000, "token_expired")];
    expect(check(calls, FAULTY)).toBe("");
    expect(check([use(1_070_000, ACCEPTED)], FAULTY)).not.toBe("");
  });

  it("takes a revocation of tokens for all namespaces for none of those for one", () => {
    const forAll = revoke(0, { id: "a" }, ACCEPTED, true);
    expect(check([forAll, use(200_000, ACCEPTED)])).toBe("");
    expect(check([forAll, use(200_000, "token_revoked")])).toContain("nobody has revoked it");
  });

  it("leaves a minute open after a revocation, in which doors learn of it", () => {
    expect(check([revoke(0), use(30_000, ACCEPTED), use(30_000, "token_revoked")])).toBe("");
  });

  it("refuses a token that is accepted more than a minute after its revocation", () => {
    expect(check([revoke(0), use(63_000, ACCEPTED)])).toContain("later than promised");
    expect(check([revoke(0, { issuedBeforeMs: 1 }), use(63_000, ACCEPTED)])).not.toBe("");
  });

  it("leaves it open whether a revocation without an answer is in force", () => {
    const calls = [revoke(0, { id: "a" }, "unknown"), use(63_000, ACCEPTED)];
    expect(check([...calls, use(63_000, "token_revoked")])).toBe("");
  });

  it("refuses a token that is refused as revoked, and was not", () => {
    expect(check([use(63_000, "token_revoked")])).toContain("nobody has revoked it");
    const others = [revoke(0, { id: "b" }), revoke(0, { issuedBeforeMs: 0 })];
    expect(check([...others, use(63_000, "token_revoked")])).toContain("nobody has revoked it");
    expect(check([use(0, "token_revoked"), revoke(20)])).toContain("nobody has revoked it");
  });

  it("accepts a revoked token while a door can't read the list, and no longer", () => {
    const unread = [{ from: at(50_000), to: at(100_000) }];
    const terms = { ...CALM, unread };
    expect(check([revoke(0), use(90_000, ACCEPTED)], terms)).toBe("");
    expect(check([revoke(0), use(100_001, ACCEPTED)], terms)).not.toBe("");
  });

  it("refuses a connection that goes on after the revocation of its token", () => {
    const first = [useOver(0, 100), revoke(1000)];
    expect(check([...first, useOver(0, 6000)])).toBe("");
    expect(check([...first, useOver(0, 7000)])).toContain("later than promised");
    expect(check([...first, useOver(0, 180_000)], FAULTY)).toBe("");
    expect(check([...first, useOver(0, 190_000)], FAULTY)).not.toBe("");
  });

  it("accepts a connection that was being opened at the revocation until the second time that Hubs are told", () => {
    const first = [useOver(990, 995), revoke(1000)];
    expect(check([...first, useOver(990, 90_000)])).toBe("");
    expect(check([...first, useOver(990, 103_000)])).toContain("later than promised");
  });

  it("leaves a connection that was opened after the revocation open until Hubs are told again", () => {
    expect(check([revoke(0), useOver(50_000, 90_000)])).toBe("");
    expect(check([revoke(0), useOver(50_000, 101_000)])).toContain("later than promised");
  });
});
