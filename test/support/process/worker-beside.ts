/** A Worker as `wrangler dev` runs it: with the server beside it, for a service binding, or inside it. */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import {
  configWithPorts,
  OPEN_INSIDE,
  startServer,
  waitUntilReady,
  type ServerOptions,
} from "../../../scripts/server.ts";

export interface WorkerBeside {
  readonly url: string;
  close(): Promise<void>;
}

/** @param config configuration file of the Worker that has the binding */
export async function startBeside(config: string, port: number): Promise<WorkerBeside> {
  const folder = mkdtempSync(join(tmpdir(), "throttr-beside-"));
  const serverConfig = join(folder, "wrangler.toml");
  writeFileSync(serverConfig, configWithPorts({}));
  return await startIn(folder, { config, beside: [serverConfig], port });
}

/** @param config configuration file of the Worker that has the server inside it */
export async function startAlone(config: string, port: number): Promise<WorkerBeside> {
  const folder = mkdtempSync(join(tmpdir(), "throttr-alone-"));
  return await startIn(folder, { config, port, variables: OPEN_INSIDE });
}

async function startIn(folder: string, options: ServerOptions & { port: number }) {
  const { port } = options;
  const server = startServer({ ...options, persistTo: join(folder, "state") });
  await waitUntilReady(port, []);
  return {
    url: `http://127.0.0.1:${port}`,
    close: async () => {
      await server.kill();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}
