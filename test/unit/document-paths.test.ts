/** Paths of sources in documents, and scripts by their names: what a reader looks up is there. */
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

it("scripts of package.json run only scripts that exist", () => {
  const { scripts } = JSON.parse(readFileSync("package.json", "utf8")) as {
    scripts: Record<string, string>;
  };
  const run = Object.values(scripts).flatMap((script) =>
    [...script.matchAll(/npm run (?:-s )?([\w:-]+)/g)].map(([, name]) => name!),
  );
  expect(run.length).toBeGreaterThan(5);
  expect(run.filter((name) => scripts[name] === undefined)).toEqual([]);
});
