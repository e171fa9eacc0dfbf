/** A real server process, killed while strict and relaxed limits are charged: what is there after the next start. */
import { setTimeout as sleep } from "node:timers/promises";
import { expect, inject, it } from "vitest";
import { Random } from "../../scripts/crash/random.ts";
import { Site } from "../../scripts/crash/site.ts";
import { ThrottrClient } from "../../src/client/client.ts";
import { webSocket } from "../../src/client/transport/web-socket.ts";
import type { LimitDurability } from "../../src/wire/edge/operations.ts";

const LIMIT = 1e9;
const strategy = {
  strategy: "fixed_window",
  quotas: [{ name: "age", limit: LIMIT, windowMs: 1e12 }],
} as const;
const ROUNDS = 3;
const CALLERS = 3;
/** How long a relaxed charge may wait for its row, and how late a timer of a busy machine may be. */
const RELAXED_MS = 50;
const LATE_MS = 1000;

/** What the callers of one key know. */
interface Ledger {
  readonly key: string;
  sent: number;
  /** When each charge was answered, by the clock of this process. */
  readonly answeredAtMs: number[];
  /** The most that an answer to a strict caller has shown as charged. */
  seenByStrict: number;
}

it("after a kill, strict limits and all that strict callers saw are there, and relaxed ones lack 50 ms at most", async ({
  annotate,
}) => {
  const seed = inject("seed");
  await annotate(`seed ${seed}`);
  const site = await Site.create();
  let lost = 0;
  try {
    site.build();
    for (let round = 1; round <= ROUNDS; round++) {
      await site.start();
      const throttr = new ThrottrClient(webSocket(site.url));
      const ledgers = ["strict", "relaxed", "both"].map((kind): Ledger => {
        return { key: `${kind}-${round}`, sent: 0, answeredAtMs: [], seenByStrict: 0 };
      }) as [Ledger, Ledger, Ledger];
      const [strict, relaxed, both] = ledgers;
      let isKilled = false;
      const charge = async (ledger: Ledger, durability: LimitDurability): Promise<void> => {
        for (;;) {
          ledger.sent++;
          try {
            const { key } = ledger;
            const { remaining } = await throttr.limit({ name: "api", key, strategy, durability });
            ledger.answeredAtMs.push(performance.now());
            if (durability === "strict") {
              ledger.seenByStrict = Math.max(ledger.seenByStrict, LIMIT - remaining);
            }
          } catch {
            // The outcome is unknown.
            if (isKilled) return;
          }
        }
      };
      const callers = Array.from({ length: CALLERS }, () => [
        charge(strict, "strict"),
        charge(relaxed, "relaxed"),
        charge(both, "relaxed"),
        charge(both, "strict"),
      ]).flat();
      await expect
        .poll(() => ledgers.every(({ answeredAtMs }) => answeredAtMs.length > 0))
        .toBe(true);
      await sleep(LATE_MS + new Random(seed, round).between(400, 1500));
      const killedAtMs = performance.now();
      await site.kill();
      isKilled = true;
      await throttr.close();
      await Promise.all(callers);

      await site.start();
      const after = new ThrottrClient(webSocket(site.url));
      const spent = async ({ key }: Ledger): Promise<number> =>
        LIMIT - (await after.peek({ name: "api", key, strategy })).remaining;
      for (const ledger of ledgers) {
        expect(await spent(ledger)).toBeLessThanOrEqual(ledger.sent);
        expect(await spent(ledger)).toBeGreaterThanOrEqual(ledger.seenByStrict);
      }
      expect(await spent(strict)).toBeGreaterThanOrEqual(strict.answeredAtMs.length);
      const onDiskAtMs = killedAtMs - RELAXED_MS - LATE_MS;
      for (const ledger of [relaxed, both]) {
        const old = ledger.answeredAtMs.filter((atMs) => atMs < onDiskAtMs).length;
        expect(await spent(ledger)).toBeGreaterThanOrEqual(old);
      }
      lost += Math.max(0, relaxed.answeredAtMs.length - (await spent(relaxed)));
      await after.close();
      await site.kill();
    }
  } finally {
    await site.kill();
    site.dispose();
  }
  await annotate(`${lost} relaxed charges were taken back`);
});
