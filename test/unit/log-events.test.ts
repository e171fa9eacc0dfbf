/** Log events: the table has all that are logged, and no other; it is written down for whoever reads logs. */
import { globSync, readFileSync } from "node:fs";
import { afterEach, describe, expect, it, vi } from "vitest";
import { LOG_EVENTS } from "../../src/base/log-events.ts";
import { logError, logWarning } from "../../src/base/log.ts";

const TABLE = "src/base/log-events.ts";
const LOG = "src/base/log.ts";
const events = Object.entries(LOG_EVENTS);
const names = Object.keys(LOG_EVENTS);

/** Sources of the server: what runs elsewhere does not log. */
const sources = globSync("src/{base,dispatch,engine,objects,wire,worker}/**/*.ts")
  .filter((path) => path !== TABLE && !path.endsWith(".d.ts"))
  .map((path) => ({ path, text: readFileSync(path, "utf8") }));

const documents = ["README.md", ...globSync("docs/**/*.md")].map((path) =>
  readFileSync(path, "utf8"),
);
/** Rows of the table, wherever it stands. */
const rows = documents
  .flatMap((text) => text.split("\n"))
  .map((line) => line.split("|").map((cell) => cell.trim()))
  .filter(([, , severity]) => severity === "warning" || severity === "error");

afterEach(() => {
  vi.restoreAllMocks();
});

describe("log events", () => {
  it("all log events are logged through one function", () => {
    expect(sources.length).toBeGreaterThan(100);
    const others = sources.filter(({ path, text }) => {
      return path !== LOG && /^(?! *\*).*\bconsole\./m.test(text);
    });
    expect(others.map(({ path }) => path)).toEqual([]);
  });

  it.each(names)("the event %s is logged somewhere, with its severity", (name) => {
    const { severity } = LOG_EVENTS[name as keyof typeof LOG_EVENTS];
    const using = sources.filter(({ path, text }) => path !== LOG && text.includes(`"${name}"`));
    expect(using.length).toBeGreaterThan(0);
    const call = severity === "error" ? "logError(" : "logWarning(";
    expect(sources.some(({ text }) => text.includes(call))).toBe(true);
    const direct = sources.flatMap(({ text }) => [
      ...text.matchAll(new RegExp(`(log\\w+)\\(\\s*"${name}"`, "g")),
    ]);
    expect(direct.every(([, logger]) => `${logger}(` === call)).toBe(true);
  });

  it.each(events)(
    "the event %s has a description, and its fields do",
    (name, { meaning, fields }) => {
      expect(name).toMatch(/^[a-z]+(_[a-z]+)+$/);
      expect(meaning).toMatch(/^[A-Z].*\.$/);
      for (const [field, text] of Object.entries(fields)) {
        expect(field).toMatch(/^[a-z][a-zA-Z]*$/);
        expect(text).toMatch(/[^.]$/);
      }
    },
  );

  it("unknown events and fields do not compile", () => {
    vi.spyOn(console, "warn").mockImplementation(() => {});
    vi.spyOn(console, "error").mockImplementation(() => {});
    // @ts-expect-error there is no such event
    logWarning("nobody_knows", {});
    // @ts-expect-error it is an error, not a warning
    logWarning("request_failed", {});
    // @ts-expect-error it has no such field
    logWarning("tcp_stalled", { typo: 1 });
    // @ts-expect-error it is a warning, not an error
    logError("tcp_stalled", {});
  });

  it("log events are lines of JSON that begin with their name, on the console of their severity", () => {
    const warn = vi.spyOn(console, "warn").mockImplementation(() => {});
    const error = vi.spyOn(console, "error").mockImplementation(() => {});
    logWarning("tcp_stalled", { unwrittenBytes: 5 });
    logError("request_failed", { error: "Error: line\nbreak" });
    expect(warn.mock.calls).toEqual([['{"event":"tcp_stalled","unwrittenBytes":5}']]);
    expect(error.mock.calls).toEqual([
      ['{"event":"request_failed","error":"Error: line\\nbreak"}'],
    ]);
  });

  // As long as no document has any of them there is nothing to compare.
  it.skipIf(rows.length === 0)("the document describes all log events word for word", () => {
    const expected = events.map(([name, { severity, meaning, fields }]) => {
      const told = Object.entries(fields).map(([field, text]) => `\`${field}\`: ${text}`);
      return ["", `\`${name}\``, severity, meaning, told.join("; "), ""];
    });
    expect(rows).toEqual(expected);
  });
});
