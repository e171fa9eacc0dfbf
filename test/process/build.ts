/** Builds the package once, before the tests that use it as its users do. */
import { execFileSync } from "node:child_process";

export default function build(): void {
  execFileSync(process.execPath, ["node_modules/tsdown/dist/run.mjs", "--log-level=error"], {
    stdio: "inherit",
  });
}
