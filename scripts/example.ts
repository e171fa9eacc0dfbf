/** Runs an example beside the server, both locally: `npm run example -- hono-api`. */
import { readdirSync } from "node:fs";
import { assertPortsFree, endWithSignals, ROOT, startServer, waitUntilReady } from "./server.ts";

const PORT = 8787;
const EXAMPLES = `${ROOT}examples`;
const names = readdirSync(EXAMPLES, { withFileTypes: true })
  .filter((entry) => entry.isDirectory())
  .map(({ name }) => name);
const [name = ""] = process.argv.slice(2);

if (!names.includes(name)) {
  console.error(`which example? npm run example -- ${names.join(" | ")}`);
  process.exit(1);
}
await assertPortsFree([PORT]);
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
