/** The classes that the Worker exports, as the platform gives them without a binding. */
import { exports } from "cloudflare:workers";
import { ThrottrError } from "../wire/edge/error.ts";
import { deployment, type ClassName } from "./deployment.ts";

/** By the names of the exports. The platform types them by the project, which is not always this one. */
const all = exports as object as Readonly<Record<string, unknown>>;

/** What the Worker exports a class as; undefined where it does not export it. */
export const exportedClass = (name: ClassName): unknown => all[nameOf(name)];

/**
 * The error for classes that the Worker lacks.
 *
 * @param names at least one
 * @param more what the Worker needs beside the export
 */
export function classesMissing(names: readonly ClassName[], more = ""): ThrottrError {
  const exported = names.map((name) =>
    nameOf(name) === name ? name : `${name} as ${nameOf(name)}`,
  );
  return new ThrottrError(
    "class_missing",
    `the Worker lacks the ${names.length === 1 ? "class" : "classes"} ${names.join(", ")}: ` +
      `its main module needs the line export { ${exported.join(", ")} } from "throttr-edge/worker"${more}`,
  );
}

/** The name that the Worker exports a class under. */
export const nameOf = (name: ClassName): string => deployment().classes[name] ?? name;
