/**
 * Packs data that this release writes, for the test that the next release opens it:
 *
 *     npm run -s build && npx --no node scripts/upgrade-data.ts test/data/0.5.0.tar.gz
 */
import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { SelfHosted } from "../test/support/process/self-hosted.ts";
import {
  askAs,
  UPGRADE_NAMESPACE,
  writeUpgradeData,
} from "../test/support/runtime/upgrade-data.ts";

/** Numbers of a channel are exact on disk half a second after the last message. */
const SETTLED_MS = 1500;

const [archive] = process.argv.slice(2);
if (archive === undefined) throw new Error("name the archive: test/data/VERSION.tar.gz");
const folder = mkdtempSync(join(tmpdir(), "throttr-upgrade-"));
const flags = ["--http", "127.0.0.1:0", "--data", folder, "--var", "REPLAY_MESSAGES_MAX=10"];
const server = SelfHosted.start(flags);
await server.ready();
await writeUpgradeData(await askAs(server.url, UPGRADE_NAMESPACE));
await sleep(SETTLED_MS);
await server.stop();
const left = ["lock", "socket", "reserve", "config.capnp"].map((name) => `--exclude=./${name}`);
execFileSync("tar", ["-C", folder, ...left, "-czf", resolve(archive), "."]);
rmSync(folder, { recursive: true });
