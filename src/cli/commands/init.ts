/**
 * `init`: puts Throttr into a Worker: what its wrangler configuration lacks, and the line in its module that exports the
 * objects. Without a configuration it creates a project.
 *
 * It shows all changes as a diff and asks before it writes any of them.
 */
import { relative, resolve } from "node:path";
import { InvalidArgumentError, type Command } from "commander";
import type { ExitCode } from "../exit-code.ts";
import { UsageError } from "../failure.ts";
import { isInteractive } from "../host.ts";
import {
  checkedConfig,
  EXPORTS_DATE,
  exportsAny,
  missingIn,
  oldDatesOf,
  prefixed,
  prefixIn,
  type ClassName,
  type ClassNames,
} from "../init/additions.ts";
import { configPathIn, readConfig, textWith } from "../init/config-file.ts";
import { diffOf } from "../init/diff.ts";
import { classesIn, exportLines, hasClasses, namesIn } from "../init/main-file.ts";
import { assertMains, mainEdit, mainsOf, type Main } from "../init/mains.ts";
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
  const plan =
    path === null
      ? projectPlan(folder, options.classPrefix ?? "")
      : await configPlan(invocation, options, path);
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

/** A path as a person pastes it into a shell. */
function quotedForShell(path: string): string {
  return /^[\w./-]+$/.test(path) ? path : `'${path.replaceAll("'", "'\\''")}'`;
}

/** A project in a folder without a configuration. */
function projectPlan(folder: string, prefix: string): InitPlan {
  const steps = [
    ...(resolve(folder) === process.cwd() ? [] : [`cd ${quotedForShell(folder)}`]),
    "npm install",
    `npm run dev    # http://127.0.0.1:${DEV_PORT}: the eleventh request within a minute gets a 429`,
    `               # http://127.0.0.1:${DEV_PORT}/throttr-edge/dashboard shows it`,
  ];
  return {
    changes: newProject(folder, prefix),
    notes: ["Next:", ...steps.map((step) => `  ${step}`)],
  };
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
  const mains = mainsOf(config, path);
  const exported = mains.map(({ text }) => classesIn(text ?? ""));
  mains.forEach((main, at) => assertPrefix(options.classPrefix, exported[at]!, main.shown));
  assertAlike(mains, exported);
  const prefix = options.classPrefix ?? prefixIn(config) ?? "";
  const classes = exported.find(exportsAny) ?? prefixed(prefix);
  const additions = missingIn(config, shown, {
    classes,
    raisesDate: await raisesDate(invocation, options, oldDatesOf(config)),
    hasExportLine: mains.some(({ text }) => text !== null && hasClasses(text)),
  });
  const main = assertMains(mains, shown);
  const edits = mains.map((one) => editOf(one, classes));
  const changes = [
    { path, before: file.text, after: textWith(file, additions) },
    ...edits.flatMap(({ change }) => change ?? []),
  ].filter(({ before, after }) => before !== after);
  const module = edits[0]!.note === null ? main.shown : "your module";
  const declared = namesIn(`${main.text ?? ""}\n${exportLines(classes)}`);
  const next = changes.length === 0 ? [] : nextSteps(config.name, module, declared);
  return { changes, notes: [...edits.flatMap(({ note }) => note ?? []), ...next] };
}

/** The change of a module, or the lines for the person who changes it instead; neither where it has the classes. */
interface ModuleEdit {
  readonly change: FileChange | null;
  readonly note: readonly string[] | null;
}

/** @throws UsageError `class_taken` */
function editOf(main: Main, classes: ClassNames): ModuleEdit {
  const { path, text } = main;
  const edit = mainEdit(main, shownPath(path), classes);
  switch (edit.kind) {
    case "present":
      return { change: null, note: null };
    case "edited":
      return { change: { path, before: text, after: edit.text }, note: null };
    case "unsafe":
      return { change: null, note: linesToAdd(main, edit.reason, classes) };
  }
}

/** For the person who changes a module. A name that it imports, and that the lines declare, would be declared twice. */
function linesToAdd(
  { shown, field, text }: Main,
  reason: string,
  classes: ClassNames,
): readonly string[] {
  const lines = exportLines(classes);
  const declared = namesIn(lines);
  const twice = namesIn(text ?? "").filter((name) => declared.includes(name));
  const instead = twice.length === 0 ? "" : `, in place of its imports of ${twice.join(", ")}`;
  const where = `Add to ${shown}, or to a module that "${field}" names instead${instead}:`;
  return [`${reason}. ${where}`, "", lines];
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

/**
 * Refuses modules that export different classes: the configuration declares the same ones for all of them.
 *
 * @param exported by each of the modules
 * @throws UsageError `class_taken`
 */
function assertAlike(mains: readonly Main[], exported: readonly ClassNames[]): void {
  const first = exported.findIndex(exportsAny);
  const namesOf = (at: number): string => Object.values(exported[at]!).join(", ");
  const other = exported.findIndex((own, at) => exportsAny(own) && namesOf(at) !== namesOf(first));
  if (other === -1) return;
  throw new UsageError(
    "class_taken",
    `${mains[first]!.shown} exports Throttr's classes as ${namesOf(first)}, and ${mains[other]!.shown} as ${namesOf(other)}: init declares the same classes for both, so export them alike`,
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
