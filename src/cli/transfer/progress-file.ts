/**
 * The progress of an import, in `FILE.progress` beside the file, for `--resume`.
 *
 * It names the file by checksum, the target and the policy: continuing with another of them would restore a mixture.
 */
import { readFile, rename, rm, writeFile } from "node:fs/promises";
import * as v from "valibot";
import { UsageError } from "../failure.ts";

/** Tells the file from other files of this name. */
const FORMAT = "throttr-edge-import";
/** Time between two writes: a write for each batch would cost more than the batch. */
const WRITE_INTERVAL_MS = 500;

const count = v.pipe(v.number(), v.integer(), v.minValue(0));
const schema = v.object({
  format: v.literal(FORMAT),
  version: v.literal(1),
  /** SHA-256 of the imported file. */
  sha256: v.string(),
  /** Address of the server. */
  target: v.string(),
  policy: v.picklist(["keep", "replace"]),
  line: count,
  endsAt: count,
  restored: count,
  kept: count,
  expired: count,
  failed: v.record(v.string(), count),
});

/** The identity of an import, and its progress. */
export type ImportProgress = Omit<v.InferOutput<typeof schema>, "format" | "version">;

export class ProgressFile {
  /** Path of the progress file. */
  readonly #name: string;
  /** When it was last written, by the monotonic clock. */
  #writtenAtMs = -Infinity;

  /** @param file the imported file */
  constructor(file: string) {
    this.#name = `${file}.progress`;
  }

  /**
   * The progress of an earlier import of the same file to the same address; null if there is none.
   *
   * @throws UsageError `resume_mismatch`, `progress_invalid`
   */
  async read(
    asked: Pick<ImportProgress, "sha256" | "target" | "policy">,
  ): Promise<ImportProgress | null> {
    const text = await readFile(this.#name, "utf8").catch(() => null);
    if (text === null) return null;
    const found = this.#checked(text);
    const different = (["sha256", "target", "policy"] as const).find(
      (field) => found[field] !== asked[field],
    );
    if (different === undefined) return found;
    const what = {
      sha256: "another file, or the file has changed",
      target: found.target,
      policy: `--policy ${found.policy}`,
    };
    throw new UsageError(
      "resume_mismatch",
      `${this.#name} belongs to an import with ${what[different]}; leave out --resume to start over`,
    );
  }

  /** Writes the progress, at most twice a second. Behind by half a second, a resumed import restores records again. */
  async write(progress: ImportProgress, isLast: boolean): Promise<void> {
    const nowMs = performance.now();
    if (!isLast && nowMs - this.#writtenAtMs < WRITE_INTERVAL_MS) return;
    this.#writtenAtMs = nowMs;
    const draft = `${this.#name}.tmp`;
    await writeFile(draft, `${JSON.stringify({ format: FORMAT, version: 1, ...progress })}\n`);
    await rename(draft, this.#name);
  }

  /** Removes it, after a complete import. */
  async remove(): Promise<void> {
    await rm(this.#name, { force: true });
  }

  /** Parses the file. @throws UsageError `progress_invalid` for one that was edited or cut short */
  #checked(text: string): ImportProgress {
    try {
      return v.parse(schema, JSON.parse(text));
    } catch {
      throw new UsageError(
        "progress_invalid",
        `${this.#name} cannot be read; leave out --resume to start over`,
      );
    }
  }
}
