/**
 * The production code as the platform runs it: one bundle, and for each isolate modules with a state of their own. The globals that it
 * uses are parameters of the bundle, so it is the same code that is deployed.
 */
import { resolve } from "node:path";
import { build, type Plugin } from "esbuild";
import { programOf, type Program } from "./program.ts";
import { replaceableSizes } from "./sizes.ts";

/** The code of a release, and under which name the trace knows it. */
export interface Release {
  readonly name: string;
  readonly program: Program;
  /** Those that differ from the run's. */
  readonly variables?: Readonly<Record<string, string>>;
}

/** What production code extends. */
class Instance {
  readonly ctx: unknown;
  readonly env: unknown;

  constructor(ctx: unknown, env: unknown) {
    this.ctx = ctx;
    this.env = env;
  }
}

/** Modules of the platform. */
const MODULES = {
  "cloudflare:workers": {
    DurableObject: Instance,
    WorkerEntrypoint: Instance,
    exports: {},
    env: {},
  },
};

/** Modules of the dashboard are assets of a deployment, which the simulated Worker has none of. */
const runtimeModules: Plugin = {
  name: "runtime-modules",
  setup: (build) => {
    build.onResolve({ filter: /^cloudflare:/ }, ({ path }) => ({ path, external: true }));
  },
};

const ROOT = resolve(import.meta.dirname, "../../..");

/** Bundles a module and all that it imports, and makes it ready to start. */
export const bundle = async (entry: string, options: BundleOptions = {}): Promise<Program> =>
  bundleOf(entry, await sourceOf(entry, options));

/** @param name of the code, for stack traces */
export const bundleOf = (name: string, source: string): Program => programOf(name, source, MODULES);

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
