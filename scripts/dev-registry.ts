/**
 * wrangler's registry of the Workers that run on this machine: service bindings of other projects find the
 * server there by its name. The first server that registers has the name; every other one waits for it.
 *
 * It is shared by all projects of a user: tests, examples and benchmarks have one of their own.
 */
import { existsSync, readFileSync, rmSync, statSync } from "node:fs";
import { connect } from "node:net";
import { homedir } from "node:os";
import { join } from "node:path";
import { portHolder } from "../src/cli/serve/port-holder.ts";

/** Variables from which wrangler and miniflare read the folder of the registry. */
const VARIABLES = ["CLOUDFLARE_DEV_REGISTRY_PATH", "WRANGLER_REGISTRY_PATH"] as const;

/** Environment of a server that no other project can reach. */
export function ownRegistry(folder: string): Record<string, string> {
  return Object.fromEntries(VARIABLES.map((name) => [name, folder]));
}

/**
 * Who has a name in the shared registry, such as `process 42 (…)`; null when it is free. An entry whose
 * server has ended, and which would keep the name for a minute and a half, is removed.
 */
export async function holderOfName(name: string): Promise<string | null> {
  const entry = join(sharedRegistry(), name);
  const port = portIn(entry);
  if (port === null) return null;
  if (await isOpen(port)) return portHolder(port) ?? "another process";
  rmSync(entry, { force: true });
  return null;
}

/** Where wrangler keeps it: see its `getGlobalConfigPath`. */
function sharedRegistry(): string {
  const [said] = VARIABLES.flatMap((name) => process.env[name] ?? []);
  if (said !== undefined) return said;
  const old = join(homedir(), ".wrangler");
  if (existsSync(old) && statSync(old).isDirectory()) return join(old, "registry");
  const folders = process.platform === "darwin" ? "Library/Preferences" : ".config";
  const folder = process.env.XDG_CONFIG_HOME ?? join(homedir(), folders);
  return join(folder, ".wrangler", "registry");
}

/** The port at which the server of an entry is reached; null where there is no such entry. */
function portIn(entry: string): number | null {
  try {
    const { debugPortAddress } = JSON.parse(readFileSync(entry, "utf8")) as Record<string, unknown>;
    return Number(/:(\d+)$/.exec(String(debugPortAddress))?.[1] ?? 0);
  } catch {
    return null;
  }
}

async function isOpen(port: number): Promise<boolean> {
  const { promise, resolve } = Promise.withResolvers<boolean>();
  const socket = connect(port, "127.0.0.1", () => resolve(true));
  socket.once("error", () => resolve(false));
  try {
    return await promise;
  } finally {
    socket.destroy();
  }
}
