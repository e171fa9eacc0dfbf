/** What the command line reads: durations, numbers, bytes, strategies, and lines of the prompt. */
import fc from "fast-check";
import { describe, expect, inject, it } from "vitest";
import { durationMsOf, shownDuration } from "../../src/cli/duration.ts";
import { UsageError } from "../../src/cli/failure.ts";
import { positiveArgument, u64Argument, wholeArgument } from "../../src/cli/options.ts";
import { wordsOf } from "../../src/cli/prompt/words.ts";
import { quotaArgument, strategyOf, type StrategyOptions } from "../../src/cli/strategy.ts";
import {
  base64Of,
  bytesOfArgument,
  jsonBytes,
  shownBytes,
  shownLines,
  shownText,
} from "../../src/cli/text.ts";
import { textArbitrary } from "../support/text/strings.ts";

const seed = inject("seed");
const encoder = new TextEncoder();

describe("durations", () => {
  it.each([
    ["0", 0],
    ["250", 250],
    ["500ms", 500],
    ["30s", 30_000],
    ["1.5s", 1500],
    ["1.1s", 1100],
    ["5m", 300_000],
    ["1h30m", 5_400_000],
    ["2d", 172_800_000],
    [" 1s ", 1000],
    ["9007199254740991", Number.MAX_SAFE_INTEGER],
  ])("the duration %s is read as %d ms", (text, ms) => {
    expect(durationMsOf(text)).toBe(ms);
  });

  it.each(["", "s", "1x", "-1s", "1 s", "1s2", "0.5ms", "1e3", "9007199254740992", "200000000d"])(
    "the duration %j is refused",
    (text) => {
      expect(() => durationMsOf(text)).toThrow("Expected a duration such as");
    },
  );

  it.each([
    [0, "0ms"],
    [999, "999ms"],
    [1000, "1s"],
    [90_000, "1m 30s"],
    [3_600_000, "1h"],
    [3_601_000, "1h"],
    [90_061_000, "1d 1h"],
  ])("%d ms are shown as %s", (ms, text) => {
    expect(shownDuration(ms)).toBe(text);
  });

  it("a shown duration is read back, up to its two largest units", () => {
    fc.assert(
      fc.property(fc.integer({ min: 0, max: 2 ** 40 }), (ms) => {
        const shown = shownDuration(ms);
        const read = durationMsOf(shown.replaceAll(" ", ""));
        expect(read).toBeLessThanOrEqual(ms);
        expect(shownDuration(read)).toBe(shown);
      }),
      { seed },
    );
  });
});

describe("numbers", () => {
  it("quotas up to 2^64 - 1 are read", () => {
    expect(u64Argument("18446744073709551615")).toBe(2n ** 64n - 1n);
    for (const text of ["18446744073709551616", "-1", "1.5", "", "0x10", "1".repeat(30)]) {
      expect(() => u64Argument(text)).toThrow("0 to 18446744073709551615");
    }
  });

  it("integers outside of their range are refused", () => {
    expect([wholeArgument(1, 3)("1"), wholeArgument(1, 3)("3")]).toEqual([1, 3]);
    for (const text of ["0", "4", "", "1e0", "-1"]) {
      expect(() => wholeArgument(1, 3)(text)).toThrow("from 1 to 3");
    }
  });

  it("numbers that are not above 0 are refused", () => {
    expect(positiveArgument("0.25")).toBe(0.25);
    for (const text of ["0", "-1", "", " ", "x", "Infinity"]) {
      expect(() => positiveArgument(text)).toThrow("above 0");
    }
  });
});

describe("bytes", () => {
  it("bytes are read from hexadecimal and base64, and other text is refused", () => {
    expect(bytesOfArgument("00fF", "hex")).toEqual(Uint8Array.of(0, 255));
    expect(bytesOfArgument("AP8=", "base64")).toEqual(Uint8Array.of(0, 255));
    expect(bytesOfArgument("-_8", "base64")).toEqual(Uint8Array.of(0xfb, 0xff));
    for (const text of ["0", "0g", " 00"]) expect(() => bytesOfArgument(text, "hex")).toThrow(text);
    for (const text of ["A", "AB!C", "AP9="]) {
      expect(() => bytesOfArgument(text, "base64")).toThrow(text);
    }
  });

  it("JSON gives bytes back as they were read, as text or not", () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 20 }), (bytes) => {
        const { key, keyEncoding } = jsonBytes("key", bytes);
        const encoding = keyEncoding === "text" ? "text" : "base64";
        expect(bytesOfArgument(key, encoding)).toEqual(bytes);
      }),
      { seed },
    );
  });

  it("text is read as text, a byte order mark included", () => {
    expect(jsonBytes("v", encoder.encode("\ufeffwört"))).toEqual({
      v: "\ufeffwört",
      vEncoding: "text",
    });
    expect(jsonBytes("v", Uint8Array.of(0xff))).toEqual({ v: "/w==", vEncoding: "base64" });
    expect(base64Of(encoder.encode("xab").subarray(1))).toBe("YWI=");
  });

  it("no control character of a stranger's text reaches the terminal", () => {
    expect(shownText("a\u001b[2Jb\n\u009b\u202e")).toBe("a\\u001b[2Jb\\n\\u009b\\u202e");
    expect(shownLines("a\n\tb\r\u0007")).toBe("a\n\tb\\r\\u0007");
    expect(shownBytes(Uint8Array.of(0xff))).toBe("base64:/w==");
    fc.assert(
      fc.property(textArbitrary(), (text) => {
        // oxlint-disable-next-line eslint/no-control-regex
        expect(shownText(text)).not.toMatch(/[\u0000-\u001f\u007f-\u009f]/);
      }),
      { seed },
    );
  });
});

