/** Builds the package once, before the tests that use it as its users do. */
import { execFileSync } from "node:child_process";

export default function build(): void {
  run("node_modules/tsdown/dist/run.mjs", "--log-level=error");
  run("scripts/build-dashboard.ts", "dist/assets");
}

function run(...args: string[]): void {
  execFileSync(process.execPath, args, { stdio: "inherit" });
}
