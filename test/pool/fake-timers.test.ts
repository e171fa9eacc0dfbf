/** What docs/clients.md says of tests whose Worker has the server inside: they share its clock. */
import { evictAllDurableObjects } from "cloudflare:test";
import { afterEach, expect, it, vi } from "vitest";
import { bearerOf } from "../support/pool/tokens.ts";
import { calling, freshNamespace } from "../support/pool/v1-calls.ts";

afterEach(() => {
  vi.useRealTimers();
});

it("a clock that a test of vitest moves is that of a server in the same Worker, also after a restart", async () => {
  const call = calling(await bearerOf({ ns: freshNamespace() }));
  const increment = async () =>
    (await call("POST", "/v1/counters/k/increment", { json: { ttlMs: 600_000 } })).json;
  expect(await increment()).toEqual({ quota: "1" });
  vi.useFakeTimers({ toFake: ["Date"] });
  vi.setSystemTime(Date.now() + 500_000);
  expect(await increment()).toEqual({ quota: "2" });
  await evictAllDurableObjects();
  vi.setSystemTime(Date.now() + 100_000);
  expect(await increment()).toEqual({ quota: "1" });
});
