/** Runs an example locally, beside the server where it is bound to that: `npm run example -- hono-api`. */
import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync, readdirSync, symlinkSync } from "node:fs";
import {
  assertPortsFree,
  endWithSignals,
  getReady,
  OPEN_INSIDE,
  ROOT,
  startServer,
} from "./server.ts";

const PORT = 8787;
const EXAMPLES = `${ROOT}examples`;
/** Those with `wrangler.toml` are bound to the server; the others have it inside them. */
const CONFIGS = ["wrangler.toml", "wrangler.jsonc"];
const names = readdirSync(EXAMPLES).filter((name) => configOf(name) !== undefined);
const [name = ""] = process.argv.slice(2);

if (!names.includes(name)) {
  console.error(`which example? npm run example -- ${names.join(" | ")}`);
  process.exit(1);
}
if (existsSync(`${EXAMPLES}/${name}/package-lock.json`)) process.exit(startProject());
await assertPortsFree([PORT]);
linkPackage();
const config = configOf(name)!;
const server = startServer({
  config,
  beside: config.endsWith(".toml") ? [`${ROOT}wrangler.toml`] : [],
  port: PORT,
  variables: OPEN_INSIDE,
  stdio: "inherit",
  isForeground: true,
});
endWithSignals(server);
if (await getReady(server, PORT, [])) console.log(`${name} is ready: http://127.0.0.1:${PORT}`);

/** Starts an example whose framework is not installed here: as a project of its own, with the packed package. */
function startProject(): number {
  const cwd = `${EXAMPLES}/${name}`;
  const npm = (...args: readonly string[]): number =>
    spawnSync("npm", args, { cwd, stdio: "inherit" }).status ?? 1;
  return (
    npm("pack", ROOT, "--ignore-scripts", "--pack-destination", EXAMPLES) ||
    npm("ci") ||
    npm("start")
  );
}

/** The configuration of an example; undefined for a folder without one. */
function configOf(example: string): string | undefined {
  return CONFIGS.map((file) => `${EXAMPLES}/${example}/${file}`).find((path) => existsSync(path));
}

/**
 * Lets examples find the package that was built here by its name. A folder with a package.json of its own does not
 * know the name of the package around it.
 */
function linkPackage(): void {
  const link = `${EXAMPLES}/node_modules/throttr-edge`;
  if (existsSync(link)) return;
  mkdirSync(`${EXAMPLES}/node_modules`, { recursive: true });
  symlinkSync(ROOT, link, "junction");
}
