/** The table of codes: it has every code that the sources throw, and the reference says the same. */
import { globSync, readFileSync } from "node:fs";
import { describe, expect, expectTypeOf, it } from "vitest";
import { ExitCode } from "../../src/cli/exit-code.ts";
import { failureOf } from "../../src/cli/failure.ts";
import {
  ALL_CODES,
  Phase,
  phaseOf,
  PROBLEM_CODES,
  statusOf,
  titleOf,
  type Code,
} from "../../src/wire/edge/codes.ts";
import { ThrottrError } from "../../src/wire/edge/error.ts";
import { UNKNOWN_CODES } from "../../src/wire/edge/outcome-codes.ts";
import type { RateLimitErrorCode } from "../../src/wire/ratelimit/error.ts";

const THROWN =
  /(?<!log|Usage)(?:ThrottrError|RateLimitError|LimitError|Refusal|FieldsInvalid|problemResponse|Error)\(\s*[`"]([a-z]+(?:_[a-z]+)+)["`:]/g;
const ENDINGS = /reason: [`"]([a-z]+(?:_[a-z]+)+)/g;

/** Codes in the sources of the folders, with the file that throws them. */
function thrownIn(...folders: readonly string[]): [code: string, path: string][] {
  return globSync(`src/{${folders.join(",")}}/**/*.ts`).flatMap((path) =>
    [THROWN, ENDINGS].flatMap((pattern) =>
      [...readFileSync(path, "utf8").matchAll(pattern)].map(([, code]): [string, string] => [
        code!,
        path,
      ]),
    ),
  );
}

describe("the table of codes", () => {
  it("the table has every code that the package and the server throw", () => {
    const thrown = thrownIn(
      ..."base,wire,engine,dispatch,objects,worker,client,ratelimit,hono,testing".split(","),
    );
    expect(new Set(thrown.map(([code]) => code)).size).toBeGreaterThan(80);
    const known: readonly string[] = ALL_CODES;
    // A reason of a result, which is no error.
    const others = ["cost_exceeds_limit"];
    expect(thrown.filter(([code]) => !known.includes(code) && !others.includes(code))).toEqual([]);
  });

  it("the table has all codes of RateLimitError, as codes about arguments", () => {
    expectTypeOf<RateLimitErrorCode>().toExtend<Code>();
    const source = readFileSync("src/wire/ratelimit/error.ts", "utf8");
    const codes = [...source.matchAll(/^ {2}\| "(\w+)"/gm)].map(([, code]) => code!);
    expect(codes.length).toBeGreaterThan(10);
    expect(codes.filter((code) => phaseOf(code) !== Phase.argument)).toEqual([]);
  });

  it("every HTTP code has an error status, in rising order", () => {
    const statuses = PROBLEM_CODES.map((code) => statusOf(code));
    expect(statuses).toEqual(statuses.toSorted((a, b) => a - b));
    expect(statuses[0]).toBe(400);
    expect(statuses.at(-1)).toBe(507);
  });

  it.each(ALL_CODES)(
    "the title of %s is a phrase with a capital and without a full stop",
    (code) => {
      expect(titleOf(code)).toMatch(/^[A-Z].*[^.]$/);
    },
  );

  it.each(["toString", "__proto__", "of_a_later_release"])(
    "the table has no row for %s",
    (code) => {
      expect([phaseOf(code), statusOf(code)]).toEqual([undefined, null]);
    },
  );

  it("the command line exits with 2 for exactly the codes about arguments", () => {
    const exits = ALL_CODES.filter(
      (code) => failureOf(new ThrottrError(code, "why")).exitCode === ExitCode.usage,
    );
    expect(exits).toEqual(ALL_CODES.filter((code) => phaseOf(code) === Phase.argument));
    for (const code of [
      "quota_name_invalid",
      "configuration_invalid",
      "unit_invalid",
      "kind_invalid",
      "policy_invalid",
      "expires_at_ns_invalid",
      "bytes_max_invalid",
    ]) {
      expect(exits).toContain(code);
    }
  });
});

describe("the reference", () => {
  const reference = readFileSync("docs/reference.md", "utf8");
  const errors = reference.slice(reference.indexOf("\n## Errors"));
  const rows = errors
    .split("\n")
    .filter((line) => line.startsWith("| `"))
    .map((line) => line.split("|").map((cell) => cell.trim()));
  const codesOf = (cell: string): string[] =>
    [...cell.matchAll(/`([a-z]+(?:_[a-z]+)*)`/g)].map(([, code]) => code!);
  const listed = rows.flatMap(([, cell]) => codesOf(cell!));

  it("the reference lists every code that callers can get", () => {
    const between = [
      "answer_version",
      "channels_max",
      "charge_cancelled",
      "journal_failed",
      "page_version",
      "shard_moved",
    ];
    expect(ALL_CODES.filter((code) => !listed.includes(code) && !between.includes(code))).toEqual(
      [],
    );
  });

  it("the reference lists no code that the table does not have", () => {
    const known: readonly string[] = [...ALL_CODES, "cost_exceeds_limit"];
    expect(listed.filter((code) => !known.includes(code))).toEqual([]);
  });

  it("the reference gives HTTP codes the statuses of the table", () => {
    // Rows of the first table have a status, and a close code of WebSockets.
    const ofHttp = rows.filter((cells) => cells.length === 6);
    expect(ofHttp.length).toBeGreaterThan(25);
    for (const [, codes, status] of ofHttp) {
      const statuses = codesOf(codes!).map((code) => statusOf(code));
      const said = [...status!.matchAll(/\d{3}/g)].map(([text]) => Number(text));
      expect([codes, new Set(statuses.filter((of) => of !== null))]).toEqual([
        codes,
        new Set(said),
      ]);
    }
  });
});

it("a client takes exactly the codes of the phase unknown for an unknown outcome", () => {
  const unknown = ALL_CODES.filter((code) => phaseOf(code) === Phase.unknown);
  expect(UNKNOWN_CODES.toSorted()).toEqual(unknown.toSorted());
});
