/** Paths of sources in documents: a reader who looks a name up finds the file. */
import { existsSync, globSync, readFileSync } from "node:fs";
import { expect, it } from "vitest";

const documents = ["README.md", "CONTRIBUTING.md", "SECURITY.md", ...globSync("docs/*.md")];
/** Files of a reader's own: one that CONTRIBUTING.md adds, and the program of a project with a recipe. */
const OWN = ["test/unit/raise.test.ts", "src/index.ts"];

it.each(documents)("%s names only sources that exist", (document) => {
  const text = readFileSync(document, "utf8");
  const paths = [...text.matchAll(/`((?:src|test|scripts)\/[\w./-]+)`/g)].map(([, path]) => path!);
  expect(paths.filter((path) => !OWN.includes(path) && !existsSync(path))).toEqual([]);
});

it("the glossary says of each term in which file it lives", () => {
  const text = readFileSync("docs/architecture.md", "utf8");
  const [, glossary = ""] = /\n## Glossary\n(.*?)\n## /s.exec(text)!;
  const rows = glossary
    .split("\n")
    .filter((line) => line.startsWith("|") && !/^\| (?:term|-)/.test(line));
  expect(rows.length).toBeGreaterThan(40);
  expect(rows.filter((row) => !/\| `src\/[\w./-]+\.ts` +\|$/.test(row))).toEqual([]);
});
