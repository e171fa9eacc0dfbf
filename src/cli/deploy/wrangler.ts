/** Runs wrangler: the one of the project, or of this package's checkout, else the tested version by npx. */
import { spawn, type StdioOptions } from "node:child_process";
import { once } from "node:events";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { childExitCode, type ExitCode } from "../exit-code.ts";
import { UsageError } from "../failure.ts";
import { interrupted } from "../interruption.ts";
import { isNodeFor, NODE_FOR_WRANGLER, TOOLS } from "../tools.ts";

export interface Ran {
  readonly status: ExitCode;
  /** What it printed on a piped standard output. */
  readonly printed: string;
}

/** A Node: the one that runs this command line, or another. */
export interface NodeProgram {
  readonly path: string;
  /** Such as `20.20.2`. */
  readonly version: string;
}

/** A command, and its arguments before those of wrangler. */
export interface WranglerCommand {
  readonly command: string;
  readonly before: readonly string[];
}

/**
 * Runs wrangler to its end, which a signal of the command asks for.
 *
 * @param signal aborted by SIGINT and SIGTERM
 * @param stdio as `spawn` takes it; all of the terminal unless given
 * @throws UsageError `node_old`, and `wrangler_unusable` when the program can't be started; ThrottrError `aborted`
 */
export async function runWrangler(
  args: readonly string[],
  signal: AbortSignal,
  stdio: StdioOptions = "inherit",
): Promise<Ran> {
  const node = { path: process.execPath, version: process.versions.node };
  const { command, before } = wranglerCommand(process.cwd(), node);
  if (signal.aborted) throw interrupted();
  // On Windows `npx` is a script, which only a shell can start.
  const shell = command === "npx" && process.platform === "win32";
  const child = spawn(command, [...before, ...args], { stdio, shell });
  const end = (): void => void child.kill("SIGTERM");
  signal.addEventListener("abort", end);
  let printed = "";
  child.stdout?.setEncoding("utf8").on("data", (text: string) => (printed += text));
  const closed = once(child, "close") as Promise<[number | null, NodeJS.Signals | null]>;
  try {
    const [code, name] = await closed.catch(({ message }: Error) => {
      throw new UsageError("wrangler_unusable", `${command} does not start: ${message}`);
    });
    const status = childExitCode(code, name);
    // One that has done its work before the signal came has deployed.
    if (signal.aborted && status !== 0) throw interrupted();
    return { status, printed };
  } finally {
    signal.removeEventListener("abort", end);
  }
}

/**
 * How wrangler starts in a folder: on the package `node` of the project, if it has one, as npm scripts find that first.
 *
 * @param own the Node that runs this command line
 * @throws UsageError `node_old` when wrangler would refuse to start on it
 */
export function wranglerCommand(folder: string, own: NodeProgram): WranglerCommand {
  const project = join(folder, "package.json");
  const wrangler = installed("wrangler", [project, import.meta.url]);
  const node = projectNode(project) ?? own;
  if (!isNodeFor(node.version, wrangler?.node)) {
    throw new UsageError(
      "node_old",
      `wrangler needs Node ${NODE_FOR_WRANGLER} or newer, and this is ${node.version}: install one in the folder with \`npm install --save-dev node@24 wrangler@${TOOLS.wrangler}\``,
    );
  }
  return wrangler === null
    ? { command: "npx", before: ["--yes", `wrangler@${TOOLS.wrangler}`] }
    : { command: node.path, before: [join(wrangler.folder, "bin/wrangler.js")] };
}

/** The package `node` of a project, which is a Node; null where it has none. */
function projectNode(project: string): NodeProgram | null {
  const found = installed("node", [project]);
  if (found === null) return null;
  const program = process.platform === "win32" ? "node.exe" : "node";
  return { path: join(found.folder, "bin", program), version: found.version };
}

interface Installed {
  readonly folder: string;
  readonly version: string;
  /** The versions of Node that it runs on, as npm writes them. */
  readonly node: string | undefined;
}

/** Looks an installed package up from each place in turn; null if no place finds it. */
function installed(name: string, places: readonly string[]): Installed | null {
  for (const place of places) {
    try {
      const require = createRequire(place);
      const path = require.resolve(`${name}/package.json`);
      const { version, engines } = require(path) as {
        version: string;
        engines?: { node?: string };
      };
      return { folder: dirname(path), version, node: engines?.node };
    } catch {
      // Not there.
    }
  }
  return null;
}
