/** What is deployed stays small: start-up time and the platform's limit depend on it. */
import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { expect, it } from "vitest";

const GZIP_BYTES_MAX = 128 * 1024;

it(`the Worker has at most ${GZIP_BYTES_MAX} bytes, compressed`, () => {
  const folder = mkdtempSync(join(tmpdir(), "throttr-edge-"));
  try {
    const wrangler = "node_modules/wrangler/bin/wrangler.js";
    const env = { ...process.env, WRANGLER_SEND_METRICS: "false" };
    execFileSync(process.execPath, [wrangler, "deploy", "--dry-run", `--outdir=${folder}`], {
      env,
      stdio: "pipe",
    });
    expect(gzipSync(readFileSync(join(folder, "index.js"))).length).toBeLessThan(GZIP_BYTES_MAX);
  } finally {
    rmSync(folder, { recursive: true });
  }
});
