/** The version: package.json has it, and `npm version` carries it to the other files. */
import { execFileSync } from "node:child_process";
import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { expect, it } from "vitest";
import { VERSION } from "../../src/base/version.ts";

const EXAMPLE = "examples/hono-api/package.json";
const LOCK = "examples/astro/package-lock.json";
const FILES = [
  "package.json",
  "package-lock.json",
  "CHANGELOG.md",
  "src/base/version.ts",
  EXAMPLE,
  LOCK,
];

const versionIn = (path: string): string =>
  (JSON.parse(readFileSync(path, "utf8")) as { version: string }).version;

/** The version at the top of a changelog, and whether it is released. */
function topOf(changelog: string): { version: string; isReleased: boolean } {
  const [, version = "", state] = /^## (\S+)( \(unreleased\))?$/m.exec(changelog) ?? [];
  return { version, isReleased: state === undefined };
}

it("package.json, its lock file, the sources and the changelog have the same version", () => {
  expect(versionIn("package-lock.json")).toBe(versionIn("package.json"));
  expect(VERSION).toBe(versionIn("package.json"));
  expect(topOf(readFileSync("CHANGELOG.md", "utf8")).version).toBe(VERSION);
});

it("npm version writes the version to all of them, and begins a part of the changelog once", () => {
  const folder = mkdtempSync(join(tmpdir(), "throttr-version-"));
  for (const path of [...FILES, ".npmrc"]) cpSync(path, join(folder, path));
  const run = (...args: string[]): string =>
    execFileSync("npm", args, { cwd: folder, encoding: "utf8", stdio: ["ignore", "pipe", "pipe"] });
  // npm runs the script of the folder.
  const packageJson = JSON.parse(readFileSync(join(folder, "package.json"), "utf8")) as {
    scripts: Record<string, string>;
  };
  expect(packageJson.scripts.version).toBe("node scripts/version.ts");
  packageJson.scripts = { version: `"${process.execPath}" "${resolve("scripts/version.ts")}"` };
  writeFileSync(join(folder, "package.json"), JSON.stringify(packageJson, null, 2));

  run("version", "99.1.0");
  run("version", "99.1.0", "--allow-same-version");
  expect(versionIn(join(folder, "package.json"))).toBe("99.1.0");
  expect(versionIn(join(folder, "package-lock.json"))).toBe("99.1.0");
  expect(readFileSync(join(folder, "src/base/version.ts"), "utf8")).toContain('"99.1.0"');
  expect(readFileSync(join(folder, EXAMPLE), "utf8")).toContain("../throttr-edge-99.1.0.tgz");
  const lock = readFileSync(join(folder, LOCK), "utf8");
  expect(lock.match(/throttr-edge-99\.1\.0\.tgz/g)).toHaveLength(2);
  expect(lock).toMatch(/"node_modules\/throttr-edge": \{\s*"version": "99\.1\.0"/);
  const changelog = readFileSync(join(folder, "CHANGELOG.md"), "utf8");
  expect(topOf(changelog)).toEqual({ version: "99.1.0", isReleased: false });
  expect(changelog.match(/^## 99\.1\.0/gm)).toHaveLength(1);
  rmSync(folder, { recursive: true });
});
