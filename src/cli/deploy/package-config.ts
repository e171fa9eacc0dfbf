/**
 * The configuration of wrangler for the server of this package: the Worker as it was built, nothing to build.
 *
 * It says what `wrangler.toml` of a checkout says, apart from that; a test keeps the two alike.
 */
import { copyFileSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { oldNamesIn, RENAMED_VARIABLES } from "../../base/settings.ts";
import { ASSETS_FOLDER, packageFolder, WORKER_FILE } from "../package-folder.ts";
import { COMPATIBILITY_DATE, COMPATIBILITY_FLAGS } from "../serve/configuration.ts";

/**
 * Variables under their present names; the former ones are empty. wrangler keeps what a configuration does not name, so a
 * variable under both names would have two values, and the server refuses different ones.
 */
function presentNames(variables: Readonly<Record<string, string>>): Record<string, string> {
  const given = oldNamesIn(variables).map(({ variable, name }) => [name, variables[variable]!]);
  const present = { ...variables, ...(Object.fromEntries(given) as Record<string, string>) };
  const old = Object.entries(RENAMED_VARIABLES).filter(([, name]) => name in present);
  return { ...present, ...Object.fromEntries(old.map(([variable]) => [variable, ""])) };
}

const CLASSES = ["Shard", "Hub", "Channel", "Directory"];

/**
 * Writes the configuration and the Worker into a folder.
 *
 * @param variables they take the place of those of before; variables that are not among them stay as they are deployed. An old
 * and a new name of one variable have the same value, which the caller checks
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
    vars: presentNames(variables),
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
