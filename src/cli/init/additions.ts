/**
 * What a wrangler configuration lacks, so that a Worker can export Throttr's objects.
 *
 * Nothing here reads or writes a file: the configuration comes in parsed, and the answer is a list of additions. An
 * environment (`env.NAME`) inherits `exports`, `migrations`, the compatibility date and the flags unless it has its own,
 * and never inherits `durable_objects`: so each is added wherever the configuration says it anew.
 */
import * as v from "valibot";
import { COMPATIBILITY_DATE } from "../serve/configuration.ts";
import { UsageError } from "../failure.ts";
import type { Addition, ConfigObject } from "./json.ts";

/** The classes of objects, by the names that this package exports them under. */
export const CLASSES = ["Shard", "Hub", "Channel", "Directory"] as const;
export type ClassName = (typeof CLASSES)[number];
/** The names that a Worker has the classes under; those that it does not export are missing. */
export type ClassNames = Readonly<Partial<Record<ClassName, string>>>;

/** Whether a Worker exports any of the classes. */
export const exportsAny = (classes: ClassNames): boolean => Object.keys(classes).length > 0;

/** Whether a Worker has classes under other names than those of the package. */
export const hasOwnNames = (classes: ClassNames): boolean =>
  Object.entries(classes).some(([name, own]) => name !== own);

/** All classes, with a prefix. */
export const prefixed = (prefix: string): ClassNames =>
  Object.fromEntries(CLASSES.map((name) => [name, prefix + name]));

/** From this date on a Worker finds the classes that it exports by itself, without bindings. */
export const EXPORTS_DATE = "2025-11-17";
/** The flag that does the same for an older date, and the one that undoes it. */
const EXPORTS_FLAG = "enable_ctx_exports";
const WITHOUT_EXPORTS_FLAG = "disable_ctx_exports";

/** Without it 32 KiB of compressed WebSocket message are 32 MiB in a Hub, before the server sees any of them. */
const NEEDED_FLAG = "no_web_socket_compression";
const OPPOSITE_FLAG = "web_socket_compression";

/** An object with entries of one kind; `v.record` alone takes a list for one. */
function table<const T extends v.GenericSchema>(entry: T) {
  const isTable = v.check((value) => !Array.isArray(value), "expected an object");
  return v.pipe(v.unknown(), isTable, v.record(v.string(), entry));
}

const binding = v.looseObject({
  name: v.string(),
  class_name: v.string(),
  script_name: v.optional(v.string()),
});

const migration = v.looseObject({
  tag: v.string(),
  new_classes: v.optional(v.array(v.string()), []),
  new_sqlite_classes: v.optional(v.array(v.string()), []),
  renamed_classes: v.optional(v.array(v.looseObject({ from: v.string(), to: v.string() })), []),
  transferred_classes: v.optional(v.array(v.looseObject({ to: v.string() })), []),
  deleted_classes: v.optional(v.array(v.string()), []),
});
type Migration = v.InferOutput<typeof migration>;

const exported = v.looseObject({
  type: v.string(),
  state: v.optional(v.string(), "created"),
  storage: v.optional(v.string()),
});
type Exported = v.InferOutput<typeof exported>;

/** The fields that both the configuration and its environments may have. */
const scopeFields = {
  main: v.optional(v.string()),
  compatibility_date: v.optional(v.string()),
  compatibility_flags: v.optional(v.array(v.string())),
  exports: v.optional(table(exported)),
  migrations: v.optional(v.array(migration)),
  durable_objects: v.optional(v.looseObject({ bindings: v.optional(v.array(binding), []) })),
};
const scopeSchema = v.looseObject(scopeFields);
const schema = v.looseObject({
  ...scopeFields,
  name: v.optional(v.string()),
  pages_build_output_dir: v.optional(v.unknown()),
  env: v.optional(table(scopeSchema), {}),
});

/** The fields of a configuration that matter here, checked. */
export type WranglerConfig = v.InferOutput<typeof schema>;
type ScopeFields = v.InferOutput<typeof scopeSchema>;

/** The configuration itself, or one of its environments. */
interface Scope {
  readonly path: readonly string[];
  /** As the file has it. */
  readonly own: ScopeFields;
  /** With what is inherited. */
  readonly all: ScopeFields;
}

export interface Wishes {
  /** The classes to declare, by the names that the Worker exports them under. */
  readonly classes: ClassNames;
  /** Raises older compatibility dates instead of adding bindings. */
  readonly raisesDate: boolean;
  /** The Worker's module has Throttr's classes: those of the configuration are not another's. */
  readonly hasExportLine: boolean;
}

