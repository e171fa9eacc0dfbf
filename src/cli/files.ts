/** Files and folders as several commands need them, with the errors that are no errors there. */
import {
  closeSync,
  constants,
  lstatSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  readSync,
  statSync,
} from "node:fs";
import { dirname } from "node:path";
import { UsageError } from "./failure.ts";

/** The text of a file; null when it is missing. Throws any other error of the system. */
export function textIfThere(path: string): string | null {
  try {
    return readFileSync(path, "utf8");
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return null;
    throw error;
  }
}

/** How a file is opened that may be a pipe: else the system waits until a process writes to it, and no signal ends that wait. */
export const WITHOUT_WAITING = constants.O_RDONLY | constants.O_NONBLOCK;
/** How often a pipe is asked for its bytes. */
const PIPE_INTERVAL_MS = 20;

/**
 * The beginning of a file or a pipe as text: a wrong path, such as that of a log, must not fill the memory.
 *
 * @param pipeTimeoutMs how long a pipe may take to its end, as its writer may ask a person for a password
 */
export function textUpTo(path: string, bytesMax: number, pipeTimeoutMs: number): string {
  const bytes = Buffer.alloc(bytesMax);
  const deadline = performance.now() + pipeTimeoutMs;
  const file = openSync(path, WITHOUT_WAITING);
  try {
    // Before its first writer comes, a pipe with a name reads as if it had ended.
    const hasName = lstatSync(path).isFIFO();
    let length = 0;
    for (;;) {
      const read = readNow(file, bytes.subarray(length));
      const isAwaited = read === null || (read === 0 && length === 0 && hasName);
      if (!isAwaited) {
        // 0 is the end of the file, or of the buffer.
        if (read === 0) return bytes.toString("utf8", 0, length);
        length += read;
      } else if (performance.now() > deadline) {
        throw new Error(`${path}: the pipe did not come to its end within ${pipeTimeoutMs} ms`);
      } else {
        pause(PIPE_INTERVAL_MS);
      }
    }
  } finally {
    closeSync(file);
  }
}

/** Reads what is there, and returns the number of bytes; null for a pipe that has none yet. */
function readNow(file: number, to: Uint8Array): number | null {
  try {
    return readSync(file, to);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "EAGAIN") return null;
    throw error;
  }
}

/** Waits without returning to the event loop. */
function pause(ms: number): void {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms);
}

/**
 * Creates a folder, and those above it that are missing; does nothing for one that exists. `mkdirSync` with `recursive` never
 * ends below a folder such as `/proc`, which answers that the new folder does not exist.
 *
 * @param mode of the folders that are created
 */
export function createFolder(path: string, mode?: number): void {
  if (isFolder(path)) return;
  createFolder(dirname(path), mode);
  try {
    mkdirSync(path, { mode });
  } catch (error) {
    // Another process may have created it meanwhile.
    if (!isFolder(path)) throw error;
  }
}

function isFolder(path: string): boolean {
  return statSync(path, { throwIfNoEntry: false })?.isDirectory() === true;
}

/** `textIfThere` of a file that the person named, or that belongs to the project. @throws UsageError `file_unreadable` */
export function projectText(path: string): string | null {
  try {
    return textIfThere(path);
  } catch (error) {
    throw new UsageError("file_unreadable", `${path}: ${(error as Error).message}`);
  }
}

/** The ids of all processes; none where the system has no `/proc`, as macOS. */
export function processIds(): number[] {
  try {
    return readdirSync("/proc").map(Number).filter(Number.isInteger);
  } catch {
    return [];
  }
}
