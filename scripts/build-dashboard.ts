/**
 * Builds the dashboard into `.wrangler/assets`: what `wrangler dev` and `wrangler deploy` serve at
 * `/dashboard`. They run it themselves: see `[build]` in `wrangler.toml`.
 */
import { cpSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { build, type InlineConfig } from "tsdown";

const ROOT = fileURLToPath(new URL("..", import.meta.url));
const SOURCE = join(ROOT, "src/dashboard");

/**
 * Nothing is removed first: a server that is running goes on serving what was there.
 *
 * @param folder where the assets go
 */
export async function buildDashboard(folder = join(ROOT, ".wrangler/assets")): Promise<void> {
  const target = join(folder, "dashboard");
  mkdirSync(target, { recursive: true });
  cpSync(join(SOURCE, "static"), folder, { recursive: true });
  const plot = folderOf("uplot");
  writeText("style.css", [join(plot, "dist/uPlot.min.css"), join(SOURCE, "style.css")]);
  // Scripts are minified, and have no comments: what they are made of wants its licences to go along.
  writeText("licenses.txt", [join(plot, "LICENSE"), join(folderOf("hono"), "LICENSE")]);
  await Promise.all([
    build(optionsOf("main", "main.tsx", target, "esm")),
    // A classic script: it runs before the page is drawn, a module would run after.
    build(optionsOf("theme-first", "theme-first.ts", target, "iife")),
  ]);

  function writeText(name: string, files: readonly string[]): void {
    writeFileSync(join(target, name), files.map((file) => readFileSync(file, "utf8")).join("\n"));
  }
}

const folderOf = (name: string): string => join(ROOT, "node_modules", name);

function optionsOf(
  name: string,
  entry: string,
  folder: string,
  format: "esm" | "iife",
): InlineConfig {
  return {
    config: false,
    cwd: ROOT,
    entry: { [name]: join(SOURCE, entry) },
    outDir: folder,
    format,
    platform: "browser",
    target: "es2024",
    tsconfig: join(ROOT, "tsconfig.dashboard.json"),
    dts: false,
    minify: true,
    clean: false,
    logLevel: "warn",
    deps: { alwaysBundle: [/./], onlyBundle: false },
    outputOptions: { entryFileNames: `${name}.js` },
  };
}

if (import.meta.main) await buildDashboard(process.argv[2]);