/** Checks the fields that matter. @param file for messages. @throws UsageError `config_invalid`, `config_unsupported` */
export function checkedConfig(config: ConfigObject, file: string): WranglerConfig {
  const result = v.safeParse(schema, config);
  if (!result.success) {
    const [issue] = result.issues;
    throw new UsageError("config_invalid", `${file}: ${v.getDotPath(issue)}: ${issue.message}`);
  }
  const checked = result.output;
  if (checked.pages_build_output_dir !== undefined) {
    throw new UsageError(
      "config_unsupported",
      `${file}: Pages projects cannot have Durable Objects of their own: deploy the server with \`throttr-edge deploy\`, and bind to it as a service (docs/recipes.md)`,
    );
  }
  return checked;
}

/** The compatibility dates, wherever the configuration has one, from which classes are not found without bindings. */
export function oldDatesOf(config: WranglerConfig): string[] {
  const dates = scopesOf(config).flatMap(({ own, all }) =>
    own.compatibility_date !== undefined && needsBindings(all) ? [own.compatibility_date] : [],
  );
  return [...new Set(dates)].toSorted();
}

/**
 * What the configuration lacks, in the order of the file; an empty list when nothing is missing.
 *
 * @param file for messages
 * @throws UsageError `class_taken`, `binding_taken`, `config_invalid`
 */
export function missingIn(config: WranglerConfig, file: string, wishes: Wishes): Addition[] {
  const scopes = scopesOf(config);
  const names = Object.values(wishes.classes);
  const isMigrated = scopes.some(({ own }) => (own.migrations?.length ?? 0) > 0);
  const isDeclared = scopes.some(({ own }) => hasObjects(own.exports));
  if (isMigrated && isDeclared) {
    throw new UsageError(
      "config_invalid",
      `${file}: it has Durable Objects under both "exports" and "migrations", which wrangler refuses: keep one`,
    );
  }
  return scopes.flatMap((scope) => {
    const lifecycle = isMigrated ? missingMigration(scope, names) : missingExports(scope, names);
    if (!wishes.hasExportLine) assertOurs(lifecycle, names, scope, file);
    return [
      ...missingDate(scope, wishes),
      ...missingFlag(scope, file),
      ...lifecycle.additions,
      ...missingBindings(scope, wishes, file),
    ];
  });

  function missingMigration(scope: Scope, wanted: readonly string[]): Lifecycle {
    const { own, path } = scope;
    if (path.length > 0 && own.migrations === undefined) return NOTHING;
    const live = classesOf(own.migrations ?? []);
    assertSqlite(wanted, live, file);
    const missing = wanted.filter((name) => !live.has(name));
    if (missing.length === 0) return NOTHING;
    const tags = new Set((own.migrations ?? []).map(({ tag }) => tag));
    const value = [{ tag: freeTag(tags), new_sqlite_classes: missing }];
    return { missing, additions: [{ path: [...path, "migrations"], value }] };
  }

  function missingExports(scope: Scope, wanted: readonly string[]): Lifecycle {
    const { own, path } = scope;
    if (path.length > 0 && own.exports === undefined) return NOTHING;
    const live = new Map(
      Object.entries(own.exports ?? {}).map(([name, entry]) => [name, storageOf(entry)]),
    );
    assertSqlite(wanted, live, file);
    const missing = wanted.filter((name) => !live.has(name));
    if (missing.length === 0) return NOTHING;
    const entry = { type: "durable-object", storage: "sqlite" };
    const value = Object.fromEntries(missing.map((name) => [name, entry]));
    return { missing, additions: [{ path: [...path, "exports"], value }] };
  }
}

/** The prefix that the configuration has all of Throttr's classes under; null where it does not have all of them. */
export function prefixIn(config: WranglerConfig): string | null {
  for (const { own } of scopesOf(config)) {
    const live = new Set([
      ...classesOf(own.migrations ?? []).keys(),
      ...Object.keys(own.exports ?? {}),
    ]);
    const prefixes = [...live].flatMap((name) => /^(\w*)Shard$/.exec(name)?.[1] ?? []);
    const found = prefixes.find((prefix) => CLASSES.every((name) => live.has(prefix + name)));
    if (found !== undefined) return found;
  }
  return null;
}

/** What is missing of the declarations of classes. */
interface Lifecycle {
  readonly missing: readonly string[];
  readonly additions: readonly Addition[];
}
const NOTHING: Lifecycle = { missing: [], additions: [] };

/** The configuration and its environments. */
function scopesOf(config: WranglerConfig): Scope[] {
  const inherited = (own: ScopeFields): ScopeFields => ({
    ...own,
    compatibility_date: own.compatibility_date ?? config.compatibility_date ?? COMPATIBILITY_DATE,
    compatibility_flags: own.compatibility_flags ?? config.compatibility_flags ?? [],
  });
  const environments = Object.entries(config.env).map(([name, own]) => {
    return { path: ["env", name], own, all: inherited(own) };
  });
  return [{ path: [], own: config, all: inherited(config) }, ...environments];
}

