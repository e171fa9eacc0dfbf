/** `npm start`: the server on loopback, every door open, data kept in `.wrangler/state`. */
import { parseArgs } from "node:util";
import { assertPortsFree, startServer, TCP_PORTS, waitUntilReady } from "./server.ts";

const HTTP_PORT = httpPortOf(process.argv.slice(2));

await assertPortsFree([HTTP_PORT, ...TCP_PORTS]);
const server = startServer({ port: HTTP_PORT, stdio: "inherit" });
for (const signal of ["SIGINT", "SIGTERM"] as const) {
  process.on(signal, () => server.process.kill(signal));
}
server.process.on("exit", (code) => process.exit(code ?? 0));

await waitUntilReady(HTTP_PORT, TCP_PORTS);
console.log(`
Throttr Edge is ready, on loopback, without tokens.

  Dashboard  http://127.0.0.1:${HTTP_PORT}/dashboard
  HTTP       POST http://127.0.0.1:${HTTP_PORT}/throttr/7.3/uint16
  WebSocket  ws://127.0.0.1:${HTTP_PORT}/throttr/7.3/uint16
  TCP        127.0.0.1:9000 (default size), 9001 (uint8), 9002 (uint16), 9004 (uint32), 9008 (uint64), 9020 (dialect 2)
  Semaphores 127.0.0.1:11215, 11216 (yrmcds), ws://127.0.0.1:${HTTP_PORT}/yrmcds/counter
  Channels   curl -N http://127.0.0.1:${HTTP_PORT}/channels/news, and curl -d hello to publish
`);

/** The port of `--port`, 8787 unless given. Ends the process with a message for any other argument. */
function httpPortOf(args: string[]): number {
  try {
    const { port } = parseArgs({ args, options: { port: { type: "string" } } }).values;
    if (/^[1-9]\d{0,4}$/.test(port ?? "8787") && Number(port ?? 8787) < 65_536) {
      return Number(port ?? 8787);
    }
  } catch {
    // Said below.
  }
  console.error(
    "npm start takes --port alone: npm start -- --port 8080; TCP ports are those of wrangler.toml",
  );
  return process.exit(2);
}
