/**
 * A plugin of tsdown that turns the built pages into modules: `import files from "pages:dashboard"` is an object of
 * `Pages` in `src/embedded/pages.ts`. Headers are those that the assets of the stand-alone server have.
 */
import { readFileSync } from "node:fs";
import { assetsIn } from "../src/cli/serve/assets.ts";
import type { PageFile, Pages } from "../src/embedded/pages.ts";
import { buildDashboard } from "./build-dashboard.ts";

const FOLDER = ".wrangler/page-modules";
const SCHEME = "pages:";
/** An id that no file has. */
const ID = "\0pages:";

/** The reference shares its icon and its theme with the dashboard. */
const SHARED: Readonly<Record<string, readonly string[]>> = {
  dashboard: [],
  docs: ["/dashboard/icon.svg", "/dashboard/theme-first.js"],
};

/** Only where a module is asked for, so that other builds don't build the pages. */
let built: Promise<void> | null = null;

export const pageModules = {
  name: "page-modules",
  resolveId: (source: string) => (source.startsWith(SCHEME) ? source.replace(SCHEME, ID) : null),
  load: async (id: string) => {
    if (!id.startsWith(ID)) return null;
    await (built ??= buildDashboard(FOLDER));
    return `export default ${JSON.stringify(pagesOf(id.slice(ID.length)))};`;
  },
};

function pagesOf(name: string): Pages {
  const files: Record<string, PageFile> = {};
  const detours: Record<string, string> = {};
  for (const asset of assetsIn(FOLDER)) {
    const { path, headers } = asset;
    const isOwn = path === `/${name}` || path.startsWith(`/${name}/`);
    if (!isOwn && SHARED[name]?.includes(path) !== true) continue;
    files[path] = { body: readFileSync(asset.file, "utf8"), headers };
    for (const detour of asset.detours) detours[detour] = path;
  }
  return { files, detours };
}
