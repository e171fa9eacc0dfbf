/** Rate limit configurations in binary: whole, cut short, changed, and of bytes that mean nothing. */
import fc from "fast-check";
import { describe, expect, inject, it } from "vitest";
import { ByteWriter } from "../../src/wire/bytes.ts";
import { readConfiguration, writeConfiguration } from "../../src/wire/ratelimit/binary.ts";
import {
  checkConfiguration,
  type RateLimitConfiguration,
} from "../../src/wire/ratelimit/configuration.ts";
import { RateLimitError } from "../../src/wire/ratelimit/error.ts";
import { resultNames } from "../../src/wire/ratelimit/names.ts";
import { STRATEGIES } from "../support/rate-limits/arbitraries.ts";
import { extremeConfiguration } from "../support/rate-limits/extremes.ts";
import { runs } from "../support/runs.ts";

const seed = inject("seed");
const RUNS = { seed, numRuns: runs(1000) };
const anyConfiguration = fc.oneof(...STRATEGIES.map(extremeConfiguration));

function bytesOf(configuration: RateLimitConfiguration): Uint8Array {
  const out = new ByteWriter(1);
  writeConfiguration(out, configuration);
  return out.take();
}

const read = (bytes: Uint8Array): RateLimitConfiguration =>
  readConfiguration(bytes, 0, bytes.length);

function codeOf(bytes: Uint8Array): string {
  try {
    read(bytes);
  } catch (error) {
    if (error instanceof RateLimitError) return error.code;
    throw error;
  }
  return "none";
}

/** Checks that bytes are refused, or are those of a configuration that is taken. */
function expectRefusedOrTaken(bytes: Uint8Array): void {
  let configuration: RateLimitConfiguration;
  try {
    configuration = read(bytes);
  } catch (error) {
    if (error instanceof RateLimitError) return;
    throw error;
  }
  expect(checkConfiguration(configuration)).toEqual(configuration);
  expect(bytesOf(configuration)).toEqual(Uint8Array.from(bytes));
}

