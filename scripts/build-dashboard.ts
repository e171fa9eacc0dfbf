/**
 * Builds the dashboard and the API reference into `.wrangler/assets`: what `wrangler dev` and `wrangler deploy` serve at
 * `/dashboard` and `/docs`. It runs behind `npm ci` (`dependencies` in package.json), and with `npm start` and `npm run deploy`.
 */
import { cpSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import fastifyApiReference from "@scalar/fastify-api-reference";
import { build, type InlineConfig } from "tsdown";

const ROOT = fileURLToPath(new URL("..", import.meta.url));
const SOURCE = join(ROOT, "src/dashboard");

/**
 * Overwrites the files of the build before, without removing them first, so that a running server always has them.
 *
 * @param folder where the assets go
 */
export async function buildDashboard(folder = join(ROOT, ".wrangler/assets")): Promise<void> {
  cpSync(join(SOURCE, "static"), folder, { recursive: true });
  const theme = join(SOURCE, "theme.css");
  const plot = folderOf("uplot");
  writeText("dashboard/style.css", [
    theme,
    join(plot, "dist/uPlot.min.css"),
    join(SOURCE, "style.css"),
  ]);
  writeText("docs/style.css", [theme, join(SOURCE, "reference/style.css")]);
  // Minified scripts have no comments, so the licences of what is bundled are in files beside them.
  writeText("dashboard/licenses.txt", [join(plot, "LICENSE"), join(folderOf("hono"), "LICENSE")]);
  writeText("docs/licenses.txt", [join(folderOf(REFERENCE_PACKAGE), "LICENSE")]);
  writeFileSync(join(folder, "docs/scalar.js"), referenceScript());
  await Promise.all([
    build(optionsOf("main", "main.tsx", join(folder, "dashboard"), "esm")),
    // A classic script: it runs before the page is drawn, a module would run after.
    build(optionsOf("theme-first", "theme-first.ts", join(folder, "dashboard"), "iife")),
    build(optionsOf("main", "reference/main.ts", join(folder, "docs"), "esm")),
  ]);

  function writeText(name: string, files: readonly string[]): void {
    const path = join(folder, name);
    mkdirSync(dirname(path), { recursive: true });
    writeFileSync(path, files.map((file) => readFileSync(file, "utf8")).join("\n"));
  }
}

const folderOf = (name: string): string => join(ROOT, "node_modules", name);

const REFERENCE_PACKAGE = "@scalar/fastify-api-reference";

/**
 * Scalar's browser build. `@scalar/api-reference` has it as a file, and installs 272 packages (257 MB) that went into it;
 * the plugin for Fastify has the same script as a string, and installs 24. It hands the string out on a route.
 */
function referenceScript(): string {
  let script = "";
  const reply = {
    header: () => reply,
    send: (text: string) => {
      script = text;
    },
  };
  const route = ({ url, handler }: Route): void => {
    if (url.endsWith("/scalar.js")) handler(null, reply);
  };
  const register = fastifyApiReference as unknown as RegisterPlugin;
  register({ route }, { configuration: { url: "/openapi.json" } }, () => {});
  if (script === "") throw new Error(`${REFERENCE_PACKAGE} has no route for its script any more`);
  // The map that it names is not in the package.
  return script.replace(/\n\/\/# sourceMappingURL=.*\s*$/, "\n");
}

/** What Scalar's plugin uses of Fastify. */
interface Route {
  readonly url: string;
  readonly handler: (request: null, reply: object) => void;
}
type RegisterPlugin = (
  fastify: { readonly route: (route: Route) => void },
  options: object,
  onDone: () => void,
) => void;

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
