/**
 * The configuration of wrangler for the server of this package: the Worker as it was built, nothing to build.
 *
 * It says what `wrangler.toml` of a checkout says, apart from that; a test keeps the two alike.
 */
import { copyFileSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { RENAMED_VARIABLES } from "../../base/settings.ts";
import { ASSETS_FOLDER, packageFolder, WORKER_FILE } from "../package-folder.ts";
import { COMPATIBILITY_DATE, COMPATIBILITY_FLAGS } from "../serve/configuration.ts";

/**
 * The former names of variables, with empty values: a deployment of release 0.4.0 has set them, and wrangler keeps what is not
 * named. Two names of a variable with different values are refused by the server.
 */
function emptyOldNames(variables: Readonly<Record<string, string>>): Record<string, string> {
  const old = Object.entries(RENAMED_VARIABLES).filter(([, name]) => name in variables);
  return Object.fromEntries(old.map(([variable]) => [variable, ""]));
}

const CLASSES = ["Shard", "Hub", "Channel", "Directory"];

/**
 * Writes the configuration and the Worker into a folder.
 *
 * @param variables they take the place of those of before; variables that are not among them stay as they are deployed
 * @returns the path of the configuration
 */
export function writePackageConfig(
  folder: string,
  name: string,
  variables: Readonly<Record<string, string>>,
): string {
  const built = packageFolder();
  // The built Worker does not name its source map, as `serve` finds it without; wrangler uploads one that is named.
  const worker = readFileSync(join(built, WORKER_FILE), "utf8");
  writeFileSync(join(folder, WORKER_FILE), `${worker}\n//# sourceMappingURL=${WORKER_FILE}.map\n`);
  copyFileSync(join(built, `${WORKER_FILE}.map`), join(folder, `${WORKER_FILE}.map`));
  const config = {
    name,
    main: WORKER_FILE,
    compatibility_date: COMPATIBILITY_DATE,
    compatibility_flags: COMPATIBILITY_FLAGS,
    no_bundle: true,
    find_additional_modules: false,
    upload_source_maps: true,
    observability: { enabled: true },
    keep_vars: true,
    vars: { ...emptyOldNames(variables), ...variables },
    durable_objects: {
      bindings: CLASSES.map((className) => ({
        name: className.toUpperCase(),
        class_name: className,
      })),
    },
    migrations: [
      { tag: "v1", new_sqlite_classes: ["Shard", "Hub"] },
      { tag: "v2", new_sqlite_classes: ["Channel", "Directory"] },
    ],
    assets: {
      directory: join(built, ASSETS_FOLDER),
      html_handling: "drop-trailing-slash",
      not_found_handling: "none",
    },
  };
  const path = join(folder, "wrangler.json");
  writeFileSync(path, `${JSON.stringify(config, null, 2)}\n`);
  return path;
}
