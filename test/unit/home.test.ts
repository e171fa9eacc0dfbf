/** The address of the repository: package.json says it once, and every other mention is compared with it. */
import { globSync, readFileSync } from "node:fs";
import { expect, it } from "vitest";

const { name, repository, ...packageJson } = JSON.parse(readFileSync("package.json", "utf8")) as {
  name: string;
  repository: { url: string };
};
const home = repository.url.replace(/^git\+|\.git$/g, "");

/** Files that have to spell the address out, as what reads them can't ask package.json. */
const SPELLED = [
  "README.md", // the deploy button and `git clone`
  "SECURITY.md", // where to report
  ".github/ISSUE_TEMPLATE/config.yml", // links beside the issue forms
  "src/embedded/route.ts", // the type of problems, where the Worker has no page about them
];

/** Addresses of a repository with the package's name, at any host and of any owner. */
const ADDRESS = new RegExp(`https://[\\w.-]+/[\\w.-]+/${name}(?![\\w-])`, "g");

const files = [
  "*.{md,json,toml,ts}",
  "{docs,examples,scripts,src,test}/**/*.{md,json,toml,ts,tsx,mjs,html}",
  ".github/**/*.{md,yml}",
]
  .flatMap((pattern) => globSync(pattern, { exclude: (path) => path === "node_modules" }))
  .filter((path) => path !== "package-lock.json");

it("no file spells an address of the repository that differs from package.json's", () => {
  expect(files.length).toBeGreaterThan(300);
  const others = files.flatMap((path) =>
    readFileSync(path, "utf8")
      .split("\n")
      .flatMap((line, i) =>
        [...line.matchAll(ADDRESS)]
          .filter(([address]) => address !== home)
          .map(([address]) => `${path}:${i + 1}: ${address}`),
      ),
  );
  expect(others).toEqual([]);
});

it("the address of the repository is spelled in the files that need it, and in no other", () => {
  const spelling = files.filter((path) => readFileSync(path, "utf8").includes(home));
  expect(spelling.toSorted()).toEqual([...SPELLED, "package.json"].toSorted());
});

it("package.json leaves homepage and bugs to npm, which derives them from the repository", () => {
  expect(packageJson).not.toHaveProperty("homepage");
  expect(packageJson).not.toHaveProperty("bugs");
});

it("the deploy button of the README deploys the repository of package.json", () => {
  const readme = readFileSync("README.md", "utf8");
  expect(readme).toContain(`(https://deploy.workers.cloudflare.com/?url=${home})`);
});
