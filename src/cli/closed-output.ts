/**
 * What happens when the reader of an output goes away: a command ends, and a server keeps running.
 *
 * Node reports a closed pipe as an error of the stream, which would end the process if no listener took it.
 */
import { ExitCode } from "./exit-code.ts";
import { printFailure, UsageError } from "./failure.ts";
import type { Host, Sink } from "./host.ts";

/**
 * Ends the process when the reader closes the pipe, as `| head` does when it has its lines: that is a normal end. Any
 * other error of the output ends it as a failure.
 */
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

function endOnClosed({ code, message }: NodeJS.ErrnoException): void {
  // Where no pipe was closed, it is most likely a file whose disk is full.
  const failure = new UsageError("file_unwritable", `standard output: ${message}`);
  process.exit(code === "EPIPE" ? ExitCode.done : printFailure(failure, process.stderr, false));
}

function drop(): void {}
