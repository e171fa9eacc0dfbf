/** Flags of the scripts that `npm run` starts: each says how to use it, and refuses what it does not know. */
import { spawnSync } from "node:child_process";
import { describe, expect, it } from "vitest";

const SCRIPTS = ["start", "simulate", "crash-test", "growth", "bench/main"];

const run = (script: string, ...flags: readonly string[]) =>
  spawnSync(process.execPath, [`scripts/${script}.ts`, ...flags], { encoding: "utf8" });

describe("scripts", () => {
  it.each(SCRIPTS)("%s prints its flags with --help, and ends with 0", (script) => {
    const { status, stdout } = run(script, "--help");
    expect(stdout).toContain("npm ");
    expect(status).toBe(0);
  });

  it.each(SCRIPTS)("%s refuses an unknown flag by its name, with those that it has", (script) => {
    const { status, stderr } = run(script, "--nosuch");
    expect(stderr).toMatch(/^.*'--nosuch'.*\n/);
    expect(stderr).toContain("npm ");
    expect(stderr).not.toContain("    at ");
    expect(status).toBe(2);
  });

  it("growth refuses a number of shards that it would never come to", () => {
    for (const shards of ["many", "0", "1025"]) {
      const { status, stderr } = run("growth", "--shards", shards);
      expect(stderr).toContain(`--shards: expected a whole number from 1 to 1024, got ${shards}`);
      expect(status).toBe(2);
    }
  });
});
