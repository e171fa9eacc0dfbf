/** The list of revoked tokens in a Directory, and when its Hubs are told. */
import { afterEach, expect, it, vi } from "vitest";
import { RevokedTokens, type Told } from "../../src/objects/channel/revoked-tokens.ts";

const TOLD: Told = { after: null, missed: [] };

afterEach(() => {
  vi.useRealTimers();
});

/** @returns the list, and the moments for which its alarm was set */
function makeList(): { revoked: RevokedTokens; alarms: number[]; told: string[][] } {
  const rows = new Map<string, unknown>();
  const alarms: number[] = [];
  const told: string[][] = [];
  const storage = {
    kv: {
      get: (key: string) => rows.get(key),
      put: (key: string, value: unknown) => void rows.set(key, value),
      delete: (key: string) => rows.delete(key),
    },
    transactionSync: (work: () => void) => work(),
    setAlarm: async (atMs: number) => void (await Promise.resolve(alarms.push(atMs))),
  };
  const revoked = new RevokedTokens(storage, async (list) => {
    told.push(list.tokens.map(({ id }) => id));
    return await Promise.resolve(TOLD);
  });
  return { revoked, alarms, told };
}

it("later revocations do not delay the alarm that tells Hubs of the first one", async () => {
  vi.useFakeTimers({ now: 1000 });
  const { revoked, alarms, told } = makeList();
  for (const id of ["a", "b", "c"]) {
    await revoked.revoke(id, null);
    vi.setSystemTime(Date.now() + 500);
  }
  expect(alarms).toEqual([1000, 1000, 1000]);
  await revoked.tellDue();
  expect(told).toEqual([["a", "b", "c"]]);
});

it("a revocation is told at once while an earlier one waits to be told again", async () => {
  vi.useFakeTimers({ now: 1000 });
  const { revoked, alarms, told } = makeList();
  await revoked.revoke("a", null);
  expect(await revoked.tellDue()).toBeGreaterThan(60_000);
  vi.setSystemTime(5000);
  await revoked.revoke("b", null);
  expect(alarms).toEqual([1000, 5000]);
  await revoked.tellDue();
  expect(told).toEqual([["a"], ["a", "b"]]);
});
