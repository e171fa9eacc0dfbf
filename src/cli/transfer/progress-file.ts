/**
 * The progress of an import, in `FILE.progress` beside the file, for `--resume`.
 *
 * It contains the checksum of the file, the target and the policy: an import that continued with another file, target or policy
 * would restore a mixture.
 */
import { readFile, rename, rm, writeFile } from "node:fs/promises";
import * as v from "valibot";
import { UsageError } from "../failure.ts";

/** Marks a file as the progress of an import: another program could use the same name. */
const FORMAT = "throttr-edge-import";
/** The shortest time between two writes: a write for each batch would cost more than the batch. */
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
  /** Missing if it was not known; files of earlier releases never have it. */
  namespace: v.optional(v.string()),
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
  /** When the file was last written, by the monotonic clock. */
  #writtenAtMs = -Infinity;

  /** True after the first write that failed: later ones would fail, too. */
  #isLost = false;
  /** Receives the message for the user when the file can't be written, the first time, or can't be removed. */
  readonly #warn: (text: string) => void;

  /** @param file the imported file */
  constructor(file: string, warn: (text: string) => void) {
    this.#name = `${file}.progress`;
    this.#warn = warn;
  }

  /** Whether a write has failed, for example because the folder is read-only. */
  get isLost(): boolean {
    return this.#isLost;
  }

  /**
   * The progress of an earlier import of the same file to the same address by the same policy; null if there is none.
   *
   * @throws UsageError `resume_mismatch` if it belongs to another import, `progress_invalid`, `file_unreadable`
   */
  async read(
    asked: Pick<ImportProgress, "sha256" | "target" | "policy">,
  ): Promise<ImportProgress | null> {
    const text = await this.#text();
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
    throw this.#mismatch(`with ${what[different]}`);
  }

  /**
   * Refuses to continue in another namespace.
   *
   * @param asked the namespace of this import; null if it is not known
   * @throws UsageError `resume_mismatch`
   */
  assertNamespace({ namespace }: ImportProgress, asked: string | null): void {
    if (namespace === undefined || asked === null || namespace === asked) return;
    throw this.#mismatch(`into the namespace ${namespace}`);
  }

  #mismatch(what: string): UsageError {
    const detail = `${this.#name} belongs to an import ${what}; leave out --resume to start over`;
    return new UsageError("resume_mismatch", detail);
  }

  /**
   * Writes the progress, at most twice a second: a resumed import restores the records of the last half second again.
   *
   * If the file can't be written, the import continues, but can't be resumed.
   */
  async write(progress: ImportProgress, isLast: boolean): Promise<void> {
    if (this.#isLost) return;
    const nowMs = performance.now();
    if (!isLast && nowMs - this.#writtenAtMs < WRITE_INTERVAL_MS) return;
    this.#writtenAtMs = nowMs;
    const draft = `${this.#name}.tmp`;
    try {
      await writeFile(draft, `${JSON.stringify({ format: FORMAT, version: 1, ...progress })}\n`);
      await rename(draft, this.#name);
    } catch (error) {
      this.#isLost = true;
      await rm(draft, { force: true }).catch(() => {});
      this.#warn(
        `the import cannot be resumed, as its progress cannot be stored: ${textOf(error)}`,
      );
    }
  }

  /** Removes the file: the import is complete, or starts over. */
  async remove(): Promise<void> {
    try {
      await rm(this.#name, { force: true });
    } catch (error) {
      this.#warn(`remove ${this.#name} before you use --resume: ${textOf(error)}`);
    }
  }

  /** The text of the file; null if the file does not exist. @throws UsageError `file_unreadable` if it can't be read */
  async #text(): Promise<string | null> {
    try {
      return await readFile(this.#name, "utf8");
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === "ENOENT") return null;
      throw new UsageError(
        "file_unreadable",
        `${this.#name}: ${textOf(error)}; make it readable, or leave out --resume to start over`,
      );
    }
  }

  /** Parses the text of the file. @throws UsageError `progress_invalid` if it was edited or cut short */
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

const textOf = (error: unknown): string => (error instanceof Error ? error.message : String(error));
