/**
 * The configuration of wrangler for the server of this package: the Worker as it was built, nothing to build.
 *
 * It says what `wrangler.toml` of a checkout says, apart from that; a test keeps the two alike.
 */
import { copyFileSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { ASSETS_FOLDER, packageFolder, WORKER_FILE } from "../package-folder.ts";
import { COMPATIBILITY_DATE, COMPATIBILITY_FLAGS } from "../serve/configuration.ts";

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
    vars: variables,
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
