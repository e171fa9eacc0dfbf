/** The lines typed at the prompt, kept in a file that only its owner can read. */
import { appendFileSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { createFolder } from "../files.ts";
import type { Host } from "../host.ts";
import { xdgFolder } from "../profiles.ts";

/** Lines that are kept. The file may grow to twice as many before it is cut. */
const LINES_MAX = 1000;
/** Lines have keys and values in them. */
const FILE_MODE = 0o600;
const FOLDER_MODE = 0o700;
/** Lines that are not kept: those with a token, and those that begin with a space, as in shells. */
const SECRET = /^\s|--token/;

export class History {
  readonly #path: string;
  /** The oldest first. */
  #lines: string[];

  /** Reads `$XDG_STATE_HOME/throttr-edge/history`; a file that cannot be read counts as empty. */
  constructor(environment: Host["environment"]) {
    const folder = xdgFolder(environment, "XDG_STATE_HOME", join(".local", "state"));
    this.#path = join(folder, "history");
    const lines = readLines(this.#path);
    this.#lines = lines.slice(-LINES_MAX);
    if (lines.length > 2 * LINES_MAX) this.#write(() => this.#replace());
  }

  /** The lines, newest first, as `readline` wants them. */
  get newestFirst(): string[] {
    return this.#lines.toReversed();
  }

  /** Adds a line, unless it is empty, secret, or the same as the last one. */
  add(typed: string): void {
    const line = typed.trimEnd();
    if (line === "" || SECRET.test(line) || line === this.#lines.at(-1)) return;
    this.#lines = [...this.#lines, line].slice(-LINES_MAX);
    this.#write(() => appendFileSync(this.#path, `${line}\n`, { mode: FILE_MODE }));
  }

  /** Writes the file anew, with the lines that are kept. */
  #replace(): void {
    writeFileSync(this.#path, this.#lines.map((line) => `${line}\n`).join(""), { mode: FILE_MODE });
  }

  /** Writes to the file. A disk that is full or read-only must not end the prompt. */
  #write(write: () => void): void {
    try {
      createFolder(dirname(this.#path), FOLDER_MODE);
      write();
    } catch {
      // This prompt still has its lines in memory.
    }
  }
}

/** The lines of the file; none where it can't be read. */
function readLines(path: string): string[] {
  try {
    return readFileSync(path, "utf8").split("\n").filter(Boolean);
  } catch {
    return [];
  }
}