/** Whether a Worker of such a date and flags finds its classes by bindings only. */
function needsBindings({ compatibility_date: date, compatibility_flags: flags }: ScopeFields) {
  if (flags!.includes(WITHOUT_EXPORTS_FLAG)) return true;
  return date! < EXPORTS_DATE && !flags!.includes(EXPORTS_FLAG);
}

function missingDate({ path, own }: Scope, { raisesDate }: Wishes): Addition[] {
  const date = own.compatibility_date;
  const at = [...path, "compatibility_date"];
  if (date === undefined) return path.length > 0 ? [] : [{ path: at, value: COMPATIBILITY_DATE }];
  return raisesDate && date < EXPORTS_DATE ? [{ path: at, value: EXPORTS_DATE }] : [];
}

function missingFlag({ path, own }: Scope, file: string): Addition[] {
  const flags = own.compatibility_flags;
  if (flags?.includes(OPPOSITE_FLAG) === true) {
    throw new UsageError(
      "config_invalid",
      `${file}: the flag ${OPPOSITE_FLAG} contradicts ${NEEDED_FLAG}, which the server needs: remove it`,
    );
  }
  if (flags?.includes(NEEDED_FLAG) === true || (path.length > 0 && flags === undefined)) return [];
  return [{ path: [...path, "compatibility_flags"], value: [NEEDED_FLAG] }];
}

function missingBindings(scope: Scope, { raisesDate, classes }: Wishes, file: string) {
  const { path, own, all } = scope;
  const isRaised = raisesDate && !all.compatibility_flags!.includes(WITHOUT_EXPORTS_FLAG);
  if (isRaised || !needsBindings(all)) return [];
  const bound = new Map((own.durable_objects?.bindings ?? []).map((some) => [some.name, some]));
  const wanted = Object.entries(classes).map(([name, class_name]) => ({
    name: `THROTTR_${name.toUpperCase()}`,
    class_name,
  }));
  for (const { name, class_name } of wanted) {
    const other = bound.get(name);
    if (other === undefined) continue;
    if (other.class_name === class_name && other.script_name === undefined) continue;
    throw new UsageError(
      "binding_taken",
      `${file}: the binding ${name} is another's (class ${other.class_name}): rename it, or raise compatibility_date to ${EXPORTS_DATE}, from which no bindings are needed`,
    );
  }
  const missing = wanted.filter(({ name }) => !bound.has(name));
  if (missing.length === 0) return [];
  return [{ path: [...path, "durable_objects", "bindings"], value: missing }];
}

/** The storage of a class in `exports`: `sqlite`, or what stands in the way. */
function storageOf({ type, state, storage }: Exported): string {
  if (type !== "durable-object") return type;
  return state === "created" || state === "expecting-transfer" ? (storage ?? "") : state;
}

/** The classes that migrations leave, with their storage. */
function classesOf(migrations: readonly Migration[]): Map<string, string> {
  const classes = new Map<string, string>();
  for (const step of migrations) {
    for (const name of step.deleted_classes) classes.delete(name);
    for (const { from, to } of step.renamed_classes) {
      classes.set(to, classes.get(from) ?? "sqlite");
      classes.delete(from);
    }
    for (const { to } of step.transferred_classes) classes.set(to, "sqlite");
    for (const name of step.new_classes) classes.set(name, "legacy-kv");
    for (const name of step.new_sqlite_classes) classes.set(name, "sqlite");
  }
  return classes;
}

const hasObjects = (exports: ScopeFields["exports"]): boolean =>
  Object.values(exports ?? {}).some(({ type }) => type === "durable-object");

function freeTag(tags: ReadonlySet<string>): string {
  let version = 1;
  while (tags.has(`throttr-v${version}`)) version++;
  return `throttr-v${version}`;
}

/** Refuses a class that is there with another storage, or as something else. */
function assertSqlite(names: readonly string[], live: ReadonlyMap<string, string>, file: string) {
  for (const name of names) {
    const storage = live.get(name);
    if (storage !== undefined && storage !== "sqlite")
      throw classTaken(name, `${file} (${storage})`);
  }
}

/** Refuses classes that are there in part: those are another's, which happen to have such a name. */
function assertOurs(
  { missing }: Lifecycle,
  names: readonly string[],
  { path }: Scope,
  file: string,
) {
  const found = names.find((name) => !missing.includes(name));
  if (missing.length === 0 || found === undefined) return;
  throw classTaken(found, path.length === 0 ? file : `${file}, ${path.join(".")}`);
}

/** The Worker has a class of the name of one of Throttr's. @param where the file, and what it is there */
export function classTaken(name: string, where: string): UsageError {
  return new UsageError(
    "class_taken",
    `${where} has a class ${name} already: give Throttr's classes other names with --class-prefix Throttr`,
  );
}
