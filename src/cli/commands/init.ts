/**
 * `init`: puts Throttr into a Worker: what its wrangler configuration lacks, and the line in its module that exports the
 * objects. Without a configuration it creates a project.
 *
 * It shows all changes as a diff and asks before it writes any of them.
 */
import { dirname, extname, relative, resolve } from "node:path";
import { InvalidArgumentError, type Command } from "commander";
import type { ExitCode } from "../exit-code.ts";
import { UsageError } from "../failure.ts";
import { textIfThere } from "../files.ts";
import { isInteractive } from "../host.ts";
import {
  checkedConfig,
  EXPORTS_DATE,
  missingIn,
  oldDatesOf,
  prefixed,
  prefixIn,
  type ClassName,
  type ClassNames,
  type WranglerConfig,
} from "../init/additions.ts";
import { configPathIn, readConfig, textWith } from "../init/config-file.ts";
import { diffOf } from "../init/diff.ts";
import {
  exportedClasses,
  exportLines,
  hasExportLine,
  withExportLine,
  type MainEdit,
} from "../init/main-file.ts";
import { DEV_PORT, newProject } from "../init/new-project.ts";
import { nextSteps } from "../init/next-steps.ts";
import { writeFiles, type FileChange } from "../init/write-files.ts";
import { action, type Invocation } from "../invocation.ts";
import { addJsonOption } from "../options.ts";
import { declined, isConfirmed } from "../questions.ts";

interface InitOptions {
  readonly config?: string;
  readonly classPrefix?: string;
  readonly raiseDate?: boolean;
  readonly yes?: boolean;
}

/** What there is to do. */
interface InitPlan {
  readonly changes: readonly FileChange[];
  /** For the person, after the changes. */
  readonly notes: readonly string[];
}

/** Modules that can export classes. */
const SCRIPTS = [".ts", ".mts", ".tsx", ".js", ".mjs", ".jsx"];
/** Folders that tools write: an edit there would be gone with the next build. */
const GENERATED = /(^|\/)(node_modules|dist|build|\.[^/.][^/]*)\//;

export function addInit(program: Command): void {
  const command = program
    .command("init")
    .description("add Throttr to the Worker in a folder, or create one there")
    .argument("[folder]", "folder of the project", ".")
    .option("-c, --config <path>", "configuration of wrangler (default: the one in the folder)")
    .option("--class-prefix <prefix>", "put before the names of Throttr's classes", prefixOf)
    .option(
      "--raise-date",
      `raise a compatibility date before ${EXPORTS_DATE} instead of adding bindings`,
    )
    .option("-y, --yes", "write the changes without asking")
    .action(action<InitOptions, [string]>(init));
  addJsonOption(command);
}

async function init(
  invocation: Invocation,
  options: InitOptions,
  folder: string,
): Promise<ExitCode | void> {
  const { output } = invocation;
  const path = options.config ?? configPathIn(folder);
  const plan = path === null ? projectPlan(folder) : await configPlan(invocation, options, path);
  if (plan.changes.length > 0) {
    for (const change of plan.changes) await showDiff(invocation, change);
    const question = `Write ${plan.changes.length === 1 ? "this change" : "these changes"}?`;
    if (!(await isConfirmed(invocation, question, options.yes))) return declined(invocation);
    writeFiles(plan.changes);
  }
  const files = plan.changes.map((change) => shownPath(change.path));
  await output.print({ files, notes: plan.notes }, () =>
    output.good(files.length === 0 ? "nothing to change" : `wrote ${files.join(", ")}`),
  );
  for (const note of plan.notes) output.note(note);
}

/** A project in a folder without a configuration. */
function projectPlan(folder: string): InitPlan {
  const steps = [
    ...(resolve(folder) === process.cwd() ? [] : [`cd ${folder}`]),
    "npm install",
    `npm run dev    # http://127.0.0.1:${DEV_PORT}: the eleventh request within a minute gets a 429`,
    `               # http://127.0.0.1:${DEV_PORT}/throttr-edge/dashboard shows it`,
  ];
  return { changes: newProject(folder), notes: ["Next:", ...steps.map((step) => `  ${step}`)] };
}

