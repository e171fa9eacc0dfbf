/** Other values of variables for a while: objects read them when they start. */
import { evictAllDurableObjects, runInDurableObject } from "cloudflare:test";
import type { Settings } from "../../../src/base/settings.ts";
import { hubStub } from "./hubs.ts";

/** Runs a test with other settings in all objects. */
export async function withSettings(
  changed: Partial<Settings>,
  run: () => Promise<void>,
): Promise<void> {
  const settings = await runInDurableObject(hubStub(0, "variables"), (hub) => hub.settings);
  const before = { ...settings };
  Object.assign(settings, changed);
  await evictAllDurableObjects();
  try {
    await run();
  } finally {
    Object.assign(settings, before);
    await evictAllDurableObjects();
  }
}
