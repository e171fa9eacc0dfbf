/** An import: restores the records of a file or a pipe into a namespace. */
import { createReadStream } from "node:fs";
import { stat } from "node:fs/promises";
import { UsageError } from "../failure.ts";
import { readExport } from "./export-reader.ts";
import { isLease, isTrailer, readLine, type Counts } from "./format.ts";
import { linesOf } from "./lines.ts";
import type { Restorer } from "./restorer.ts";

/** The contents of a file, counted without restoring anything. */
export interface Survey {
  readonly counts: Counts;
  /** Records and leases that have expired, by the local clock. */
  readonly expired: number;
  readonly bytes: number;
  readonly sha256: string;
}

/**
 * Reads and checks a whole export, so that an incomplete file changes nothing.
 *
 * @param isPartial whether a file that was cut short is accepted
 * @throws UsageError `file_invalid`, `file_damaged`, `file_truncated`, `file_unreadable`
 */
export async function survey(
  chunks: AsyncIterable<Uint8Array>,
  isPartial: boolean,
): Promise<Survey> {
  const nowMs = Date.now();
  const nowNs = BigInt(nowMs) * 1_000_000n;
  let expired = 0;
  const reader = await readExport(chunks, isPartial, (entry) => {
    const isOver = isLease(entry) ? entry.expiresAtMs <= nowMs : entry.expiresAtNs <= nowNs;
    if (isOver) expired++;
    return null;
  });
  // Throws for a file that was cut short before the end of its header.
  void reader.header;
  return { counts: reader.counts, expired, bytes: reader.endsAt, sha256: reader.sha256 };
}

/** Restores the records of a stream while it is read and checked: a pipe cannot be read twice. */
export async function importStream(
  chunks: AsyncIterable<Uint8Array>,
  isPartial: boolean,
  restorer: Restorer,
): Promise<void> {
  const reader = await readExport(chunks, isPartial, (entry, line, endsAt) =>
    restorer.add(entry, { line, endsAt }),
  );
  void reader.header;
  await restorer.end();
}

/** Restores the records of a surveyed file, from a line on. */
export async function importFile(
  name: string,
  from: { readonly line: number; readonly endsAt: number },
  { bytes, counts }: Survey,
  restorer: Restorer,
): Promise<void> {
  let { line } = from;
  if (from.endsAt >= bytes) return;
  if (counts.leases > 0) await restorer.assertLeases();
  const chunks = chunksOf(name, { start: from.endsAt, end: bytes - 1 });
  for await (const lines of linesOf(chunks)) {
    for (const { bytes, endsAt } of lines) {
      line++;
      const read = line === 1 ? null : readLine(bytes);
      if (read === null || isTrailer(read)) continue;
      const wait = restorer.add(read, { line, endsAt: from.endsAt + endsAt });
      if (wait !== null) await wait;
    }
  }
  await restorer.end();
}

/**
 * The bytes of a file, or of a part of it. The iteration throws UsageError `file_unreadable`.
 *
 * @param part offsets of the first and the last byte
 */
export async function* chunksOf(
  name: string,
  part: { readonly start?: number; readonly end?: number } = {},
): AsyncGenerator<Uint8Array, void> {
  try {
    if ((await stat(name)).isDirectory()) throw new Error(`${name} is a folder`);
    yield* createReadStream(name, part) as AsyncIterable<Uint8Array>;
  } catch (error) {
    throw new UsageError("file_unreadable", error instanceof Error ? error.message : String(error));
  }
}
