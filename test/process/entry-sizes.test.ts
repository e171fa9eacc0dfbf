/** What each entry of the package adds to a bundle, as docs/clients.md says it. */
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { build } from "tsdown";
import { afterAll, describe, expect, it } from "vitest";

/** Entries that no bundle of an application has. */
const NOT_BUNDLED = ["throttr-edge/testing"];
/** By how much the documented size may be above the real one. */
const SLACK = { kB: 1, share: 0.1 };

const folder = mkdtempSync(join(tmpdir(), "throttr-entries-"));

afterAll(() => {
  rmSync(folder, { recursive: true });
});

const manifest = JSON.parse(readFileSync("package.json", "utf8")) as {
  exports: Record<string, string | { default: string }>;
};
const files = new Map<string, string>();
for (const [path, target] of Object.entries(manifest.exports)) {
  if (typeof target !== "string") files.set(`throttr-edge/${path.slice(2)}`, target.default);
}
const bundled = [...files.keys()].filter((entry) => !NOT_BUNDLED.includes(entry));

/** Rows such as `| throttr-edge/client | 20.5 |`, with the name in backticks. */
const page = readFileSync("docs/clients.md", "utf8");
const documented = new Map(
  [...page.matchAll(/^\| `(throttr-edge\/[\w-]+)` +\| +([\d.]+) +\|/gm)].map(([, entry, size]) => [
    entry!,
    Number(size),
  ]),
);

/** Minified and compressed, in kB; without what the platform or another package has. */
async function sizeOf(entry: string): Promise<number> {
  const outDir = join(folder, entry);
  await build({
    config: false,
    entry: { entry: files.get(entry)! },
    outDir,
    platform: "neutral",
    target: "es2024",
    minify: true,
    dts: false,
    logLevel: "silent",
    deps: { neverBundle: [/^[^./]/], onlyBundle: false },
  });
  const sizes = readdirSync(outDir).map(
    (name) => gzipSync(readFileSync(join(outDir, name))).length,
  );
  return sizes.reduce((sum, bytes) => sum + bytes, 0) / 1_000;
}

describe("the sizes of entries in docs/clients.md", () => {
  it("each entry that goes into a bundle has a row, and no other", () => {
    expect([...documented.keys()].toSorted()).toEqual(bundled.toSorted());
  });

  it.each(bundled)("%s has at most the size of its row, and not much less", async (entry) => {
    const size = await sizeOf(entry);
    const said = documented.get(entry) ?? 0;
    expect(size).toBeLessThanOrEqual(said);
    expect(size).toBeGreaterThan(said - Math.max(SLACK.kB, SLACK.share * said));
  });
});
