/** The list of revoked tokens in a Directory, and when its Hubs are told. */
import { afterEach, expect, it, vi } from "vitest";
import { RevokedTokens, type Told } from "../../src/objects/channel/revoked-tokens.ts";

const TOLD: Told = { after: null, missed: [] };

afterEach(() => {
  vi.useRealTimers();
});

/**
 * @param telling what is stored of the last change
 * @returns the list, and the moments for which its alarm was set
 */
function makeList(telling?: object): {
  revoked: RevokedTokens;
  alarms: number[];
  told: string[][];
} {
  const rows = new Map<string, unknown>();
  if (telling !== undefined) rows.set("revocations:telling", telling);
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

/** Rings as the Directory does, from now until a moment. @returns when it told, in ms after the beginning */
async function tellUntil(
  { revoked, told }: ReturnType<typeof makeList>,
  beginMs: number,
  untilMs: number,
): Promise<number[]> {
  const toldAtMs: number[] = [];
  for (let dueAtMs = revoked.dueAtMs; dueAtMs !== null && dueAtMs <= untilMs;) {
    vi.setSystemTime(Math.max(Date.now(), dueAtMs));
    const before = told.length;
    dueAtMs = await revoked.tellDue();
    if (told.length > before) toldAtMs.push(Date.now() - beginMs);
  }
  vi.setSystemTime(untilMs);
  return toldAtMs;
}

it("each of many revocations in quick succession has its second round 90 to 95 s later", async () => {
  const beginMs = 1_000_000;
  vi.useFakeTimers({ now: beginMs });
  const list = makeList();
  const toldAtMs: number[] = [];
  const changedAtMs: number[] = [];
  for (let i = 0; i < 200; i++) {
    changedAtMs.push(Date.now() - beginMs);
    await list.revoked.revoke(`token ${i}`, null);
    toldAtMs.push(...(await tellUntil(list, beginMs, Date.now() + 1500)));
  }
  toldAtMs.push(...(await tellUntil(list, beginMs, Date.now() + 600_000)));
  for (const atMs of changedAtMs) {
    const again = toldAtMs.find((toldMs) => toldMs >= atMs + 90_000)!;
    expect(again - atMs).toBeLessThanOrEqual(95_000);
  }
  // Each at once, and rounds for those of five seconds.
  expect(toldAtMs.length).toBeLessThanOrEqual(200 + 300 / 5 + 2);
  expect(list.revoked.dueAtMs).toBeNull();
});

it("a change that release 0.4 has stored has its second round", async () => {
  const beginMs = 1_000_000;
  vi.useFakeTimers({ now: beginMs });
  const of04 = { changedAtMs: beginMs, dueAtMs: beginMs, isAgain: false, after: null };
  const list = makeList(of04);
  const toldAtMs = await tellUntil(list, beginMs, beginMs + 600_000);
  expect(toldAtMs).toEqual([0, 90_000]);
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
