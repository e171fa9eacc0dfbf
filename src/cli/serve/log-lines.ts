/** Log lines of workerd, with places in the built Worker as places in the sources. */
import { readFileSync } from "node:fs";
import { SourceMap, type SourceMapPayload } from "node:module";
import { createInterface } from "node:readline";
import type { Readable, Writable } from "node:stream";
import { WORKER_FILE } from "./configuration.ts";

/** A line and a column of the Worker, both counted from 1, as stack traces name them. */
const PLACE = new RegExp(`\\b${WORKER_FILE.replace(".", String.raw`\.`)}:(\\d+):(\\d+)`, "g");

export class LogLines {
  readonly #mapFile: string;
  #map: SourceMap | null | undefined;

  /** @param mapFile the source map of the Worker; without it lines stay as they are */
  constructor(mapFile: string) {
    this.#mapFile = mapFile;
  }

  /** Passes lines on, as long as there are any. */
  copy(from: Readable, to: Writable): void {
    const lines = createInterface({ input: from, crlfDelay: Infinity });
    let isGone = false;
    const leave = (): void => {
      // Lines are lost from now on, and read all the same: workerd must not wait for room.
      isGone = true;
      lines.resume();
    };
    to.on("error", leave);
    lines.once("close", () => to.off("error", leave));
    lines.on("line", (line) => {
      if (isGone || to.write(`${this.mapped(line)}\n`)) return;
      // Who reads the log slowly holds workerd back, as without a process between the two.
      lines.pause();
      to.once("drain", () => lines.resume());
    });
  }

  /** A line in which every place of the built Worker is one of the sources. */
  mapped(line: string): string {
    return line.replace(PLACE, (place, row: string, column: string) => {
      const origin = this.#sourceMap()?.findOrigin(Number(row), Number(column));
      if (origin === undefined || !("fileName" in origin)) return place;
      const file = origin.fileName.replace(/^(?:\.\.\/)+/, "");
      return `${file}:${origin.lineNumber}:${origin.columnNumber}`;
    });
  }

  /** Read when the first stack trace comes, which may be never. */
  #sourceMap(): SourceMap | null {
    if (this.#map === undefined) {
      try {
        this.#map = new SourceMap(
          JSON.parse(readFileSync(this.#mapFile, "utf8")) as SourceMapPayload,
        );
      } catch {
        this.#map = null;
      }
    }
    return this.#map;
  }
}
