/** A real server process, killed while reservations are open: they are settled after the next start. */
import { expect, inject, it } from "vitest";
import { Random } from "../../scripts/crash/random.ts";
import { Site } from "../../scripts/crash/site.ts";
import { ThrottrClient } from "../../src/client/client.ts";
import { webSocket } from "../../src/client/transport/web-socket.ts";
import { RateLimiter } from "../../src/ratelimit/rate-limiter.ts";
import { fixedWindow } from "../../src/ratelimit/strategies.ts";

const LIMIT = 100_000;
const ROUNDS = 2;

it("a reservation that was made before a kill is settled after it, once", async ({ annotate }) => {
  const seed = inject("seed");
  await annotate(`seed ${seed}`);
  const site = await Site.create();
  const limiterOver = (client: ThrottrClient): RateLimiter =>
    new RateLimiter({
      throttr: client,
      name: "tokens",
      strategy: fixedWindow({ limit: LIMIT, window: "1000 d" }),
    });
  const reserved = new Map<string, number>();
  let spent = 0;
  try {
    site.build();
    for (let round = 1; round <= ROUNDS; round++) {
      const random = new Random(seed, round);
      await site.start();
      const before = new ThrottrClient(webSocket(site.url));
      const limiter = limiterOver(before);
      for (let i = 0; i < 20; i++) {
        const cost = random.between(1, 200);
        const { id } = await limiter.reserve("ada", { cost, ttlMs: 86_400_000 });
        reserved.set(id!, cost);
        await limiter.limit("ada");
        spent++;
      }
      await site.kill();
      await before.close();

      await site.start();
      const after = new ThrottrClient(webSocket(site.url));
      const settling = limiterOver(after);
      const open = (): number => [...reserved.values()].reduce((sum, cost) => sum + cost, 0);
      const remaining = async (): Promise<number> => (await settling.peek("ada")).remaining;
      expect(await remaining()).toBe(LIMIT - spent - open());
      // Some are left for the next start, and one is settled for more than it has.
      for (const [i, id] of [...reserved.keys()].entries()) {
        if (i % 3 === 0) continue;
        const cost = random.between(0, 250);
        expect(await settling.settle(id, cost)).toMatchObject({ settled: cost });
        expect(await settling.settle(id, 0)).toMatchObject({ settled: cost });
        reserved.delete(id);
        spent += cost;
        expect(await remaining()).toBe(LIMIT - spent - open());
      }
      await after.close();
      await site.kill();
    }
  } finally {
    await site.kill();
    site.dispose();
  }
});
