/**
 * How many connections workerd can have within its limit of open files.
 *
 * At that limit `accept()` fails, and workerd ends with all its connections. It takes two descriptors for
 * each connection, of whatever kind: the one it accepted and a duplicate. HTTP connections that ask nothing
 * are not seen by the Worker, so half of the descriptors are left to them.
 */
import { execFileSync } from "node:child_process";
import { CHANNEL_GROUPS } from "../../dispatch/placement.ts";
import type { Settings } from "../../base/settings.ts";
import { UsageError } from "../failure.ts";

const FILES_A_CONNECTION = 2;
/** Files of an object in memory: database, log and shared memory. */
const FILES_AN_OBJECT = 3;
/** Ports, one database for each class, and what the runtime needs itself: about 40 were seen. */
const FILES_OF_WORKERD = 64;
/** The highest value of the setting `CONNECTIONS_MAX`. */
const CONNECTIONS_MAX = 1_000_000;
/** Objects of a namespace beside its shards and Hubs: groups of channels, and the Directory. */
const OTHER_OBJECTS = CHANNEL_GROUPS + 1;

/** How many files a child of this process may open; null without a limit. Node does not tell, but the shell does. */
export function openFilesMax(): number | null {
  // `ulimit` is a builtin: no program reports the limit on all systems.
  const text = execFileSync("sh", ["-c", "ulimit -n"], { encoding: "utf8" }).trim();
  return text === "unlimited" ? null : Number(text);
}

/**
 * How many connections leave enough files for everything else. Shards that split off later are not counted: they take files of
 * the half that is left to HTTP.
 *
 * @param openFiles that workerd may have
 * @param namespaces in use
 * @throws UsageError `open_files_max` where there is no room for any
 */
export function connectionsWithin(
  openFiles: number,
  { SHARDS, HUBS_MAX }: Pick<Settings, "SHARDS" | "HUBS_MAX">,
  namespaces: number,
): number {
  const objects = namespaces * (SHARDS + HUBS_MAX + OTHER_OBJECTS);
  const needed = FILES_OF_WORKERD + FILES_AN_OBJECT * objects;
  const connections = Math.floor((openFiles - needed) / 2 / FILES_A_CONNECTION);
  if (connections > 0) return Math.min(connections, CONNECTIONS_MAX);
  throw new UsageError(
    "open_files_max",
    `serve may open ${openFiles} files, and needs more than ${needed}: raise the limit with ulimit -n, LimitNOFILE of systemd or --ulimit nofile of Docker`,
  );
}
