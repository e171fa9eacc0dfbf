/** Finds the program of workerd, and checks that it is new enough for the Worker. */
import { execFileSync } from "node:child_process";
import { existsSync } from "node:fs";
import { createRequire } from "node:module";
import { join, resolve } from "node:path";
import { UsageError } from "../failure.ts";
import { COMPATIBILITY_DATE } from "./configuration.ts";

const PACKAGE = "workerd";
/** What a person types to get the version that this release is tested with. */
const INSTALL = "npm install workerd@1.20261023.1";
/** A program that is not workerd may wait for input. */
const VERSION_TIMEOUT_MS = 10_000;

/**
 * The path of the program: the given one, or else that of the package `workerd`, installed beside this package or in the
 * current folder.
 *
 * @throws UsageError `workerd_missing`, `workerd_unusable`, `workerd_old`
 */
export function findWorkerd(named: string | undefined): string {
  const path = named === undefined ? packagedWorkerd() : resolve(named);
  if (path === null || !existsSync(path)) {
    throw new UsageError(
      "workerd_missing",
      named === undefined
        ? `serve needs the package workerd: ${INSTALL}; or name the program with --workerd <path>`
        : `--workerd: there is no ${path}`,
    );
  }
  const version = versionOf(path);
  if (version >= COMPATIBILITY_DATE) return path;
  throw new UsageError(
    "workerd_old",
    `${path} is workerd ${version}, but serve needs ${COMPATIBILITY_DATE} or newer: ${INSTALL}`,
  );
}

/**
 * The workerd beside this package, else that of the current folder: a global installation has none
 * beside it.
 */
function packagedWorkerd(): string | null {
  return workerdFrom(import.meta.url) ?? workerdFrom(join(process.cwd(), "package.json"));
}

/** Asks the package for its program, which is in another package for each platform. */
function workerdFrom(place: string): string | null {
  try {
    // Node's own search for packages, from a place: the package exports the path of its program.
    const found = createRequire(place)(PACKAGE) as { default?: unknown };
    return typeof found.default === "string" ? found.default : null;
  } catch {
    return null;
  }
}

/** The newest compatibility date that the program supports, as `YYYY-MM-DD`. */
function versionOf(path: string): string {
  let said: string;
  try {
    said = execFileSync(path, ["--version"], { encoding: "utf8", timeout: VERSION_TIMEOUT_MS });
  } catch (error) {
    throw new UsageError("workerd_unusable", `${path} does not run: ${(error as Error).message}`);
  }
  const version = /\d{4}-\d\d-\d\d/.exec(said)?.[0];
  if (version !== undefined) return version;
  throw new UsageError("workerd_unusable", `${path} is not workerd: its version is ${said.trim()}`);
}
