/**
 * Writes the version of package.json into the other files that have it, and begins its part of the changelog. npm
 * runs it when `npm version 0.6.0` has changed package.json and the lock file.
 */
import { globSync, readFileSync, writeFileSync } from "node:fs";

const CHANGELOG = "CHANGELOG.md";
const SOURCE = "src/base/version.ts";
const EXAMPLES = "examples/*/package{,-lock}.json";

const { version } = JSON.parse(readFileSync("package.json", "utf8")) as { version: string };

const source = readFileSync(SOURCE, "utf8");
writeFileSync(SOURCE, source.replace(/VERSION = ".*"/, `VERSION = "${version}"`));

for (const path of globSync(EXAMPLES)) {
  const example = readFileSync(path, "utf8");
  const written = example
    .replaceAll(/(throttr-edge)-\d[^"]*\.tgz/g, `$1-${version}.tgz`)
    .replace(/("node_modules\/throttr-edge": \{\s*"version": )"[^"]*"/, `$1"${version}"`);
  writeFileSync(path, written);
}

const changelog = readFileSync(CHANGELOG, "utf8");
if (!new RegExp(`^## ${version.replaceAll(".", "\\.")}( |$)`, "m").test(changelog)) {
  writeFileSync(CHANGELOG, changelog.replace(/^## /m, `## ${version} (unreleased)\n\n## `));
}
console.log(`${version}: written to ${SOURCE}, ${EXAMPLES} and ${CHANGELOG}`);
