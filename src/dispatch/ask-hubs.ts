/**
 * Asking Hubs, all at once: those that fail, or take more than 2 s, are left out.
 *
 * One Hub that hangs would else keep figures and listings of a whole namespace from every caller. Its connections are
 * missing from the answer then, which the log says.
 */
import type { Environment } from "../base/environment.ts";
import type { HubCalls } from "../base/calls/hub.ts";
import { inTime } from "../base/in-time.ts";
import { hubStub } from "../base/stubs.ts";

/** Asks Hubs at once. */
export async function askHubs<T extends object>(
  env: Environment,
  hubs: readonly string[],
  ask: (stub: DurableObjectStub<HubCalls>, hub: string) => Promise<T>,
): Promise<{ hub: string; answer: T }[]> {
  const answers = await Promise.all(
    hubs.map(async (hub): Promise<{ hub: string; answer: T }[]> => {
      const answer = await inTime(ask(hubStub(env, hub), hub), hub);
      return answer === undefined ? [] : [{ hub, answer }];
    }),
  );
  return answers.flat();
}
