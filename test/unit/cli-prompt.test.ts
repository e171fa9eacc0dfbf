/** What the prompt completes, and what it keeps of what was typed. */
import { mkdtempSync, readFileSync, rmSync, statSync, writeFileSync, mkdirSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { Clients } from "../../src/cli/connection.ts";
import { ExitCode } from "../../src/cli/exit-code.ts";
import { programOf } from "../../src/cli/program.ts";
import { completionsOf } from "../../src/cli/prompt/completion.ts";
import { History } from "../../src/cli/prompt/history.ts";
import { fakeHost } from "../support/cli/host.ts";

const signal = new AbortController().signal;
const program = programOf({
  host: fakeHost(),
  clients: new Clients(),
  flags: {},
  signal,
  renewSignal: () => signal,
  isPrompt: true,
  exitCode: ExitCode.done,
});

const KEYS = ["user:1", "user:2", "two words", "views", "wi'ld"];

async function hits(line: string): Promise<readonly string[]> {
  const [found, word] = await completionsOf(program, ["exit"], line, (prefix) =>
    Promise.resolve(KEYS.filter((key) => key.startsWith(prefix))),
  );
  expect(line.endsWith(word)).toBe(true);
  return found;
}

describe("completion", () => {
  it.each([
    ["qu", ["query "]],
    ["ex", ["exit ", "export "]],
    ["profile ", ["add ", "list ", "remove ", "use "]],
    ["get us", ["user:1 ", "user:2 "]],
    ["get us --raw", ["--raw "]],
    ["get --url http://x v", ["views "]],
    ["get --json v", ["views "]],
    ["purge views us", ["user:1 ", "user:2 "]],
    ["update views in", ["increase "]],
    ["update views increase ", []],
    ["limit api ada --strategy s", ["sliding_window "]],
    ["limit api ", []],
    ["monitor --sort r", ["reads "]],
    ["get user:1 v", []],
    ["get tw", []],
    ["get w", []],
    ["get 'us", []],
    ["acquire x -- l", []],
    ["nothing ", []],
  ])("completion of %j offers the matching words", async (line, expected) => {
    expect(await hits(line)).toEqual(expected);
  });

  it("completion knows every option of a command", async () => {
    expect(await hits("set k --i")).toEqual(["--idempotency-key ", "--if-absent "]);
  });
});

describe("history", () => {
  let folder: string;
  beforeAll(() => {
    folder = mkdtempSync(join(tmpdir(), "throttr-cli-"));
  });
  afterAll(() => rmSync(folder, { recursive: true, force: true }));

  it("history is kept between prompts, without tokens, and readable by its owner alone", () => {
    const environment = { XDG_STATE_HOME: folder };
    const history = new History(environment);
    for (const line of ["get a", "get a", "", " get b", "get c --token t", "list "]) {
      history.add(line);
    }
    expect(history.newestFirst).toEqual(["list", "get a"]);
    expect(new History(environment).newestFirst).toEqual(["list", "get a"]);
    const path = join(folder, "throttr-edge", "history");
    expect(statSync(path).mode & 0o777).toBe(0o600);
  });

  it("history has a bounded length", () => {
    const environment = { XDG_STATE_HOME: join(folder, "long") };
    mkdirSync(join(folder, "long", "throttr-edge"), { recursive: true });
    const path = join(folder, "long", "throttr-edge", "history");
    writeFileSync(path, Array.from({ length: 2500 }, (_, i) => `get ${i}\n`).join(""));
    const { newestFirst } = new History(environment);
    expect([newestFirst.length, newestFirst[0]]).toEqual([1000, "get 2499"]);
    expect(readFileSync(path, "utf8").split("\n")).toHaveLength(1001);
  });

  it("history stays in memory when its file cannot be written", () => {
    const history = new History({ XDG_STATE_HOME: "/dev/null/x" });
    history.add("get a");
    expect(history.newestFirst).toEqual(["get a"]);
  });
});
