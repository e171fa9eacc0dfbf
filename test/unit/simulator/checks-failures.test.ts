/** Errors and codes that no fault of a run explains are violations, and those that one explains are none. */
import { describe, expect, it } from "vitest";
import { ThrottrError } from "../../../src/wire/edge/error.ts";
import { isExpected, type CodeTerms } from "../../simulator/checks/codes.ts";
import { isMistake } from "../../simulator/checks/errors.ts";
import { Failures } from "../../simulator/failures.ts";

const CALM: CodeTerms = {
  hasFaults: false,
  hasLosses: false,
  hasMistakes: false,
  hasReleases: false,
  hasTokens: false,
  hasSplits: false,
  pendingBytesMax: 32 << 20,
  variables: {},
};
const FAULTY: CodeTerms = { ...CALM, hasFaults: true };

const lost = new TypeError("fetch failed");
const typo = new TypeError("Cannot read properties of undefined (reading 'length')");
const missing = new TypeError('The RPC receiver does not implement the method "adopt".');

describe("errors", () => {
  it.each<[string, unknown]>([
    ["of the language", typo],
    [
      "of the language within a failure that has a code",
      new ThrottrError("outcome_unknown", "lost", { cause: typo }),
    ],
    [
      "of the language in the text of another",
      new ThrottrError("outcome_unknown", `a call failed: ${String(typo)}`),
    ],
    ["of the language in a log", String(typo)],
    ["with a code that is not of the table", new ThrottrError("shard_tired", "try again")],
    ["with the code of a fault", new ThrottrError("reply_invalid", "a reply has no end")],
    ["without a code", new Error("the row is missing")],
    ["of an object that lacks a method of its own release", missing],
  ])("are mistakes: %s", (_, error) => {
    expect(isMistake(error, false)).toBe(true);
  });

  it.each<[string, unknown]>([
    ["a connection that was lost", lost],
    [
      "one within a failure that has a code",
      new ThrottrError("outcome_unknown", `the request failed: ${String(lost)}`, { cause: lost }),
    ],
    ["one in a log", "Error: Network connection lost."],
    ["a disk that is full", "Error: journal_failed: Error: database or disk is full: SQLITE_FULL"],
    ["a refusal", new ThrottrError("shard_full", "no memory is left")],
    [
      "a part of a call that its shard has refused",
      "Error: a part was refused: shards_unsettled: try again",
    ],
    ["an object that was given up", new Error("no answer within 2000 ms")],
  ])("of faults are none: %s", (_, error) => {
    expect(isMistake(error, false)).toBe(false);
  });

  it("of methods that an object lacks are none where releases meet", () => {
    expect(isMistake(missing, true)).toBe(false);
  });
});

describe("codes", () => {
  it("that say what is there are expected in each run", () => {
    expect(isExpected("kind_mismatch", ["records"], CALM)).toBe(true);
  });

  it("are expected of the calls that can end with them alone", () => {
    expect(isExpected("kind_mismatch", ["limits"], FAULTY)).toBe(false);
    expect(isExpected("not_found", ["shards"], FAULTY)).toBe(false);
    expect(isExpected("internal", ["message"], FAULTY)).toBe(false);
    expect(isExpected("frame_too_large", ["message", "package"], FAULTY)).toBe(false);
  });

  it("of failures are expected where something may fail", () => {
    expect(isExpected("outcome_unknown", ["message"], FAULTY)).toBe(true);
    expect(isExpected("outcome_unknown", ["message"], CALM)).toBe(false);
  });

  it("of what another release lacks are expected where releases meet", () => {
    expect(isExpected("request_type_unknown", ["message"], { ...FAULTY, hasReleases: true })).toBe(
      true,
    );
    expect(isExpected("request_type_unknown", ["message"], FAULTY)).toBe(false);
  });

  it("of bounds are expected where a setting makes them small", () => {
    const variables = { SHARD_BYTES_MAX: "100000" };
    expect(isExpected("shard_full", ["records"], { ...CALM, variables })).toBe(true);
    expect(isExpected("shard_full", ["records"], FAULTY)).toBe(false);
  });

  it("of Hubs without room for requests are expected where clients alone can fill it", () => {
    expect(isExpected("pending_bytes", ["connection"], CALM)).toBe(false);
    expect(isExpected("pending_bytes", ["connection"], { ...CALM, pendingBytesMax: 20_000 })).toBe(
      true,
    );
  });
});

describe("failures of a run", () => {
  it("are told once for each place", () => {
    const failures = new Failures(FAULTY);
    failures.noteError("Shard.apply", typo);
    failures.noteError("Shard.apply", typo);
    failures.noteError("Shard.apply", lost);
    failures.noteError("Shard.scan", typo);
    expect(failures.violations.map(({ subject }) => subject)).toEqual([
      "Shard.apply",
      "Shard.scan",
    ]);
  });

  it("are calls of the package that end with the code of another call", () => {
    const failures = new Failures(FAULTY);
    failures.noteCall("set of a client", new ThrottrError("timeout", "no answer"), "records");
    expect(failures.violations).toEqual([]);
    failures.noteCall("set of a client", new ThrottrError("lease_lost", "it has ended"), "records");
    expect(failures.violations).toHaveLength(1);
  });

  it("are replies that refuse a frame that was right", () => {
    const failures = new Failures(FAULTY);
    const refuse = (): never => {
      throw new ThrottrError("options_invalid", "0 and 1 are possible, got 2");
    };
    expect(() => failures.read("listings", refuse)).toThrow("options_invalid");
    expect(failures.violations).toHaveLength(1);
  });

  it("are connections that the server ends with a code of nothing that they did", () => {
    const failures = new Failures(FAULTY);
    for (const reason of ["1006 ", "1011 outcome_unknown: a shard failed", "given up"]) {
      failures.noteEnd(reason);
    }
    expect(failures.violations).toEqual([]);
    failures.noteEnd("1011 ");
    failures.noteEnd("1002 request_type_unknown: 0x37 in dialect edge");
    expect(failures.violations).toHaveLength(2);
  });

  it("are lines of the log that say that a door has failed by its own fault", () => {
    const failures = new Failures(FAULTY);
    failures.noteLog('{"event":"requests_failed","error":"Error: Network connection lost."}');
    expect(failures.violations).toEqual([]);
    failures.noteLog('{"event":"request_failed","error":"Error: Network connection lost."}');
    failures.noteLog(JSON.stringify({ event: "requests_failed", error: String(typo) }));
    expect(failures.violations).toHaveLength(2);
  });
});
