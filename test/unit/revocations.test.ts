/** The list of revoked tokens, against a model that forgets nothing. */
import * as fc from "fast-check";
import { describe, expect, inject, it } from "vitest";
import {
  NO_REVOCATIONS,
  REVOKED_TOKENS_MAX,
  RevocationCheck,
  tokensInForce,
  withAllBefore,
  withToken,
  type Revocations,
} from "../../src/engine/revocations.ts";
import { runs } from "../support/runs.ts";

const START_MS = 1_700_000_000_000;
const START_S = START_MS / 1000;

interface Token {
  readonly id: string | null;
  readonly issuedAtS: number | null;
  readonly expiresAtMs: number;
}

const tokens = fc.array(
  fc.record({
    hasId: fc.boolean(),
    issuedAtS: fc.option(fc.integer({ min: START_S - 500, max: START_S + 500 })),
    livesS: fc.integer({ min: 1, max: 1000 }),
  }),
  { minLength: 1, maxLength: 12 },
);

const steps = fc.array(
  fc.oneof(
    fc.record({ kind: fc.constant("wait" as const), ms: fc.integer({ min: 0, max: 300_000 }) }),
    fc.record({
      kind: fc.constant("revoke" as const),
      token: fc.nat(11),
      isEndKnown: fc.boolean(),
    }),
    fc.record({
      kind: fc.constant("all" as const),
      agoMs: fc.integer({ min: -5000, max: 600_000 }),
    }),
  ),
  { maxLength: 30 },
);

describe("the list of revoked tokens", () => {
  it("the list refuses exactly the tokens that were revoked, at any time before their end", () => {
    fc.assert(
      fc.property(tokens, steps, (drawn, todo) => {
        const all = drawn.map(({ hasId, issuedAtS, livesS }, i): Token => ({
          id: hasId ? `token-${i}` : null,
          issuedAtS,
          expiresAtMs: ((issuedAtS ?? START_S) + livesS) * 1000,
        }));
        let nowMs = START_MS;
        let list: Revocations = NO_REVOCATIONS;
        // The model: every revocation that there ever was.
        const ids = new Set<string>();
        const moments: number[] = [];
        for (const step of todo) {
          const before = list.version;
          if (step.kind === "wait") nowMs += step.ms;
          if (step.kind === "all") {
            moments.push(nowMs - step.agoMs);
            list = withAllBefore(list, nowMs - step.agoMs, nowMs);
          }
          if (step.kind === "revoke") {
            const token = all[step.token % all.length]!;
            // A token may have been issued ahead: from its `iat` on it would be accepted.
            if (token.id === null) continue;
            ids.add(token.id);
            const expiresAtMs = step.isEndKnown ? token.expiresAtMs : null;
            list = withToken(list, { id: token.id, expiresAtMs }, nowMs)!;
          }
          if (step.kind !== "wait") expect(list.version).not.toBe(before);
          list = structuredClone(list);
          const check = new RevocationCheck(list);
          for (const token of all.filter(({ expiresAtMs }) => expiresAtMs > nowMs)) {
            const isRevoked =
              (token.id !== null && ids.has(token.id)) ||
              moments.some((ms) => (token.issuedAtS ?? 0) * 1000 < ms);
            expect(check.isRevoked(token)).toBe(isRevoked);
          }
        }
      }),
      { seed: inject("seed"), numRuns: runs(2000) },
    );
  });

  it("a full list refuses another ID, until some have expired or all were revoked", () => {
    let list: Revocations = NO_REVOCATIONS;
    for (let i = 0; i < REVOKED_TOKENS_MAX; i++) {
      const expiresAtMs = i === 0 ? START_MS + 1000 : null;
      list = withToken(list, { id: `token-${i}`, expiresAtMs }, START_MS)!;
    }
    const more = { id: "more", expiresAtMs: null };
    expect(withToken(list, more, START_MS)).toBeNull();
    // One that is listed already needs no room.
    expect(withToken(list, { id: "token-7", expiresAtMs: null }, START_MS)).not.toBeNull();
    expect(withToken(list, more, START_MS + 61_001)).not.toBeNull();
    const all = withAllBefore(list, START_MS + 6000, START_MS + 6000);
    expect(withToken(all, more, START_MS + 6000)?.tokens.map(({ id }) => id)).toEqual([
      ...list.tokens.slice(1).map(({ id }) => id),
      "more",
    ]);
  });

  it("an ID leaves the list a minute after its token has expired, and not before", () => {
    const list = withToken(NO_REVOCATIONS, { id: "a", expiresAtMs: START_MS + 10 }, START_MS)!;
    expect(tokensInForce(list, START_MS + 60_009)).toHaveLength(1);
    expect(tokensInForce(list, START_MS + 60_010)).toEqual([]);
  });

  it("an ID stays revoked whose token was issued ahead of a later moment", () => {
    const token = { id: "ahead", issuedAtS: START_S + 86_400 };
    const list = withToken(NO_REVOCATIONS, { id: token.id, expiresAtMs: null }, START_MS)!;
    for (const aheadMs of [0, 4000, 3_600_000]) {
      const later = withAllBefore(list, START_MS + aheadMs, START_MS + aheadMs);
      expect(new RevocationCheck(later).isRevoked(token)).toBe(true);
    }
  });

  it("the later end counts for an ID that is revoked again", () => {
    const ends = (...given: (number | null)[]): number | null => {
      let list: Revocations = NO_REVOCATIONS;
      for (const expiresAtMs of given) list = withToken(list, { id: "a", expiresAtMs }, START_MS)!;
      expect(list.tokens).toHaveLength(1);
      return list.tokens[0]!.expiresAtMs;
    };
    expect(ends(START_MS + 5, START_MS + 3)).toBe(START_MS + 5);
    expect(ends(START_MS + 3, null)).toBeNull();
    expect(ends(null, START_MS + 3)).toBeNull();
  });
});