describe("configurations", () => {
  it("configurations are read as they were written, wherever their bytes lie", () => {
    const around = fc.uint8Array({ maxLength: 20 });
    const property = fc.property(
      anyConfiguration,
      around,
      around,
      (configuration, before, behind) => {
        const bytes = bytesOf(configuration);
        const at = before.length;
        const whole = Uint8Array.from([...before, ...bytes, ...behind]);
        expect(readConfiguration(whole, at, at + bytes.length)).toEqual(configuration);
        expect(readConfiguration(whole.subarray(at), 0, bytes.length)).toEqual(configuration);
      },
    );
    fc.assert(property, RUNS);
  });

  it("configurations that are cut short or followed by bytes are refused", () => {
    const property = fc.property(anyConfiguration, fc.nat(), fc.nat(255), (value, cut, more) => {
      const bytes = bytesOf(value);
      const short = bytes.subarray(0, cut % bytes.length);
      expect(codeOf(short)).toBe("configuration_invalid");
      expect(codeOf(Uint8Array.from([...bytes, more]))).toBe("configuration_invalid");
      expect(() => readConfiguration(bytes, bytes.length, bytes.length)).toThrow(RateLimitError);
    });
    fc.assert(property, RUNS);
  });

  it("configurations with changed bytes are refused or read as others", () => {
    const change = fc.tuple(fc.nat(), fc.nat(255));
    const property = fc.property(
      anyConfiguration,
      fc.array(change, { minLength: 1, maxLength: 4 }),
      fc.nat(),
      (configuration, changes, cut) => {
        const bytes = bytesOf(configuration);
        for (const [at, value] of changes) bytes[at % bytes.length] = value;
        expectRefusedOrTaken(bytes);
        expectRefusedOrTaken(bytes.subarray(cut % bytes.length));
      },
    );
    fc.assert(property, RUNS);
  });

  it("any bytes are read as a configuration or refused", () => {
    const property = fc.property(fc.nat(7), fc.uint8Array({ maxLength: 60 }), (first, rest) => {
      expectRefusedOrTaken(Uint8Array.from([first, ...rest]));
    });
    fc.assert(property, RUNS);
  });

  it.each([
    ["composites in composites", 5],
    ["as many quotas as there may be", 2],
    ["quotas and names of the greatest sizes", 255],
  ])("a configuration of a megabyte of %s is refused", (_what, byte) => {
    expect(codeOf(new Uint8Array(1_000_000).fill(byte))).toBe("configuration_invalid");
    const bytes = new Uint8Array(1_000_000).fill(byte);
    bytes[0] = 2;
    expect(codeOf(bytes)).toBe("configuration_invalid");
  });

  it("configurations have exactly these bytes", () => {
    const hexOf = (configuration: RateLimitConfiguration): string =>
      Buffer.from(bytesOf(configuration)).toString("hex");
    expect(hexOf({ strategy: "gcra", burst: 1, rate: 2.5 })).toBe(
      "04" + "000000000000f03f" + "0000000000000440",
    );
    const fixed = "02" + "01" + "03" + "646179" + "000000000000f03f" + "00ca9a3b00000000";
    const quotas = [{ name: "day", limit: 1, windowNs: 1_000_000_000n }];
    expect(hexOf({ strategy: "fixed_window", quotas })).toBe(fixed);
    expect(
      hexOf({
        strategy: "composite",
        primary: { strategy: "fixed_window", quotas },
        secondary: { strategy: "leaky_bucket", burst: 1, rate: 2.5 },
      }),
    ).toBe("05" + fixed + "03" + "000000000000f03f" + "0000000000000440");
    expect(hexOf({ strategy: "sliding_window", limit: 1, windowNs: 2n ** 40n })).toBe(
      "06" + "000000000000f03f" + "0000000000010000",
    );
  });

  it.each([
    ["", "configuration_invalid", "configuration", "expected 1 more bytes, got 0"],
    ["00", "configuration_invalid", "strategy", "expected the number of a strategy, got 0"],
    ["0505", "configuration_invalid", "primary.strategy", "expected the number of a strategy"],
    ["01" + "00".repeat(15), "configuration_invalid", "configuration", "expected 8 more bytes"],
    ["01" + "00".repeat(17), "configuration_invalid", "configuration", "expected no more bytes"],
    ["01" + "00".repeat(16), "burst_invalid", "burst", "expected an integer from 1"],
    ["06" + "000000000000f03f" + "ff".repeat(8), "time_overflow", "windowNs", "expected at most"],
    ["0200", "quotas_invalid", "quotas", "expected 1 to 8 quotas"],
    [
      `0201` + "01ff" + "00".repeat(16),
      "quota_name_invalid",
      "quotas[0].name",
      "expected 1 to 64 char",
    ],
    ["05" + "01" + "000000000000f03f".repeat(2) + "0200", "quotas_invalid", "secondary.quotas", ""],
  ])("the configuration %j is refused with %s of %s", (hex, code, field, message) => {
    const check = (): unknown => read(Uint8Array.from(Buffer.from(hex, "hex")));
    expect(check).toThrow(RateLimitError);
    expect(check).toThrow(expect.objectContaining({ code, field }));
    expect(check).toThrow(`${code}: ${field}: ${message}`);
  });
});

describe("names of results", () => {
  const primary = {
    strategy: "fixed_window",
    quotas: [
      { name: "b", limit: 1, windowNs: 1n },
      { name: "a", limit: 1, windowNs: 2n },
    ],
  } as const;
  const secondary = { strategy: "gcra", burst: 1, rate: 1 } as const;

  it.each([
    [secondary, ["default"]],
    [{ strategy: "sliding_window", limit: 1, windowNs: 1n } as const, ["default"]],
    [primary, ["b", "a"]],
    [
      { strategy: "composite", primary, secondary } as const,
      ["primary_b", "primary_a", "secondary_default"],
    ],
  ])("the names of results of %o are %j", (configuration, names) => {
    expect(resultNames(configuration)).toEqual(names);
  });
});
