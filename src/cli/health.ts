/** `GET /health`, which needs no token and asks for no data. */
import type { Json } from "./output.ts";
import { askServer } from "./server-request.ts";
import type { ConnectionSettings } from "./settings.ts";

/** What the server says of itself; more fields than these may come. */
export interface Health {
  readonly status: string;
  readonly tookMs: number;
  readonly [field: string]: Json;
}

/**
 * Asks a server.
 *
 * @throws ThrottrError as `askServer`
 */
export async function askHealth(
  settings: ConnectionSettings,
  signal: AbortSignal,
): Promise<Health> {
  const startMs = performance.now();
  const told = await askServer(settings, { path: "/health" }, signal);
  const status = typeof told["status"] === "string" ? told["status"] : "unknown";
  return { ...told, status, tookMs: Math.round(performance.now() - startMs) };
}
