/**
 * A campaign that is played in parts, on several evenings or machines. `--results FILE` appends what came of a part to a file, as a line
 * of JSON; files of several machines can be put together. The parts of one commit have one result.
 */
import { execFileSync } from "node:child_process";
import { appendFileSync, existsSync, readFileSync } from "node:fs";
import type { Result } from "./result.ts";

/** A part of a campaign: the runs of the seeds from `first` on. */
export interface Part extends Result {
  /** The commit that was played; it ends with `-dirty` where files of it were changed. */
  readonly commit: string;
  readonly first: number;
}

/** The seeds of a part, from `first` on. */
type Span = Pick<Part, "first" | "runs">;

/** The file of a campaign, as its next part finds it. */
export class PartsFile {
  readonly #path: string;
  readonly #commit: string;
  /** What is there of this commit. */
  readonly before: readonly Part[];

  /**
   * @param next the seeds that are to be played
   * @throws Error when a line is not a part, or two parts have a seed in common
   */
  constructor(path: string, next: Span, commit: string = presentCommit()) {
    this.#path = path;
    this.#commit = commit;
    this.before = partsIn(path).filter((part) => part.commit === commit);
    rejectOverlaps([...this.before, next]);
  }

  append(first: number, result: Result): void {
    const part: Part = { commit: this.#commit, first, ...result };
    appendFileSync(this.#path, `${JSON.stringify(part)}\n`);
  }
}

function presentCommit(): string {
  const args = ["describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"];
  return execFileSync("git", args, { cwd: import.meta.dirname, encoding: "utf8" }).trim();
}

function partsIn(path: string): Part[] {
  if (!existsSync(path)) return [];
  const lines = readFileSync(path, "utf8").split("\n");
  return lines.flatMap((line, index) =>
    line === "" ? [] : [parsePart(line, `${path}:${index + 1}`)],
  );
}

function parsePart(line: string, place: string): Part {
  try {
    const part = JSON.parse(line) as Part;
    if (typeof part.commit === "string" && Number.isInteger(part.first + part.runs)) return part;
  } catch {
    // The error below says where the line is.
  }
  throw new Error(`${place} is not a part of a campaign`);
}

/** A seed that was played twice would count twice. */
function rejectOverlaps(spans: readonly Span[]): void {
  const sorted = spans.filter(({ runs }) => runs > 0).toSorted((a, b) => a.first - b.first);
  for (const [index, { first, runs }] of sorted.entries()) {
    const next = sorted[index + 1]?.first ?? Infinity;
    if (next < first + runs) throw new Error(`two parts of one commit have seed ${next}`);
  }
}
