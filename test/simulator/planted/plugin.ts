/** Plants a fault in the production code that is bundled: it replaces one text of one module. */
import { readFileSync } from "node:fs";
import { relative } from "node:path";
import type { Plugin } from "esbuild";
import { PLANTED, type Code, type PlantedFault } from "./faults.ts";

/**
 * What plants a fault in a bundle; empty for a bundle of other code.
 *
 * @param name of one of `PLANTED`
 * @throws Error when there is none of this name; the build fails unless the text is in the module exactly once
 */
export function plantingIn(code: Code, name: string): Plugin[] {
  const fault = PLANTED.find((each) => each.name === name);
  if (fault === undefined) throw new Error(`there is no planted fault ${name}`);
  return (fault.code ?? "server") === code ? [planting(fault)] : [];
}

function planting(fault: PlantedFault): Plugin {
  return {
    name: `planting ${fault.name}`,
    setup(build) {
      let isPlanted = false;
      const root = build.initialOptions.absWorkingDir!;
      build.onLoad({ filter: /\.ts$/ }, ({ path }) => {
        if (relative(root, path) !== fault.module) return undefined;
        const source = readFileSync(path, "utf8");
        const found = source.split(fault.text).length - 1;
        if (found !== 1) {
          throw new Error(`${fault.module} has the text ${found} times: ${fault.text}`);
        }
        isPlanted = true;
        return { contents: source.replace(fault.text, () => fault.planted), loader: "ts" };
      });
      build.onEnd(() => {
        if (!isPlanted) throw new Error(`${fault.module} is not part of the bundle`);
      });
    },
  };
}
