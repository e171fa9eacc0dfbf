/**
 * Copies log lines of workerd, and translates places in the built Worker to places in the sources.
 *
 * The Worker is bundled and minified: without this, stack traces in the log would all name one line.
 */
import { readFileSync } from "node:fs";
import { SourceMap, type SourceMapPayload } from "node:module";
import { createInterface } from "node:readline";
import type { Readable, Writable } from "node:stream";
import { WORKER_FILE } from "../package-folder.ts";

/** A line and a column of the Worker, both counted from 1, as stack traces name them. */
const PLACE = new RegExp(`\\b${WORKER_FILE.replace(".", String.raw`\.`)}:(\\d+):(\\d+)`, "g");

/**
 * What workerd writes of each CONNECT request over HTTP, which it answers with 500. Such a request needs no token, so a stranger
 * could fill the disk with these lines.
 */
const OF_CONNECT = /^(?:workerd\/.* Handler does not export|Received a connect event) /;

export class LogLines {
  /** Path of the source map, beside the Worker. */
  readonly #mapFile: string;
  /** Undefined before it was read; null if it can't be. */
  #map: SourceMap | null | undefined;

  /** @param mapFile the source map of the Worker; without it lines stay as they are */
  constructor(mapFile: string) {
    this.#mapFile = mapFile;
  }

  /**
   * Copies lines until the stream ends.
   *
   * @returns copies the rest without waiting for the reader of the log: called when workerd has ended, as its pipe holds little
   */
  copy(from: Readable, to: Writable): () => void {
    const lines = createInterface({ input: from, crlfDelay: Infinity });
    /** Whether lines are dropped: the reader of the log has gone. workerd would block on a pipe that is not read. */
    let isGone = false;
    let isEnding = false;
    let isClosed = false;
    let isWaiting = false;
    const resume = (): void => {
      isWaiting = false;
      if (!isClosed) lines.resume();
    };
    const leave = (): void => {
      isGone = true;
      resume();
    };
    to.on("error", leave);
    lines.once("close", () => {
      isClosed = true;
      // Standard output is shared by both streams of workerd, and by later starts.
      to.off("error", leave);
    });
    lines.on("line", (line) => {
      if (isGone || OF_CONNECT.test(line)) return;
      if (to.write(`${this.mapped(line)}\n`) || isEnding) return;
      // The lines that were read already come although they are paused.
      if (isWaiting) return;
      isWaiting = true;
      // A slow reader holds workerd back, as it would without a process in between.
      lines.pause();
      to.once("drain", resume);
    });
    return () => {
      isEnding = true;
      resume();
    };
  }

  /** Translates all places in a line. */
  mapped(line: string): string {
    return line.replace(PLACE, (place, row: string, column: string) => {
      const origin = this.#sourceMap()?.findOrigin(Number(row), Number(column));
      if (origin === undefined || !("fileName" in origin)) return place;
      const file = origin.fileName.replace(/^(?:\.\.\/)+/, "");
      return `${file}:${origin.lineNumber}:${origin.columnNumber}`;
    });
  }

  /** The map is large, so it is read with the first stack trace, which may never come. */
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
