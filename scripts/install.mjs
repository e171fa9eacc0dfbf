/**
 * Installs what package-lock.json names, unless it is there already. Runs before `npm start` and
 * `npm test`, so it may use nothing but Node 20.
 */
import { spawnSync } from "node:child_process";
import { existsSync, statSync } from "node:fs";
import { fileURLToPath } from "node:url";

const root = fileURLToPath(new URL("..", import.meta.url));
const installed = `${root}node_modules/.package-lock.json`;
const isCurrent =
  existsSync(installed) &&
  statSync(installed).mtimeMs >= statSync(`${root}package-lock.json`).mtimeMs;

if (!isCurrent) {
  const npm = process.env.npm_execpath;
  const [command, args] = npm ? [process.execPath, [npm, "ci"]] : ["npm", ["ci"]];
  const { status } = spawnSync(command, args, { cwd: root, stdio: "inherit" });
  process.exit(status ?? 1);
}
