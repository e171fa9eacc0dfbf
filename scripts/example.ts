/** Runs an example beside the server, both locally: `npm run example -- hono-api`. */
import { existsSync, mkdirSync, readdirSync, symlinkSync } from "node:fs";
import { assertPortsFree, endWithSignals, ROOT, startServer, waitUntilReady } from "./server.ts";

const PORT = 8787;
const EXAMPLES = `${ROOT}examples`;
const names = readdirSync(EXAMPLES).filter((name) => {
  return existsSync(`${EXAMPLES}/${name}/wrangler.toml`);
});
const [name = ""] = process.argv.slice(2);

if (!names.includes(name)) {
  console.error(`which example? npm run example -- ${names.join(" | ")}`);
  process.exit(1);
}
await assertPortsFree([PORT]);
linkPackage();
const server = startServer({
  config: `${EXAMPLES}/${name}/wrangler.toml`,
  beside: [`${ROOT}wrangler.toml`],
  port: PORT,
  stdio: "inherit",
  isForeground: true,
});
endWithSignals(server);
await waitUntilReady(PORT, []);
console.log(`${name} is ready: http://127.0.0.1:${PORT}`);

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
