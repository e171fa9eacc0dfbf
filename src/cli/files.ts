/** Files and folders as several commands need them, with the errors that are no errors there. */
import { readdirSync, readFileSync } from "node:fs";
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

/** The same of a file that the person named, or that belongs to the project. @throws UsageError `file_unreadable` */
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
