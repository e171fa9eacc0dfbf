/** The modules of a Worker: the one that `main` names, and those of environments that have a `main` of their own. */
import { dirname, extname, resolve } from "node:path";
import { UsageError } from "../failure.ts";
import { projectText } from "../files.ts";
import type { ClassNames, WranglerConfig } from "./additions.ts";
import { withExportLine, type MainEdit } from "./main-file.ts";

/** Modules that can export classes. */
const SCRIPTS = [".ts", ".mts", ".tsx", ".js", ".mjs", ".jsx"];
/** Folders that tools write: an edit there would be gone with the next build. */
const GENERATED = /(^|\/)(node_modules|dist|build|\.[^/.][^/]*)\//;

export interface Main {
  readonly path: string;
  /** As the configuration names it. */
  readonly shown: string;
  /** The field that names it first: `main` or `env.NAME.main`. */
  readonly field: string;
  /** A script that no tool writes. */
  readonly isEditable: boolean;
  /** Null where it is not editable, or not there. */
  readonly text: string | null;
}

/** The modules, each once; that of the configuration itself first, if it has one. */
export function mainsOf({ main, env }: WranglerConfig, configPath: string): readonly Main[] {
  const named: [field: string, main: string | undefined][] = [
    ["main", main],
    ...Object.entries(env).map(([name, scope]): [string, string | undefined] => [
      `env.${name}.main`,
      scope.main,
    ]),
  ];
  const mains = named.flatMap(([field, shown = ""]) =>
    shown === "" ? [] : [readMain(shown, field, configPath)],
  );
  return mains.filter(({ path }, at) => mains.findIndex((other) => other.path === path) === at);
}

/**
 * Refuses a configuration whose Worker has no module: classes that no module exports would break the deployment.
 *
 * @param config for messages
 * @returns the module of the configuration itself
 * @throws UsageError `main_missing`
 */
export function assertMains(mains: readonly Main[], config: string): Main {
  const [first] = mains;
  if (first === undefined) {
    throw new UsageError(
      "main_missing",
      `${config} has no "main": a Worker of assets alone has no module that could export Throttr's objects: create one, name it as "main", and run init again`,
    );
  }
  if (first.field !== "main") {
    throw new UsageError(
      "main_missing",
      `${config} has a "main" in environments alone (${first.field}), and what init adds is for the Worker without an environment, too: name a "main" for it, such as "${first.shown}", and run init again`,
    );
  }
  const missing = mains.find(({ text, isEditable }) => isEditable && text === null);
  if (missing === undefined) return first;
  throw new UsageError(
    "main_missing",
    `${missing.shown}, which "${missing.field}" of ${config} names, does not exist: create it, and run init again`,
  );
}

function readMain(main: string, field: string, configPath: string): Main {
  const path = resolve(dirname(configPath), main);
  const isEditable = SCRIPTS.includes(extname(main)) && !GENERATED.test(main);
  return { path, shown: main, field, isEditable, text: isEditable ? projectText(path) : null };
}

/**
 * What to do with a module.
 *
 * @param file for messages
 * @param classes those to export, by the names that the Worker has them under
 * @throws UsageError `class_taken`
 */
export function mainEdit({ text }: Main, file: string, classes: ClassNames): MainEdit {
  if (text !== null) return withExportLine(text, file, classes);
  return {
    kind: "unsafe",
    reason: "the Worker's own module is not one that this command can edit",
  };
}
