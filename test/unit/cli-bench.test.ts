/** What a load does when the server goes silent. */
import { describe, expect, it } from "vitest";
import { runLoad, type LoadResult } from "../../src/cli/bench/load.ts";
import type { Transport } from "../../src/client/transport/transport.ts";
import { Engine } from "../../src/engine/engine.ts";
import { ENGINE_START_MS } from "../support/client/engine-client.ts";
import { EngineTransport } from "../support/client/engine-transport.ts";

/** A server that answers so many messages, and then nothing any more. */
function silentAfter(messages: number): Transport {
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
          setImmediate(() => void exchange(message).then((replies) => events.received(replies)));
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
): Promise<LoadResult> {
  const options = {
    type: "update" as const,
    prefix: "bench:",
    keys: 1,
    valueBytes: 0,
    ttlMs: 60_000,
    connections: 1,
    depth: 1,
    end: { durationMs: 50 },
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
      AbortSignal.timeout(20),
    );
    expect(measurement.requests).toBeGreaterThan(3);
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
