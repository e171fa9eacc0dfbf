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

/** The code of a release, and under which name the trace knows it. */
export interface Release {
  readonly name: string;
  readonly bundle: Bundle;
}

/** Modules of the dashboard are assets of a deployment, which the simulated Worker has none of. */
const runtimeModules: Plugin = {
  name: "runtime-modules",
  setup: (build) => {
    build.onResolve({ filter: /^cloudflare:/ }, ({ path }) => ({ path, external: true }));
  },
};

const ROOT = resolve(import.meta.dirname, "../../..");

/** Bundles a module and all that it imports, and makes it ready to start. */
export const bundle = async (entry: string, options: BundleOptions = {}): Promise<Bundle> =>
  bundleOf(entry, await sourceOf(entry, options));

export interface BundleOptions {
  /** A checkout, this one unless given. */
  readonly root?: string;
  readonly plugins?: readonly Plugin[];
  /** Without blanks that nobody will read. */
  readonly isCompact?: boolean;
}

/**
 * The text of a module and all that it imports.
 *
 * @param entry path of a module, from the root
 */
export async function sourceOf(entry: string, options: BundleOptions = {}): Promise<string> {
  const { root = ROOT, plugins = [], isCompact = false } = options;
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
    plugins: [runtimeModules, replaceableSizes, ...plugins],
    // Releases before have no modules of their own: they are those of this checkout.
    nodePaths: [resolve(ROOT, "node_modules")],
    minifyWhitespace: isCompact,
    logLevel: "silent",
  });
  return outputFiles[0]!.text;
}

/** @param name of the code, for stack traces */
export function bundleOf(name: string, source: string): Bundle {
  let names: readonly string[] | null = null;
  let start: ((...parameters: readonly unknown[]) => void) | null = null;
  return (globals, modules) => {
    names ??= Object.keys(globals);
    start ??= compiled(name, source, names);
    const module: { exports: Exports } = { exports: {} };
    const require = (path: string): object => {
      const found = modules[path];
      if (found === undefined) throw new Error(`the simulator has no module ${path}`);
      return found;
    };
    start(require, module, module.exports, ...names.map((name) => globals[name]));
    return module.exports;
  };
}

/** As a function of what the code gets from its isolate. */
function compiled(
  name: string,
  source: string,
  names: readonly string[],
): (...parameters: readonly unknown[]) => void {
  const text = `(function (require, module, exports, ${names.join(", ")}) {\n${source}\n})`;
  const script = new Script(text, { filename: `${name} (bundled)` });
  return script.runInThisContext() as (...parameters: readonly unknown[]) => void;
}
