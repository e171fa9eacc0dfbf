/** The original yrmcds server, `yrmcdsd`, where it is installed: for comparison. */
import { spawn, spawnSync, type ChildProcess } from "node:child_process";
import { existsSync, mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";

/** Where Debian's package `yrmcds` puts it. */
const YRMCDSD = "/usr/sbin/yrmcdsd";
const DPKG_QUERY = "/usr/bin/dpkg-query";

/** Version of the package; null when the server is not installed. */
export function yrmcdsdVersion(): string | null {
  if (!existsSync(YRMCDSD)) return null;
  const { stdout, status } = spawnSync(DPKG_QUERY, ["-W", "-f=${Version}", "yrmcds"], {
    encoding: "utf8",
  });
  return status === 0 ? stdout : "of unknown version";
}

/** Ports that it opens, all of them on loopback. */
export interface YrmcdsdPorts {
  /** Of the yrmcds protocol. */
  readonly counter: number;
  /** Of memcache and of replication, which can't be turned off. */
  readonly others: readonly [memcache: number, replication: number];
}

/**
 * Starts the server with all counters gone; its configuration is the default otherwise.
 *
 * @param folder of its own, which need not be there yet
 */
export function spawnYrmcdsd(folder: string, { counter, others }: YrmcdsdPorts): ChildProcess {
  const temporary = join(folder, "tmp");
  const config = join(folder, "yrmcds.conf");
  mkdirSync(temporary, { recursive: true });
  // It binds to both addresses, which therefore can't be the same one.
  writeFileSync(
    config,
    `virtual_ip = 127.0.0.1
bind_ip = 127.0.0.2
port = ${others[0]}
repl_port = ${others[1]}
temp_dir = ${JSON.stringify(temporary)}
log.threshold = error
log.file = ${JSON.stringify(join(folder, "yrmcds.log"))}
counter.enable = true
counter.port = ${counter}
`,
  );
  return spawn(YRMCDSD, ["-f", config], { stdio: ["ignore", "ignore", "inherit"] });
}
