/** Caller: who sends requests through a door that lives for one request, RPC or HTTP. */
import type { Access } from "../base/access.ts";
import { readSettings, type Settings } from "../base/settings.ts";
import type { RequestTally } from "../dispatch/dispatch.ts";
import { DoorTally } from "./door-tally.ts";

export interface Caller {
  readonly env: Env;
  readonly settings: Settings;
  readonly access: Access;
  readonly requestTally: RequestTally;
}

export function callerOf(
  env: Env,
  ctx: Pick<ExecutionContext, "waitUntil">,
  access: Access,
): Caller {
  const requestTally = DoorTally.of(env, ctx, access.namespace);
  return { env, settings: readSettings(env), access, requestTally };
}
