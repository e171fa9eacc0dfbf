/**
 * What happens when the reader of an output goes away: a command ends with it, and a server goes on without it.
 *
 * Node reports a closed pipe as an error of the stream, which would end the process if no listener took it.
 */
import { ExitCode } from "./exit-code.ts";
import type { Host, Sink } from "./host.ts";

/** Ends the process when the reader closes the pipe, as `| head` does when it has its lines: that is a normal end. */
export function endWithReader(output: Sink): void {
  output.on("error", endOnClosed);
}

/**
 * Drops output from now on that can't be written, in place of `endWithReader`. A collector of logs that was restarted, or a
 * disk that is full, is no reason for a server to end.
 */
export function outliveReaders({ stdout, stderr }: Pick<Host, "stdout" | "stderr">): void {
  stdout.off("error", endOnClosed);
  for (const output of [stdout, stderr]) output.on("error", drop);
}

function endOnClosed(error: NodeJS.ErrnoException): void {
  if (error.code !== "EPIPE") throw error;
  process.exit(ExitCode.done);
}

function drop(): void {}
