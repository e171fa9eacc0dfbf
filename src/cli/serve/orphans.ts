/**
 * Workerd processes that a killed `serve` left behind on a data folder.
 *
 * Process ids are reused, so a stored one could name another process. Instead an orphan is recognized by the data folder,
 * which it inherited as an open file, whatever path the folder has where the process runs.
 */
import { readFileSync, readlinkSync, statSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import * as v from "valibot";
import { UsageError } from "../failure.ts";
import { processIds } from "../files.ts";
import { isHeld } from "./claim.ts";
import { CONFIGURATION_FILE } from "./configuration.ts";

/** Numbers of the files that workerd inherits, as `server.ts` passes them, and wrangler under `npm start`. */
const INHERITED = { socket: 4, folder: 5 } as const;

/**
 * How often the end of an orphan is looked for: the kernel sends no event for a process that is not
 * our child.
 */
const POLL_MS = 20;
/** A fork has its files, and a process has left, within this time. Otherwise the system does not show it to this user. */
const FIND_TIMEOUT_MS = 500;
/** SIGKILL takes a moment where a disk is slow. */
const KILL_TIMEOUT_MS = 10_000;

/**
 * Ends the orphans on a folder. Their clients reconnect to the server that is about to start.
 *
 * @param folder whose lock the caller holds
 * @param drainTimeoutMs how long requests under way may take before it is killed
 * @param signal aborted when the start is to stop: the orphan then goes on draining
 * @returns ids of the processes that were ended; null when the signal was aborted before
 * @throws UsageError `data_in_use` where a process holds the folder and can't be ended
 */
export async function endOrphans(
  folder: string,
  drainTimeoutMs: number,
  signal: AbortSignal,
): Promise<number[] | null> {
  const ended = new Set<number>();
  const steps = [
    ["SIGTERM", drainTimeoutMs],
    ["SIGKILL", KILL_TIMEOUT_MS],
  ] as const;
  for (const [name, timeoutMs] of steps) {
    const startedMs = performance.now();
    const signalled = new Set<number>();
    while (await isHeld(folder)) {
      if (signal.aborted) return null;
      const passedMs = performance.now() - startedMs;
      if (passedMs > timeoutMs) break;
      // Search each time: a process that is just being started is not found at once.
      for (const pid of orphansOf(folder)) {
        if (!signalled.has(pid) && kill(pid, name)) ended.add(pid);
        signalled.add(pid);
      }
      if (signalled.size === 0 && passedMs > FIND_TIMEOUT_MS) break;
      await sleep(POLL_MS);
    }
  }
  if (!(await isHeld(folder))) return [...ended];
  throw new UsageError(
    "data_in_use",
    `--data: ${folder} is in use by a workerd whose serve was killed: end it first; \`pgrep -fl ${join(folder, CONFIGURATION_FILE)}\` shows its id`,
  );
}

/** Processes that inherited the folder. An empty list where the system does not show open files. */
export function orphansOf(folder: string): number[] {
  const { dev, ino } = statSync(folder);
  return processIds().filter((pid) => {
    try {
      const files = `/proc/${pid}/fd`;
      // Device and inode are the same under every path, also within a container.
      const inherited = statSync(`${files}/${INHERITED.folder}`);
      if (inherited.dev !== dev || inherited.ino !== ino) return false;
      return readlinkSync(`${files}/${INHERITED.socket}`).startsWith("socket:");
    } catch {
      // It has ended, belongs to another user, or has no such file.
      return false;
    }
  });
}

/** Sends a signal; false for a process that has ended or belongs to another user. */
function kill(pid: number, name: "SIGTERM" | "SIGKILL"): boolean {
  try {
    return process.kill(pid, name);
  } catch {
    return false;
  }
}

/** The file in which servers up to 0.4 stored their process ids. The release after 0.5 no longer looks for it. */
export const OLD_RECORD = "server.json";
/** The record of servers up to 0.4. Other fields of it are of no use here. */
const oldRecordSchema = v.object({
  workerdPid: v.number(),
  /** When workerd was started, as the kernel counts; null where that can't be known. */
  workerdStart: v.nullable(v.string()),
});
/** The start behind the third field, the state: the 22nd field of proc_pid_stat(5). */
const START_FIELD = 18;

/** @throws UsageError `data_in_use` while a workerd runs that a killed server up to 0.4 left behind */
export function refuseOldOrphan(folder: string): void {
  const record = oldRecordOf(join(folder, OLD_RECORD));
  if (record === null || !isRunning(record)) return;
  throw new UsageError(
    "data_in_use",
    `--data: ${folder} is in use by workerd, process ${record.workerdPid}, whose server was killed: end it first`,
  );
}

type OldRecord = v.InferOutput<typeof oldRecordSchema>;

/** The record; null where there is none, or it can't be read. */
function oldRecordOf(path: string): OldRecord | null {
  try {
    return v.parse(oldRecordSchema, JSON.parse(readFileSync(path, "utf8")));
  } catch {
    return null;
  }
}

/** Whether that very process still runs: the id alone may have been given to another since. */
function isRunning({ workerdPid, workerdStart }: OldRecord): boolean {
  // Signal 0 checks that a process exists. EPERM means that it does, under another user.
  if (workerdStart !== null) return processStart(workerdPid) === workerdStart;
  try {
    return process.kill(workerdPid, 0);
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === "EPERM";
  }
}

/** When a process was started; null for one that has ended, or where that can't be known. */
export function processStart(pid: number): string | null {
  try {
    const status = readFileSync(`/proc/${pid}/stat`, "utf8");
    // The second field is the program's name, which may have anything in it.
    const [state, ...others] = status.slice(status.lastIndexOf(")") + 2).split(" ");
    return state === "Z" ? null : (others[START_FIELD] ?? null);
  } catch {
    return null;
  }
}