describe("strategies", () => {
  const bucket = { burst: 10, rate: 2 };
  const quota = { name: "minute", limit: 10, windowMs: 60_000 };

  it.each<[StrategyOptions, object]>([
    [
      { strategy: "gcra", ...bucket },
      { strategy: "gcra", ...bucket },
    ],
    [
      { strategy: "sliding_window", limit: 5, window: 1000 },
      { strategy: "sliding_window", limit: 5, windowMs: 1000 },
    ],
    [
      { strategy: "fixed_window", limit: 5, window: 1000 },
      { strategy: "fixed_window", quotas: [{ name: "default", limit: 5, windowMs: 1000 }] },
    ],
    [
      { strategy: "fixed_window", quota: [quota] },
      { strategy: "fixed_window", quotas: [quota] },
    ],
    [
      { strategy: "composite", quota: [quota], secondary: "leaky_bucket", ...bucket },
      {
        strategy: "composite",
        primary: { strategy: "fixed_window", quotas: [quota] },
        secondary: { strategy: "leaky_bucket", ...bucket },
      },
    ],
  ])("the strategy %j is read", (options, strategy) => {
    expect(strategyOf(options)).toEqual(strategy);
  });

  it.each<[StrategyOptions, string]>([
    [{ strategy: "gcra", burst: 1 }, "gcra needs --rate"],
    [{ strategy: "gcra", ...bucket, limit: 1 }, "--limit does not apply to gcra"],
    [{ strategy: "fixed_window", limit: 1 }, "fixed_window needs --window"],
    [
      { strategy: "fixed_window", quota: [quota], limit: 1 },
      "expected either --quota, or both --limit",
    ],
    [{ strategy: "composite", quota: [quota], ...bucket }, "composite needs --secondary"],
    [{ strategy: "sliding_window", quota: [quota] }, "--quota does not apply to sliding_window"],
  ])("the strategy %j is refused", (options, message) => {
    expect(() => strategyOf(options)).toThrow(new RegExp(`^${message}`));
    expect(() => strategyOf(options)).toThrow(UsageError);
  });

  it("repeated quota options are collected", () => {
    const quotas = quotaArgument("day=100/1d", quotaArgument("minute=10/1m"));
    expect(quotas).toEqual([quota, { name: "day", limit: 100, windowMs: 86_400_000 }]);
    for (const text of ["10/1m", "a=x/1m", "a=1", "a=1/", "a=1/x"]) {
      expect(() => quotaArgument(text)).toThrow(/Expected/);
    }
  });
});

describe("lines of the prompt", () => {
  it.each([
    ["", []],
    ["  get  a ", ["get", "a"]],
    ["set 'a b' \"c'd\"", ["set", "a b", "c'd"]],
    ["set k ''", ["set", "k", ""]],
    [String.raw`a\ b "x\"y\n" 'q\n'`, ["a b", 'x"y\n', String.raw`q\n`]],
    ["get a#b # why", ["get", "a#b"]],
    ["a'b'\"c\"d", ["abcd"]],
  ])("the prompt splits %j into words", (line, words) => {
    expect(wordsOf(line)).toEqual(words);
  });

  it.each(['a "b', "a 'b", "a\\"])("the prompt refuses %j", (line) => {
    expect(() => wordsOf(line)).toThrow(UsageError);
  });

  it("the prompt reads any words that are quoted", () => {
    fc.assert(
      fc.property(fc.array(textArbitrary()), (words) => {
        const line = words.map((word) => `'${word.replaceAll("'", `'"'"'`)}'`).join(" ");
        expect(wordsOf(line)).toEqual(words);
      }),
      { seed },
    );
  });
});
