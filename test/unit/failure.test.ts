/** What the failure of a call to an object means, whatever of the error has crossed. */
import { describe, expect, it } from "vitest";
import { failureOfPart, refusalOf, reportFailure } from "../../src/base/failure.ts";
import { ThrottrError } from "../../src/wire/edge/error.ts";

/** An error as the platform hands it over: without its class, with its own properties. */
const crossed = (message: string, properties: object = {}): Error =>
  Object.assign(new Error(message), { remote: true, ...properties });

describe("the refusal of an object", () => {
  it("the refusal of an object is found by the code that crosses as a property", () => {
    const refusal = refusalOf(crossed("row_version: 9 is not 8", { code: "row_version" }));
    expect(refusal).toBeInstanceOf(ThrottrError);
    expect([refusal!.code, refusal!.detail]).toEqual(["row_version", "9 is not 8"]);
  });

  it("the refusal of an object of release 0.4 is found by its message, which is all that it sends", () => {
    const refusal = refusalOf(crossed("shards_mismatch: the data is spread over SHARDS=4"));
    expect(refusal!.code).toBe("shards_mismatch");
    expect(refusal!.detail).toBe("the data is spread over SHARDS=4");
  });

  it.each([
    ["of the platform", crossed("Network connection lost.", { retryable: true })],
    ["of the platform with its reference", crossed("internal error; reference = abc123")],
    ["of a journal", crossed("journal_failed: Error: disk full")],
    ["of Node", crossed("connect ECONNREFUSED", { code: "ECONNREFUSED" })],
    ["with a code that begins like one of ours", crossed("row_versions: 1")],
    ["that is no Error", "failed"],
  ])("an error %s is not taken for a refusal, so its outcome is unknown", (_, error) => {
    expect(refusalOf(error)).toBeNull();
    expect(reportFailure(error).code).toBe("outcome_unknown");
  });

  it("the text of other errors is kept from the caller", () => {
    const { message, cause } = reportFailure(crossed("inner matters"));
    expect(message).not.toContain("inner matters");
    expect(cause).toBeUndefined();
  });
});

describe("the refusal of a part of a message", () => {
  it("the refusal of a part leaves the outcome of the message unknown, and the caller reads what was refused", () => {
    const { code, detail } = reportFailure(
      failureOfPart(crossed("shard_data_missing: restore it")),
    );
    expect(code).toBe("outcome_unknown");
    expect(detail).toContain("shard_data_missing: restore it");
  });

  it("the refusal of a part of a part is said once", () => {
    const failure = failureOfPart(crossed("row_version: 9 is not 8"));
    expect(failureOfPart(failure)).toBe(failure);
  });

  it("replies that are too large keep their code, which promises nothing of what was applied", () => {
    const error = new ThrottrError("reply_too_large", "request less");
    expect(reportFailure(failureOfPart(error)).code).toBe("reply_too_large");
  });
});
