/** Which process listens at a port, as far as the system shows it to this user. */
import { execFileSync } from "node:child_process";
import { readdirSync, readFileSync, readlinkSync } from "node:fs";
import { processIds } from "../files.ts";

/** State of a listening socket in `/proc/net/tcp`. */
const LISTENING = "0A";
/** Characters of a command line that a message shows. */
const COMMAND_LENGTH_MAX = 120;

/**
 * A socket that listens: its inode, which names it in `/proc/<pid>/fd`, and its user, whom every
 * user may see.
 */
interface Listener {
  readonly inode: string;
  readonly userId: string;
}

/** Describes the process, such as `process 42 (node server.js)`; null where none is found. */
export function portHolder(port: number): string | null {
  // IPv4 and IPv6 have separate tables; a server on `::` takes the port of both.
  const tables = ["/proc/net/tcp", "/proc/net/tcp6"].map(readText);
  if (tables.every((table) => table === null)) return holderByLsof(port);
  const listeners = tables.flatMap((table) => listenersIn(table ?? "", port));
  if (listeners.length === 0) return null;
  const pid = processWith(new Set(listeners.map(({ inode }) => `socket:[${inode}]`)));
  if (pid === null) return `a process of the user with id ${listeners[0]!.userId}`;
  const command = readText(`/proc/${pid}/cmdline`)?.split("\0").join(" ").trim() ?? "";
  return described(pid, command);
}

/** Rows of proc_pid_net(5): number, local address, remote address, state, …, user, …, inode. */
function listenersIn(table: string, port: number): Listener[] {
  return table
    .split("\n")
    .slice(1)
    .map((line) => line.trim().split(/\s+/))
    .filter(([, local = "", , state]) => {
      return state === LISTENING && parseInt(local.split(":")[1] ?? "", 16) === port;
    })
    .map((fields) => ({ userId: fields[7] ?? "", inode: fields[9] ?? "" }));
}

/** The process that has one of these sockets open; null if it belongs to another user. */
function processWith(sockets: ReadonlySet<string>): number | null {
  return processIds().find((pid) => filesOf(pid).some((file) => sockets.has(file))) ?? null;
}

/** The open sockets of a process. An empty list once it has ended, and for a process of another user. */
function filesOf(pid: number): string[] {
  try {
    return readdirSync(`/proc/${pid}/fd`).map((file) => {
      try {
        return readlinkSync(`/proc/${pid}/fd/${file}`);
      } catch {
        // Closed since the folder was read.
        return "";
      }
    });
  } catch {
    return [];
  }
}

/** Asks `lsof` on macOS, which has no `/proc`. */
export function holderByLsof(port: number): string | null {
  try {
    const args = ["-nP", `-iTCP:${port}`, "-sTCP:LISTEN", "-Fpc"];
    const text = execFileSync("lsof", args, {
      encoding: "utf8",
      stdio: ["ignore", "pipe", "ignore"],
    });
    const pid = /^p(\d+)/m.exec(text)?.[1];
    return pid === undefined ? null : described(pid, /^c(.*)/m.exec(text)?.[1] ?? "");
  } catch {
    // lsof exits with 1 when it finds no process.
    return null;
  }
}

/** A process for a message. Long command lines, as those of Java, are cut. */
function described(pid: number | string, command: string): string {
  const isLong = command.length > COMMAND_LENGTH_MAX;
  return `process ${pid} (${isLong ? `${command.slice(0, COMMAND_LENGTH_MAX)}…` : command})`;
}

/** The text of a file of `/proc`; null where the system has none, or does not show it. */
function readText(path: string): string | null {
  try {
    return readFileSync(path, "utf8");
  } catch {
    return null;
  }
}
