/** How many timers an object takes: it has 10,000, and where they are used up, others are served no longer. */
import { env, runInDurableObject } from "cloudflare:test";
import { expect, it } from "vitest";
import { hubStub } from "../../src/base/stubs.ts";
import { askHubs } from "../../src/dispatch/ask-hubs.ts";

it("a Hub asks 300 Hubs for 40 callers at once, and leaves none out", async () => {
  const hubs = Array.from({ length: 300 }, (_, i) => `timers/XXX/${i % 256}`);
  const answers = await runInDurableObject(hubStub(env, "timers/XXX/0"), async () => {
    const { promise, resolve } = Promise.withResolvers<object>();
    const asked = Array.from({ length: 40 }, async (_, i) => {
      // Each caller's question is a turn of its own.
      for (let turns = 0; turns < 10 * i; turns++) await Promise.resolve();
      return await askHubs(env, hubs, async () => await promise);
    });
    for (let turns = 0; turns < 500; turns++) await Promise.resolve();
    resolve({});
    return await Promise.all(asked);
  });
  expect(answers.map(({ length }) => length)).toEqual(Array.from(answers, () => hubs.length));
});
