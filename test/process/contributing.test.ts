/**
 * CONTRIBUTING.md, tried as a contributor would: the paths and scripts that it names exist, and the first change that it
 * walks through applies to a copy of the sources, compiles, and passes its tests.
 */
import { execFile } from "node:child_process";
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { codeBlocksOf } from "../support/text/markdown-blocks.ts";

const DOCUMENT = "CONTRIBUTING.md";
/** The file that the walk creates. */
const NEW_TEST = "test/unit/raise.test.ts";
/** What a copy needs to be checked and tested. */
const COPIED = ["src", "test", "scripts", "package.json", "wrangler.toml", "vitest.config.ts"];
const TYPES = ["tsconfig.worker.json", "tsconfig.node.json", "tsconfig.library.json"];

const run = promisify(execFile);
const text = readFileSync(DOCUMENT, "utf8");
const blocks = codeBlocksOf(DOCUMENT);

describe("CONTRIBUTING.md", () => {
  it("CONTRIBUTING.md names only files and folders that exist", () => {
    const places = [
      ...text.matchAll(/(?<![\w./-])(?:src|test|docs|scripts|examples|\.ci|\.github)\/[\w./-]*\w/g),
    ]
      .map(([path]) => path)
      .concat(["layers.config.ts", "CHANGELOG.md", "package.json"]);
    expect(places.length).toBeGreaterThan(40);
    const missing = places.filter((path) => !existsSync(path) && !path.includes("VERSION"));
    expect([...new Set(missing)]).toEqual([NEW_TEST]);
  });

  it("CONTRIBUTING.md names only npm scripts that exist", () => {
    const { scripts } = JSON.parse(readFileSync("package.json", "utf8")) as {
      scripts: Record<string, string>;
    };
    const named = [...text.matchAll(/npm run (?:-s )?([a-z:-]+)/g)].map(([, name]) => name!);
    expect(named.length).toBeGreaterThan(4);
    expect(named.filter((name) => !Object.hasOwn(scripts, name))).toEqual([]);
  });
});

describe("the first change of CONTRIBUTING.md", () => {
  const copy = mkdtempSync(join(tmpdir(), "throttr-contributing-"));

  beforeAll(() => {
    for (const path of [...COPIED, ...TYPES, "CHANGELOG.md"]) {
      cpSync(path, join(copy, path), { recursive: true });
    }
    symlinkSync(resolve("node_modules"), join(copy, "node_modules"));
    mkdirSync(join(copy, ".wrangler"));
    symlinkSync(resolve("dist"), join(copy, "dist"));
    for (const { code } of blocks.filter(({ language }) => language === "diff")) {
      for (const hunk of code.split(/^(?=--- )/m)) apply(hunk);
    }
    const [test] = blocks.filter(({ language }) => language === "ts");
    writeFileSync(join(copy, NEW_TEST), test!.code);
  });

  afterAll(() => rmSync(copy, { recursive: true, force: true }));

  /** Replaces the lines that a hunk removes or leaves by those that it adds or leaves, in the one place that has them. */
  function apply(hunk: string): void {
    const [head = "", ...lines] = hunk.trimEnd().split("\n");
    const path = join(copy, head.replace("--- ", ""));
    const with_ = (marks: string): string =>
      lines
        .filter((line) => marks.includes(line[0] ?? " "))
        .map((line) => `${line.slice(1)}\n`)
        .join("");
    const before = with_(" -");
    const parts = readFileSync(path, "utf8").split(before);
    expect(parts, `${head} has not these lines, or more than once:\n${before}`).toHaveLength(2);
    writeFileSync(path, parts.join(with_(" +")));
  }

  it.each(TYPES)("the sources with the change compile with %s", async (config) => {
    const compiler = resolve("node_modules/.bin/tsc");
    const { stdout } = await run(compiler, ["-p", config], { cwd: copy }).catch(
      (error: { stdout: string }) => error,
    );
    expect(stdout).toBe("");
  });

  it("the sources with the change are formatted", async () => {
    const files = blocks.flatMap(({ code }) =>
      [...code.matchAll(/^--- (.*)/gm)].map(([, path]) => path!),
    );
    const prettier = resolve("node_modules/prettier/bin/prettier.cjs");
    await run(process.execPath, [prettier, "--print-width=100", "--check", NEW_TEST, ...files], {
      cwd: copy,
    });
  });

  it.each([
    ["unit", NEW_TEST],
    ["unit", "test/unit/commands-once.test.ts", "-t", "RAISE"],
    ["pool", "test/pool/v1-routes.test.ts", "-t", "raiseCounter"],
  ])("the tests of the change pass: --project %s %s", async (project, ...args) => {
    const vitest = resolve("node_modules/vitest/vitest.mjs");
    const { stdout } = await run(process.execPath, [vitest, "run", "--project", project, ...args], {
      cwd: copy,
      env: { ...process.env, NO_COLOR: "1" },
      timeout: 240_000,
    });
    expect(stdout).toMatch(/Tests +\d+ passed/);
  });
});
