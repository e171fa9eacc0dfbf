/**
 * The line in the Worker's own module that exports Throttr's classes.
 *
 * The module is read as text, because a parser of TypeScript would be larger than this command line. So it is edited
 * only where the text leaves no doubt; elsewhere a person gets the line to add.
 */
import { classTaken, exportsAny, hasOwnNames, type ClassNames } from "./additions.ts";
import {
  declaredNames,
  exportedClasses,
  listedExports,
  mayExportClasses,
  MODULE,
} from "./exported-classes.ts";

/** What to do with a module. */
export type MainEdit =
  | { readonly kind: "present" }
  | { readonly kind: "edited"; readonly text: string }
  | { readonly kind: "unsafe"; readonly reason: string };

/** The lines that export classes. For names of the Worker's own they declare `throttr` and `routeThrottr`, too. */
export function exportLines(classes: ClassNames): string {
  if (!hasOwnNames(classes)) {
    return `export { ${Object.values(classes).join(", ")} } from "${MODULE}";\n`;
  }
  const names = Object.entries(classes).map(([name, own]) => `${name}: "${own}"`);
  const exported = Object.entries(classes).map(([name, own]) => `${name}: ${own}`);
  return [
    `import { throttrEdge } from "${MODULE}";`,
    `export const { ${exported.join(", ")}, throttr, routeThrottr } = throttrEdge({`,
    `  classes: { ${names.join(", ")} },`,
    `});`,
    ``,
  ].join("\n");
}

/** The names that a module imports, or has of a call of `throttrEdge`, by its text. */
export const namesIn = (text: string): readonly string[] => declaredNames(withoutComments(text));

/** Throttr's classes that a module exports, by its text. */
export const classesIn = (text: string): ClassNames => exportedClasses(withoutComments(text));

/** Whether a module has Throttr's classes, or could have them in a way that its text does not show. */
export function hasClasses(text: string): boolean {
  const code = withoutComments(text);
  return exportsAny(exportedClasses(code)) || mayExportClasses(code);
}

/**
 * Adds the line behind the imports at the head of a module, or at its end when it has none there.
 *
 * @param file for messages
 * @param classes those to export, by the names that the Worker has them under
 * @throws UsageError `class_taken` when the module exports a class of such a name
 */
export function withExportLine(text: string, file: string, classes: ClassNames): MainEdit {
  const code = withoutComments(text);
  if (exportsAny(exportedClasses(code))) return { kind: "present" };
  // The lines for other names import what the module may have imported.
  if (mayExportClasses(code) || (hasOwnNames(classes) && code.includes(MODULE))) {
    return {
      kind: "unsafe",
      reason: `${file} names ${MODULE}, but this command finds no export of its classes there`,
    };
  }
  for (const name of Object.values(classes)) {
    if (exportsName(code, name)) throw classTaken(name, file);
  }
  if (!/^\s*export\s+default\b|\bas\s+default\b/m.test(code)) {
    return {
      kind: "unsafe",
      reason: `${file} has no "export default": Throttr needs a module Worker`,
    };
  }
  const newLine = text.includes("\r\n") ? "\r\n" : "\n";
  const lines = exportLines(classes).replaceAll("\n", newLine);
  const at = endOfImports(code);
  if (at === 0) return { kind: "edited", text: `${text.trimEnd()}${newLine}${newLine}${lines}` };
  const rest = text.slice(at);
  const gap = rest === "" || /^\s*\n/.test(rest) ? "" : newLine;
  return { kind: "edited", text: `${text.slice(0, at)}${newLine}${lines}${gap}${rest}` };
}

/** Whether code exports a name itself. `export *` does not count: what it brings gives way to a name. */
function exportsName(code: string, name: string): boolean {
  const declared = new RegExp(
    `^\\s*export\\s+(?:abstract\\s+|declare\\s+|async\\s+)*(?:class|const|let|var|function|enum)\\s+${name}\\b`,
    "m",
  );
  if (declared.test(code)) return true;
  return listedExports(code).includes(name);
}

/** Comments become spaces, so that places stay the same. Texts stay as they are: imports name modules by them. */
function withoutComments(text: string): string {
  const blank = (part: string): string => part.replace(/[^\r\n]/g, " ");
  return text.replace(
    /("(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'|`(?:\\[^]|[^`\\])*`)|(\/\/[^\n]*|\/\*[^]*?\*\/)/g,
    (_whole, literal: string | undefined, comment: string | undefined) =>
      literal ?? blank(comment ?? ""),
  );
}

/** An import at the start of a line, up to the end of its last line. */
const IMPORT =
  /\s*import\b(?:[^;"'`(]*?\bfrom)?\s*(?:"[^"\n]*"|'[^'\n]*')(?:\s*with\s*\{[^}]*\})?[ \t]*;?[ \t]*(?:\r?\n|$)/y;

/** The place behind the imports at the head of code, whose first lines may be directives; 0 without imports. */
function endOfImports(code: string): number {
  let end = 0;
  IMPORT.lastIndex = /^(?:\s*(?:#![^\n]*\n|"use \w+";?|'use \w+';?))*/.exec(code)![0].length;
  for (;;) {
    const found = IMPORT.exec(code);
    if (found === null) return end;
    end = IMPORT.lastIndex;
  }
}
