/** The call behind `health`: `GET /health`, which needs no token and reads no records. */
import type { Json } from "./output.ts";
import { askServer } from "./server-request.ts";
import type { ConnectionSettings } from "./settings.ts";

/** The server's answer and how long it took. A newer server may add fields; they are passed on as they are. */
export interface Health {
  readonly status: string;
  readonly tookMs: number;
  readonly [field: string]: Json;
}

/**
 * Asks a server how it is.
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
