/** How an object that counts tells the Directory of its namespace, once a minute. */
import { logWarning } from "./log.ts";
import type { DirectoryCalls } from "./calls/channel.ts";
import type { Environment } from "./environment.ts";
import { directoryStub } from "./stubs.ts";
import { orIfUnknown } from "./unknown-method.ts";

/**
 * Sends a report. It never rejects: a report that is lost is made good by the next one, and a Directory of an earlier
 * release takes none.
 *
 * @param report the object's name, and what it has counted
 * @returns see `DirectoryCalls.report`
 */
export async function sendReport(
  env: Environment,
  namespace: string,
  ...report: Parameters<DirectoryCalls["report"]>
): Promise<boolean> {
  try {
    const told = directoryStub(env, namespace).report(...report);
    return await orIfUnknown<boolean>(told, () => false);
  } catch (error) {
    logWarning("report_failed", { object: report[0], error: String(error) });
    return false;
  }
}
