/**
 * Throttr's classes that a module exports, as far as its text says so.
 *
 * They come from the package itself, from a call of `throttrEdge`, or by way of names that the module has for either. A list
 * with the names of all four, in a module that names the package, has them by way of another file.
 */
import { CLASSES, type ClassNames } from "./additions.ts";

export const MODULE = "throttr-edge/worker";

/** What follows `import`, `export` and `export const` in braces, and what it is from. */
const FROM = String.raw`\s*from\s*["']${MODULE}["']`;
const EXPORTED = [
  new RegExp(String.raw`\bexport\s*\{([^}]*)\}${FROM}`, "g"),
  /\bexport\s+const\s*\{([^}]*)\}\s*=\s*throttrEdge\b/g,
];
const LOCAL = [
  new RegExp(String.raw`\bimport\s*\{([^}]*)\}${FROM}`, "g"),
  /\bconst\s*\{([^}]*)\}\s*=\s*throttrEdge\b/g,
];
const DECLARED = [/\bimport\s*(?:\w+\s*,\s*)?\{([^}]*)\}\s*from\b/g, LOCAL[1]!];
const LOCAL_EXPORTED = /\bexport\s*\{([^}]*)\}(?!\s*from\b)/g;
const ALL_EXPORTED = new RegExp(String.raw`\bexport\s*\*${FROM}`);
/** `const edge = throttrEdge(…); export const Shard = edge.Shard` */
const FIELD_EXPORTED = new RegExp(
  String.raw`\bexport\s+const\s+(\w+)\s*=\s*\w+\.(?:${CLASSES.join("|")})\b`,
  "g",
);

/** @param code without comments */
export function exportedClasses(code: string): ClassNames {
  if (!code.includes(MODULE)) return {};
  const local = new Set(itemsOf(code, LOCAL).map(({ after }) => after));
  const exported = new Set([
    ...itemsOf(code, EXPORTED).map(({ after }) => after),
    ...itemsOf(code, [LOCAL_EXPORTED]).flatMap(({ before, after }) =>
      local.has(before) ? [after] : [],
    ),
    ...(callsThrottrEdge(code) ? [...code.matchAll(FIELD_EXPORTED)].map(([, name]) => name) : []),
    ...(ALL_EXPORTED.test(code) || listsAll(code) ? CLASSES : []),
  ]);
  return Object.fromEntries(
    CLASSES.flatMap((name) => {
      const own = new RegExp(`\\b${name}\\s*:\\s*["'](\\w+)["']`).exec(code)?.[1] ?? name;
      return exported.has(own) ? [[name, own]] : [];
    }),
  );
}

/**
 * Whether a module could export classes in a way that its text does not show: it has some, or exports all that another module
 * does.
 *
 * @param code without comments
 */
export function mayExportClasses(code: string): boolean {
  if (!code.includes(MODULE)) return false;
  const imported = itemsOf(code, LOCAL).map(({ before }) => before.replace(/^type\s+/, ""));
  const hasClass = CLASSES.some((name) => imported.includes(name));
  return hasClass || callsThrottrEdge(code) || /\bexport\s*\*|\bimport\s*\*/.test(code);
}

/** The names that a module imports, or has of a call of `throttrEdge`. @param code without comments */
export const declaredNames = (code: string): readonly string[] =>
  itemsOf(code, DECLARED).map(({ after }) => after);

/** Whether the lists of exports have the names of all classes. One of them alone may be another's class. */
function listsAll(code: string): boolean {
  const listed = listedExports(code);
  return CLASSES.every((name) => listed.includes(name));
}

const callsThrottrEdge = (code: string): boolean => /\bthrottrEdge\b/.test(code);

interface Item {
  readonly before: string;
  readonly after: string;
}

/** The items of lists, by the names before and after `as` or a colon; twice the same without either. */
const itemsOf = (code: string, lists: readonly RegExp[]): Item[] =>
  lists
    .flatMap((list) => [...code.matchAll(list)])
    .flatMap(([, items = ""]) => items.split(","))
    .map((item) => {
      const [before = "", after = before] = item.trim().split(/\s+as\s+|\s*:\s*/);
      return { before, after };
    });

/** The names that lists of exports have. @param code without comments */
export const listedExports = (code: string): readonly string[] =>
  itemsOf(code, [/\bexport\s*\{([^}]*)\}/g]).map(({ after }) => after);
