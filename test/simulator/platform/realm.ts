/**
 * The production code as the platform runs it: one bundle, and for each isolate modules with a state of their own. The globals that it
 * uses are parameters of the bundle, so it is the same code that is deployed.
 */
import { resolve } from "node:path";
import { Script } from "node:vm";
import { build, type Plugin } from "esbuild";

/** The globals that an isolate gets from the simulator, by name. All others are Node's. */
export type Globals = Readonly<Record<string, unknown>>;

/** What a module of the production code exports. */
export type Exports = Readonly<Record<string, unknown>>;

/** Starts the production code in an isolate. */
export type Bundle = (globals: Globals, modules: Readonly<Record<string, object>>) => Exports;

/** Names of the globals that a bundle takes, in the order of its parameters. */
const NAMES = [
  "Date",
  "setTimeout",
  "clearTimeout",
  "setInterval",
  "clearInterval",
  "scheduler",
  "crypto",
  "performance",
  "console",
  "navigator",
  "caches",
  "fetch",
  "AbortSignal",
  "Request",
  "Response",
  "WebSocket",
  "WebSocketPair",
  "WebSocketRequestResponsePair",
] as const;

/** Modules of the dashboard are assets of a deployment, which the simulated Worker has none of. */
const runtimeModules: Plugin = {
  name: "runtime-modules",
  setup({ onResolve }) {
    onResolve({ filter: /^cloudflare:/ }, ({ path }) => ({ path, external: true }));
  },
};

/**
 * Bundles a module and all that it imports.
 *
 * @param entry path of a module of the project
 */
export async function bundle(
  entry: string,
  options: { readonly root?: string; readonly plugins?: readonly Plugin[] } = {},
): Promise<Bundle> {
  const root = options.root ?? resolve(import.meta.dirname, "../../..");
  const { outputFiles } = await build({
    entryPoints: [resolve(root, entry)],
    absWorkingDir: root,
    bundle: true,
    write: false,
    format: "cjs",
    target: "es2024",
    conditions: ["workerd", "worker", "browser"],
    platform: "neutral",
    mainFields: ["module", "main"],
    loader: { ".html": "text", ".svg": "text" },
    plugins: [runtimeModules, ...(options.plugins ?? [])],
    logLevel: "silent",
  });
  const source = `(function (require, module, exports, ${NAMES.join(", ")}) {\n${outputFiles[0]!.text}\n})`;
  const script = new Script(source, { filename: `${entry} (bundled)` });
  const start = script.runInThisContext() as (...parameters: readonly unknown[]) => void;
  return (globals, modules) => {
    const module: { exports: Exports } = { exports: {} };
    const require = (name: string): object => {
      const found = modules[name];
      if (found === undefined) throw new Error(`the simulator has no module ${name}`);
      return found;
    };
    start(require, module, module.exports, ...NAMES.map((name) => globals[name]));
    return module.exports;
  };
}
