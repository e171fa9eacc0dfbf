/** A namespace that grows by itself while it is written to: a small size of what `npm run growth` does. */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { grow } from "../../scripts/growth/grow.ts";
import { configWithPorts, startServer, waitUntilReady, type Server } from "../../scripts/server.ts";

const HTTP_PORT = 18_876;
const TCP_PORT = 18_877;
const SHARDS = 8;
const MEBIBYTE = 1 << 20;

const folder = mkdtempSync(join(tmpdir(), "throttr-growth-"));
let server: Server;

beforeAll(async () => {
  const config = join(folder, "wrangler.toml");
  writeFileSync(config, configWithPorts({ 9000: TCP_PORT }));
  const variables = { SHARDS: "1", SHARD_BYTES_MAX: String(MEBIBYTE) };
  server = startServer({ config, port: HTTP_PORT, persistTo: join(folder, "state"), variables });
  await waitUntilReady(HTTP_PORT, [TCP_PORT]);
});

afterAll(async () => {
  await server.kill();
  rmSync(folder, { recursive: true, force: true });
});

it(`a namespace grows from 1 shard to ${SHARDS} under writes over TCP, HTTP and the client, of which none fails, and LIST has every key`, async () => {
  const growth = await grow({
    tcpPort: TCP_PORT,
    url: `http://127.0.0.1:${HTTP_PORT}`,
    shards: SHARDS,
  });
  const doors = Object.values(growth.written);
  for (const { keys } of doors) expect(keys.length).toBeGreaterThan(0);
  expect(growth.listed).toBe(doors.reduce((sum, { keys }) => sum + keys.length, 0));
  // The ranges cover the circle of hashes once.
  const { shards } = growth;
  expect(shards.length).toBeGreaterThanOrEqual(SHARDS);
  expect(shards.map(({ from }) => from)).toEqual([0, ...shards.slice(0, -1).map(({ to }) => to)]);
  expect(shards.at(-1)!.to).toBe(2 ** 32);
  const records = shards.reduce((sum, shard) => sum + shard.records, 0);
  expect(records).toBeGreaterThanOrEqual(growth.listed);
});
