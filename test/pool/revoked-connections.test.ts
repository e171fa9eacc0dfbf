/** Which connections a revocation ends. */
import { expect, it, vi } from "vitest";
import { OPEN_ACCESS, type Access } from "../../src/base/access.ts";
import { accessOfGrant } from "../../src/base/grant.ts";
import { NO_REVOCATIONS, withAllBefore } from "../../src/engine/revocations.ts";
import type { Connection } from "../../src/objects/hub/connection.ts";
import { Hub } from "../../src/objects/hub/hub.ts";
import { endRevoked } from "../../src/objects/hub/revoked-connections.ts";
import { Shard } from "../../src/objects/shard/shard.ts";
import { U16 } from "../support/frames/index.ts";
import { openSocket } from "../support/pool/doors.ts";
import { hubStub } from "../support/pool/hubs.ts";
import { bearerOf } from "../support/pool/tokens.ts";

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

it("a revocation ends a connection whose socket has gone, and whose writes are still executed", async () => {
  const ns = "revoked-ending";
  const door = await openSocket("/throttr/7.3/uint16", await bearerOf({ ns }));
  const gate = Promise.withResolvers<void>();
  const applied = vi.spyOn(Shard.prototype, "apply").mockImplementationOnce(async function (
    this: Shard,
    ...asked
  ) {
    await gate.promise;
    return await Shard.prototype.apply.apply(this, asked);
  });
  const closed = vi.spyOn(Hub.prototype, "webSocketClose");
  door.socket.send(U16.insert("a", 5));
  await expect.poll(() => applied.mock.calls.length).toBe(1);
  door.socket.close(1000);
  await expect.poll(() => closed.mock.calls.length).toBe(1);
  const list = withAllBefore(NO_REVOCATIONS, Date.now() + 5000, Date.now() + 5000);
  expect(await hubStub(0, ns).endRevoked(ns, list)).toBe(1);
  gate.resolve();
  vi.restoreAllMocks();
});
