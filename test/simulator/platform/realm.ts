/**
 * The production code as the platform runs it: one bundle, and for each isolate modules with a state of their own. The globals that it
 * uses are parameters of the bundle, so it is the same code that is deployed.
 */
import { resolve } from "node:path";
import { Script } from "node:vm";
import { build, type Plugin } from "esbuild";
import { replaceableSizes } from "./sizes.ts";

/** The globals that an isolate gets from the simulator, by name. All others are Node's. */
export type Globals = Readonly<Record<string, unknown>>;

/** What a module of the production code exports. */
export type Exports = Readonly<Record<string, unknown>>;

/** Starts the production code in an isolate. */
export type Bundle = (globals: Globals, modules: Readonly<Record<string, object>>) => Exports;

/** Modules of the dashboard are assets of a deployment, which the simulated Worker has none of. */
const runtimeModules: Plugin = {
  name: "runtime-modules",
  setup: (build) => {
    build.onResolve({ filter: /^cloudflare:/ }, ({ path }) => ({ path, external: true }));
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
    plugins: [runtimeModules, replaceableSizes, ...(options.plugins ?? [])],
    logLevel: "silent",
  });
  const source = outputFiles[0]!.text;
  let names: readonly string[] | null = null;
  let start: ((...parameters: readonly unknown[]) => void) | null = null;
  return (globals, modules) => {
    names ??= Object.keys(globals);
    start ??= compiled(entry, source, names);
    const module: { exports: Exports } = { exports: {} };
    const require = (name: string): object => {
      const found = modules[name];
      if (found === undefined) throw new Error(`the simulator has no module ${name}`);
      return found;
    };
    start(require, module, module.exports, ...names.map((name) => globals[name]));
    return module.exports;
  };
}

/** As a function of what the code gets from its isolate. */
function compiled(
  entry: string,
  source: string,
  names: readonly string[],
): (...parameters: readonly unknown[]) => void {
  const text = `(function (require, module, exports, ${names.join(", ")}) {\n${source}\n})`;
  const script = new Script(text, { filename: `${entry} (bundled)` });
  return script.runInThisContext() as (...parameters: readonly unknown[]) => void;
}
