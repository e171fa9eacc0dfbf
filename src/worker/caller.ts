/** Caller: who sends requests through a door that lives for one request, RPC or HTTP. */
import type { Environment } from "../base/environment.ts";
import type { Access } from "../base/access.ts";
import { readSettings, type Settings } from "../base/settings.ts";
import type { RequestTally } from "../dispatch/dispatch.ts";
import { DoorTally } from "./door-tally.ts";
import { settingsFor } from "./mount.ts";

/** What every request is executed with. It belongs to one request, as the tally flushes through its context. */
export interface Caller {
  readonly env: Environment;
  /** Of the request: it keeps alive what must run to its end. */
  readonly ctx: Pick<ExecutionContext, "waitUntil">;
  readonly settings: Settings;
  readonly access: Access;
  /** Counts requests that no shard counts. */
  readonly requestTally: RequestTally;
}

/** The caller of a request whose access is known. */
export function callerOf(
  env: Environment,
  ctx: Pick<ExecutionContext, "waitUntil">,
  access: Access,
): Caller {
  const requestTally = DoorTally.of(env, ctx, access.namespace);
  return { env, ctx, settings: settingsFor(ctx, readSettings(env)), access, requestTally };
}
