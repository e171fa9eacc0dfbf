/** What a load does when the server goes silent. */
import { describe, expect, it } from "vitest";
import { runLoad, type LoadOptions, type LoadResult } from "../../src/cli/bench/load.ts";
import type { Transport } from "../../src/client/transport/transport.ts";
import { Engine } from "../../src/engine/engine.ts";
import { ENGINE_START_MS } from "../support/client/engine-client.ts";
import { EngineTransport } from "../support/client/engine-transport.ts";

/** A server that answers the first messages, each after `delayMs`, and no other. */
function silentAfter(messages: number, delayMs = 0): Transport {
  const hashKey = { low: 1, high: 2 };
  const engine = new Engine({ hashKey, bytesMax: 8 << 20, isCounting: false });
  const { exchange } = new EngineTransport(engine, ENGINE_START_MS);
  let left = messages;
  return {
    connect(events) {
      queueMicrotask(() => events.opened());
      return {
        send: (message) => {
          if (left-- <= 0) return;
          setTimeout(() => {
            void exchange(message).then((replies) => events.received(replies));
          }, delayMs);
        },
        ping: () => {},
        close: () => {},
      };
    },
  };
}

async function run(
  transport: Transport,
  timeoutMs: number,
  signal = new AbortController().signal,
  end: LoadOptions["end"] = { durationMs: 50 },
): Promise<LoadResult> {
  const options = {
    type: "update" as const,
    prefix: "bench:",
    keys: 1,
    valueBytes: 0,
    ttlMs: 60_000,
    connections: 1,
    depth: 1,
    end,
    warmUpMs: 0,
    timeoutMs,
  };
  return await runLoad(transport, options, () => {}, signal);
}

describe("a load on a server that goes silent", () => {
  it("the measurement is kept, with the reason why the records are not removed", async () => {
    const { measurement, notRemoved } = await run(silentAfter(3), 100);
    expect(measurement.requests).toBe(2);
    expect(notRemoved?.message).toBe("timeout: the server did not answer within 100 ms");
  });

  it("a number of requests ends without a reply for the timeout, and keeps the measurement", async () => {
    const never = new AbortController().signal;
    const { measurement, notRemoved } = await run(silentAfter(3), 100, never, { requests: 1000 });
    expect(measurement.requests).toBe(2);
    expect(notRemoved?.message).toBe("timeout: the server did not answer within 100 ms");
  });

  it("a number of requests may take longer than the timeout where replies come", async () => {
    const never = new AbortController().signal;
    const server = silentAfter(Infinity, 30);
    const { measurement, notRemoved } = await run(server, 150, never, { requests: 10 });
    expect(measurement.requests).toBe(10);
    expect(measurement.durationMs).toBeGreaterThan(150);
    expect(notRemoved).toBeNull();
  });

  it("an interruption ends the wait for the server, and keeps the measurement", async () => {
    const { measurement, notRemoved } = await run(
      silentAfter(3),
      600_000,
      AbortSignal.timeout(200),
    );
    expect(measurement.requests).toBe(2);
    expect(notRemoved?.code).toBe("aborted");
  });

  it("an interruption of the measurement leaves time to remove the records", async () => {
    const { measurement, notRemoved } = await run(
      silentAfter(Infinity),
      5000,
      AbortSignal.timeout(200),
    );
    expect(measurement.requests).toBeGreaterThan(0);
    expect(notRemoved).toBeNull();
  });

  it.each([
    [100, 60_000, "timeout: the server did not answer within 100 ms"],
    [600_000, 50, "aborted: the load was interrupted"],
  ])(
    "a load that gets no answer to its preparation fails after %d ms or an interruption after %d",
    async (timeoutMs, interruptedMs, message) => {
      const signal = AbortSignal.timeout(interruptedMs);
      await expect(run(silentAfter(0), timeoutMs, signal)).rejects.toThrow(message);
    },
  );
});
