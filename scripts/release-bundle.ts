/**
 * Packs the code of a release, for simulated runs in which the next release takes its place:
 *
 *     npx --no node scripts/release-bundle.ts test/data/0.5.0.js.gz [CHECKOUT]
 */
import { writeFileSync } from "node:fs";
import { resolve } from "node:path";
import { gzipSync } from "node:zlib";
import { sourceOf } from "../test/simulator/platform/realm.ts";

const [path, checkout = "."] = process.argv.slice(2);
if (path === undefined) throw new Error("name the file: test/data/VERSION.js.gz");
const source = await sourceOf("src/worker/index.ts", { root: resolve(checkout), isCompact: true });
writeFileSync(path, gzipSync(source, { level: 9 }));
