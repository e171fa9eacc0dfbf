/** The built parts of this package: the Worker, and the files of the dashboard. */
import { existsSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { UsageError } from "./failure.ts";

/** The Worker's module. */
export const WORKER_FILE = "worker.js";
/** The folder of the files of the dashboard and the API reference. */
export const ASSETS_FOLDER = "assets";

/** The folder with the built parts. @throws UsageError `worker_missing` in a checkout that was not built */
export function packageFolder(): string {
  // The package has the bundled command line in that folder; a checkout runs this file.
  const places = [".", "../../dist"].map((place) => fileURLToPath(new URL(place, import.meta.url)));
  const folder = places.find((place) => existsSync(join(place, WORKER_FILE)));
  if (folder !== undefined) return folder;
  throw new UsageError("worker_missing", `dist/${WORKER_FILE} is missing: run npm run build`);
}
