/** A Worker with a service binding, and the server beside it, as `wrangler dev` runs them. */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { configWithPorts, startServer, waitUntilReady } from "../../../scripts/server.ts";

export interface WorkerBeside {
  readonly url: string;
  close(): Promise<void>;
}

/** @param config configuration file of the Worker that has the binding */
export async function startBeside(config: string, port: number): Promise<WorkerBeside> {
  const folder = mkdtempSync(join(tmpdir(), "throttr-beside-"));
  const serverConfig = join(folder, "wrangler.toml");
  writeFileSync(serverConfig, configWithPorts({}));
  const server = startServer({
    config,
    beside: [serverConfig],
    port,
    persistTo: join(folder, "state"),
  });
  await waitUntilReady(port, []);
  return {
    url: `http://127.0.0.1:${port}`,
    close: async () => {
      await server.kill();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}
