/**
 * What a server is asked to keep before an upgrade, over routes that every release has: the release before
 * writes it, and the data folder that it leaves is packed into `test/data`. See docs/development.md.
 */
import { tokenFor } from "../process/self-hosted.ts";

const TEN_YEARS_MS = 3_652 * 86_400_000;

export const UPGRADE_NAMESPACE = "shop";
export const UPGRADE_COUNTERS = 300;
export const UPGRADE_BUFFERS = 50;

/** A limit of five in ten years. */
export const UPGRADE_LIMIT = {
  strategy: {
    strategy: "fixed_window",
    quotas: [{ name: "decade", limit: 5, windowMs: TEN_YEARS_MS }],
  },
};

export const bufferOf = (index: number): string => `value ${index} `.repeat(index);

/** Sends a request to a server that the namespace's token lets in. */
export type Ask = (method: string, path: string, body?: unknown) => Promise<Response>;

/** Asks a server as the bearer of a token that does everything in a namespace. */
export async function askAs(server: string, namespace: string): Promise<Ask> {
  const authorization = `Bearer ${await tokenFor(namespace)}`;
  return async (method, path, body) => {
    const isText = typeof body === "string";
    const headers = { authorization, "content-type": isText ? "text/plain" : "application/json" };
    const init = body === undefined ? {} : { body: isText ? body : JSON.stringify(body) };
    return await fetch(`${server}${path}`, { method, headers, ...init });
  };
}

/** Writes records, decides limits, and numbers messages of a channel. */
export async function writeUpgradeData(ask: Ask): Promise<void> {
  for (let i = 0; i < UPGRADE_COUNTERS; i++) {
    await done(ask("PUT", `/v1/counters/counter:${i}`, { quota: i, ttlMs: TEN_YEARS_MS }));
  }
  for (let i = 0; i < UPGRADE_BUFFERS; i++) {
    await done(ask("PUT", `/v1/buffers/buffer:${i}`, { value: bufferOf(i), ttlMs: TEN_YEARS_MS }));
  }
  await done(ask("DELETE", "/v1/counters/counter:7"));
  for (let i = 0; i < 3; i++) await done(ask("POST", "/v1/limits/api/ada", UPGRADE_LIMIT));
  const listener = await ask("GET", "/channels/news");
  for (let i = 0; i < 3; i++) await done(ask("POST", "/channels/news", `message ${i}`));
  await listener.body!.cancel();
}

async function done(response: Promise<Response>): Promise<void> {
  const { ok, status, url } = await response;
  if (!ok) throw new Error(`${url} was answered with ${status}`);
}
