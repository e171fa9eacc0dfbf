/** Files and folders as several commands need them, with the errors that are no errors there. */
import { closeSync, openSync, readdirSync, readFileSync, readSync } from "node:fs";
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
