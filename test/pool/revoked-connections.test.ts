/** Which connections a revocation ends. */
import { expect, it } from "vitest";
import { OPEN_ACCESS, type Access } from "../../src/base/access.ts";
import { accessOfGrant } from "../../src/base/grant.ts";
import { NO_REVOCATIONS, withAllBefore } from "../../src/engine/revocations.ts";
import type { Connection } from "../../src/objects/hub/connection.ts";
import { endRevoked } from "../../src/objects/hub/revoked-connections.ts";

const NOW_MS = 1_700_000_000_000;
const NOW_S = NOW_MS / 1000;
const expiresAtMs = NOW_MS + 60_000;
const ofToken = (issuedAtS: number): Access => ({
  ...OPEN_ACCESS,
  expiresAtMs,
  token: { isForAll: false, id: null, issuedAtS },
});

it("a revocation of all tokens ends connections of tokens, and none of sessions or of open servers", () => {
  const accesses = {
    "earlier token": ofToken(NOW_S - 1),
    "later token": ofToken(NOW_S + 1),
    "token of release 0.4": { ...OPEN_ACCESS, expiresAtMs },
    session: accessOfGrant({ scopes: ["read"], expiresAtMs }, true),
    open: OPEN_ACCESS,
  };
  const ended: string[] = [];
  const connections = Object.entries(accesses).map(([name, access]) => ({
    access,
    isClosed: false,
    close: () => void ended.push(name),
  }));
  const list = withAllBefore(NO_REVOCATIONS, NOW_MS, NOW_MS);
  expect(endRevoked(connections as unknown as Connection[], "default", list)).toBe(2);
  expect(ended).toEqual(["earlier token", "token of release 0.4"]);
});