/** What a project with a configuration lacks. */
async function configPlan(
  invocation: Invocation,
  options: InitOptions,
  path: string,
): Promise<InitPlan> {
  const file = readConfig(path);
  const shown = shownPath(path);
  const config = checkedConfig(file.config, shown);
  const main = mainOf(config, path);
  const exported = exportedClasses(main.text ?? "");
  assertPrefix(options.classPrefix, exported, main.shown);
  const prefix = options.classPrefix ?? prefixIn(config) ?? "";
  const additions = missingIn(config, shown, {
    classes: Object.keys(exported).length > 0 ? exported : prefixed(prefix),
    raisesDate: await raisesDate(invocation, options, oldDatesOf(config)),
    hasExportLine: main.text !== null && hasExportLine(main.text),
  });
  const edit = mainEdit(main, prefix, shown);
  const changes = [
    { path, before: file.text, after: textWith(file, additions) },
    ...(edit.kind === "edited" ? [{ path: main.path, before: main.text, after: edit.text }] : []),
  ].filter(({ before, after }) => before !== after);
  const module = edit.kind === "unsafe" ? "your module" : main.shown;
  const next = changes.length === 0 ? [] : nextSteps(config.name, module, prefix !== "");
  return { changes, notes: [...notesOf(edit, main.shown, prefix), ...next] };
}

/**
 * Refuses a prefix for classes that the Worker has under other names: objects keep their data under the name of their class.
 *
 * @throws UsageError `class_taken`
 */
function assertPrefix(prefix: string | undefined, exported: ClassNames, main: string): void {
  if (prefix === undefined) return;
  const wanted: ClassNames = prefixed(prefix);
  const other = Object.entries(exported).find(([name, own]) => wanted[name as ClassName] !== own);
  if (other === undefined) return;
  throw new UsageError(
    "class_taken",
    `${main} has Throttr's class ${other[0]} already, as ${other[1]}: leave --class-prefix out`,
  );
}

/** Whether to raise old dates. Only a person decides that: the rest of the Worker changes with it. */
async function raisesDate(
  invocation: Invocation,
  { raiseDate, yes }: InitOptions,
  dates: readonly string[],
): Promise<boolean> {
  if (raiseDate !== undefined || dates.length === 0) return raiseDate === true;
  const { host, output } = invocation;
  if (yes === true || !isInteractive(host) || output.isJson) return false;
  const question = `Raise compatibility_date from ${dates.join(", ")} to ${EXPORTS_DATE}? It changes how the runtime treats all of your Worker. No: four bindings are added instead.`;
  return await isConfirmed(invocation, question, undefined);
}

/** The module that `main` names. */
interface Main {
  readonly path: string;
  readonly shown: string;
  /** A script that no tool writes. */
  readonly isEditable: boolean;
  /** Null where it is not editable, or not there. */
  readonly text: string | null;
}

function mainOf({ main = "" }: WranglerConfig, configPath: string): Main {
  const path = resolve(dirname(configPath), main);
  const isEditable = SCRIPTS.includes(extname(main)) && !GENERATED.test(main);
  return { path, shown: main, isEditable, text: isEditable ? textIfThere(path) : null };
}

/** @throws UsageError `main_missing`: classes that no module exports would break the deployment; and `class_taken` */
function mainEdit(
  { text, path, shown, isEditable }: Main,
  prefix: string,
  config: string,
): MainEdit {
  if (text !== null) return withExportLine(text, shownPath(path), prefix);
  if (shown === "") {
    throw new UsageError(
      "main_missing",
      `${config} has no "main": a Worker of assets alone has no module that could export Throttr's objects: create one, name it as "main", and run init again`,
    );
  }
  if (isEditable) {
    throw new UsageError(
      "main_missing",
      `${shown}, which "main" of ${config} names, does not exist: create it, and run init again`,
    );
  }
  return {
    kind: "unsafe",
    reason: "the Worker's own module is not one that this command can edit",
  };
}

function notesOf(edit: MainEdit, shown: string, prefix: string): string[] {
  if (edit.kind !== "unsafe") return [];
  return [
    `${edit.reason}. Add to ${shown}, or to a module that "main" names instead:`,
    "",
    exportLines(prefix),
  ];
}

async function showDiff(
  { output }: Invocation,
  { path, before, after }: FileChange,
): Promise<void> {
  const styles: Readonly<Record<string, (text: string) => string>> = {
    "+": output.good,
    "-": output.bad,
    "@": output.faint,
  };
  for (const line of diffOf(shownPath(path), before, after)) {
    const isHead = line.startsWith("+++ ") || line.startsWith("--- ");
    const style = isHead ? output.strong : styles[line[0] ?? ""];
    await output.text(style === undefined ? line : style(line));
  }
}

/** A path as a person in the current folder would write it. */
function shownPath(path: string): string {
  const shown = relative(process.cwd(), path);
  return shown.startsWith("..") ? path : shown;
}

/** Reads a prefix of class names. @throws InvalidArgumentError */
function prefixOf(text: string): string {
  if (/^[A-Za-z_]\w{0,31}$/.test(text)) return text;
  throw new InvalidArgumentError("Expected a letter and up to 31 more letters, digits or _.");
}
