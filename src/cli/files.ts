/** Files and folders as several commands need them, with the errors that are no errors there. */
import {
  closeSync,
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

/** The beginning of a file or a pipe as text: a wrong path, such as that of a log, must not fill the memory. */
export function textUpTo(path: string, bytesMax: number): string {
  const bytes = Buffer.alloc(bytesMax);
  const file = openSync(path, "r");
  try {
    let length = 0;
    // A pipe gives its bytes in parts. 0 is the end of the file, or of the buffer.
    for (;;) {
      const read = readSync(file, bytes, length, bytesMax - length, null);
      if (read === 0) return bytes.toString("utf8", 0, length);
      length += read;
    }
  } finally {
    closeSync(file);
  }
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
