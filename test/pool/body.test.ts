/** How long a body may take. */
import type { Context } from "hono";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import type { App } from "../../src/worker/app.ts";
import { readBody } from "../../src/worker/body.ts";

/** Reads a body that has `bytes` more each `everyMs`, and no end. Resolves with the time it took to refuse it. */
async function refusedAfter(bytes: number, everyMs: number): Promise<number> {
  const body = new ReadableStream<Uint8Array>({
    async pull(controller) {
      await new Promise((resolve) => setTimeout(resolve, everyMs));
      controller.enqueue(new Uint8Array(bytes));
    },
  });
  const request = { header: () => undefined, raw: { body } };
  const executionCtx = { waitUntil: () => {} };
  const c = { env: {}, req: request, executionCtx, set: () => {} } as unknown as Context<App>;
  const sinceMs = Date.now();
  const outcome: { error?: unknown } = {};
  void Promise.resolve(readBody("BODY_BYTES_MAX", "a body")(c, async () => {})).catch(
    (error: unknown) => (outcome.error = error),
  );
  while (outcome.error === undefined) await vi.advanceTimersByTimeAsync(1000);
  expect(outcome.error).toMatchObject({ code: "body_timeout" });
  return Date.now() - sinceMs;
}

describe("a body that comes slowly", () => {
  beforeEach(() => void vi.useFakeTimers());
  afterEach(() => void vi.useRealTimers());

  it("a body without another 4 KiB within STALL_TIMEOUT_MS is refused", async () => {
    expect(await refusedAfter(100, 1000)).toBeLessThanOrEqual(31_000);
  });

  it("a body that trickles on is refused after four times STALL_TIMEOUT_MS, and a second for each 16 KiB", async () => {
    const tookMs = await refusedAfter(4096, 20_000);
    expect(tookMs).toBeGreaterThan(120_000);
    expect(tookMs).toBeLessThan(145_000);
  });
});
