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
  /** Missing where it was not known; files of earlier releases lack it. */
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
  /** When it was last written, by the monotonic clock. */
  #writtenAtMs = -Infinity;

  /** Set by the first write that failed: the others would fail, too. */
  #isLost = false;
  /** Hears once that the file can't be written or removed, and why. */
  readonly #warn: (text: string) => void;

  /** @param file the imported file */
  constructor(file: string, warn: (text: string) => void) {
    this.#name = `${file}.progress`;
    this.#warn = warn;
  }

  /** Whether it can't be written, as in a folder that is read-only. */
  get isLost(): boolean {
    return this.#isLost;
  }

  /**
   * The progress of an earlier import of the same file to the same address; null if there is none.
   *
   * @throws UsageError `resume_mismatch`, `progress_invalid`; `file_unreadable` for one that is there
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
   * @param asked null where it is not known
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
   * Writes the progress, at most twice a second. Behind by half a second, a resumed import restores records again.
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

  /** Removes it: the import is complete, or starts over. */
  async remove(): Promise<void> {
    try {
      await rm(this.#name, { force: true });
    } catch (error) {
      this.#warn(`remove ${this.#name} before you use --resume: ${textOf(error)}`);
    }
  }

  /** The file; null if there is none. @throws UsageError `file_unreadable` */
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

const textOf = (error: unknown): string => (error instanceof Error ? error.message : String(error));
