/** A door that knows no shards: one of an isolate that has just begun. */
import { createExecutionContext } from "cloudflare:test";
import { env } from "cloudflare:workers";
import worker from "../../../src/worker/index.ts";
import { bearerOf } from "./tokens.ts";

type Request_ = Parameters<typeof worker.fetch>[0];

/** What a cold door answers: the code of a problem, or the body. */
export async function askColdDoor(
  ns: string,
  path: string,
  init: RequestInit = {},
): Promise<unknown> {
  const headers = { ...(await bearerOf({ ns })), "content-type": "application/json" };
  const request = new Request(`http://localhost${path}`, { ...init, headers }) as Request_;
  // Maps are remembered by environment.
  const response = await worker.fetch(request, { ...env }, createExecutionContext());
  const body = await response.json<{ code?: string }>();
  return body.code ?? body;
}
