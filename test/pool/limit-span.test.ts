/** Spans of limits: of the runtime where it samples a request, and of one that notes what it is given. */
import { env } from "cloudflare:workers";
import { describe, expect, it } from "vitest";
import { limit, peek } from "../../src/wire/edge/operations.ts";
import { ThrottrError } from "../../src/wire/edge/error.ts";
import { callerOf, type Caller } from "../../src/worker/caller.ts";
import { isTraced, withLimitSpan, type SpanSource } from "../../src/worker/limit-span.ts";
import { OPEN_ACCESS } from "../../src/base/access.ts";

const strategy = { strategy: "token_bucket", burst: 1, rate: 1 } as const;
const operation = limit({ name: "api", key: "ada:1", strategy });
const caller: Caller = callerOf(env, { waitUntil: () => {} }, OPEN_ACCESS);
const RESULT = { limit: 1, remaining: 0, reset: 0, retryAfterMs: 0, quotas: {} };

/** Spans that are noted. */
function notedSpans(isSampled = true) {
  const noted: { name: string; attributes: Record<string, unknown> }[] = [];
  const spans: SpanSource = {
    getActiveSpan: () => ({ isTraced: isSampled }),
    enterSpan: (name, callback) => {
      const attributes: Record<string, unknown> = {};
      noted.push({ name, attributes });
      return callback({ setAttribute: (key, value) => (attributes[key] = value) });
    },
  };
  return { noted, spans };
}

describe("spans of limits", () => {
  it.each([
    ["allowed", true],
    ["refused", false],
  ])(
    "the span of a limit says that it was %s, where, and not for which key",
    async (outcome, success) => {
      const { noted, spans } = notedSpans();
      const result = { ...RESULT, success };
      expect(await withLimitSpan(caller, operation, async () => result, spans)).toBe(result);
      expect(noted).toEqual([
        {
          name: "throttr.limit",
          attributes: {
            "throttr.shard": expect.any(Number),
            "throttr.limiter": "api",
            "throttr.key_hash": expect.stringMatching(/^[\da-f]{8}$/),
            "throttr.outcome": outcome,
          },
        },
      ]);
      expect(JSON.stringify(noted)).not.toContain("ada");
    },
  );

  it("the span of a limit that fails has the code of the error, and the error goes on", async () => {
    const { noted, spans } = notedSpans();
    const fails = () => Promise.reject(new ThrottrError("kind_mismatch", "a counter"));
    await expect(withLimitSpan(caller, operation, fails, spans)).rejects.toThrow("kind_mismatch");
    expect(noted[0]!.attributes["throttr.outcome"]).toBe("kind_mismatch");
  });

  it("only limits in sampled requests get a span", () => {
    expect(isTraced(operation, notedSpans(true).spans)).toBe(true);
    expect(isTraced(operation, notedSpans(false).spans)).toBe(false);
    expect(isTraced(operation, null)).toBe(false);
    expect(isTraced(peek({ name: "api", key: "ada", strategy }), notedSpans().spans)).toBe(false);
    // The runtime of the tests samples nothing: this asks it, and finds no span.
    expect(isTraced(operation)).toBe(false);
  });
});
