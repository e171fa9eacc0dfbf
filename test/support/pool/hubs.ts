/** Looking into the Hubs. Requests of the tests say nothing of where they come from: location XXX. */
import { env } from "cloudflare:workers";
import type { Hub } from "../../../src/objects/hub/hub.ts";

export function hubStub(index = 0, namespace = "default"): DurableObjectStub<Hub> {
  return env.HUB.getByName(`${namespace}/XXX/${index}`);
}
