/** The lines that were typed, kept from one prompt to the next in a file that nobody else can read. */
import { appendFileSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import type { Host } from "../host.ts";
import { xdgFolder } from "../profiles.ts";

const LINES_MAX = 1000;
const FILE_MODE = 0o600;
const FOLDER_MODE = 0o700;
/** What must not be kept: tokens, and what begins with a space, as in shells. */
const SECRET = /^\s|--token/;

export class History {
  readonly #path: string;
  #lines: string[];

  /** Reads `$XDG_STATE_HOME/throttr-edge/history`; a file that can't be read is an empty one. */
  constructor(environment: Host["environment"]) {
    const folder = xdgFolder(environment, "XDG_STATE_HOME", join(".local", "state"));
    this.#path = join(folder, "history");
    const lines = readLines(this.#path);
    this.#lines = lines.slice(-LINES_MAX);
    if (lines.length > 2 * LINES_MAX) this.#write(() => this.#replace());
  }

  /** The newest first. */
  get newestFirst(): string[] {
    return this.#lines.toReversed();
  }

  add(typed: string): void {
    const line = typed.trimEnd();
    if (line === "" || SECRET.test(line) || line === this.#lines.at(-1)) return;
    this.#lines = [...this.#lines, line].slice(-LINES_MAX);
    this.#write(() => appendFileSync(this.#path, `${line}\n`, { mode: FILE_MODE }));
  }

  #replace(): void {
    writeFileSync(this.#path, this.#lines.map((line) => `${line}\n`).join(""), { mode: FILE_MODE });
  }

  /** A history that can't be kept must not end the prompt. */
  #write(write: () => void): void {
    try {
      mkdirSync(dirname(this.#path), { recursive: true, mode: FOLDER_MODE });
      write();
    } catch {
      // The lines of this prompt are in memory.
    }
  }
}

function readLines(path: string): string[] {
  try {
    return readFileSync(path, "utf8").split("\n").filter(Boolean);
  } catch {
    return [];
  }
}
