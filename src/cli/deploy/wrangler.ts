/** Runs wrangler: the one of the project, or of this package's checkout, else the tested version by npx. */
import { spawnSync, type StdioOptions } from "node:child_process";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { childExitCode, type ExitCode } from "../exit-code.ts";
import { TOOLS } from "../tools.ts";

export interface Ran {
  readonly status: ExitCode;
  /** What it printed on a piped standard output. */
  readonly printed: string;
}

/** @param stdio as `spawn` takes it; all of the terminal unless given */
export function runWrangler(args: readonly string[], stdio: StdioOptions = "inherit"): Ran {
  const program = installedWrangler();
  const [command, before] =
    program === null
      ? ["npx", ["--yes", `wrangler@${TOOLS.wrangler}`]]
      : [process.execPath, [program]];
  // On Windows `npx` is a script, which only a shell can start.
  const shell = program === null && process.platform === "win32";
  const { status, signal, stdout } = spawnSync(command, [...before, ...args], {
    encoding: "utf8",
    stdio,
    shell,
  });
  return { status: childExitCode(status, signal), printed: stdout ?? "" };
}

/** The program of an installed wrangler; null where there is none. */
function installedWrangler(): string | null {
  for (const place of [join(process.cwd(), "package.json"), import.meta.url]) {
    try {
      const manifest = createRequire(place).resolve("wrangler/package.json");
      return join(dirname(manifest), "bin/wrangler.js");
    } catch {
      // Not there.
    }
  }
  return null;
}
