/**
 * What happens when the reader of an output goes away: a command ends, and a server keeps running.
 *
 * Node reports a closed pipe as an error of the stream, which would end the process if no listener took it.
 */
import { ExitCode } from "./exit-code.ts";
import { printFailure, UsageError } from "./failure.ts";
import type { Host, Sink } from "./host.ts";
import { hasJsonFlag } from "./options.ts";

type Outputs = Pick<Host, "stdout" | "stderr">;

/** How long the last lines of a server wait for their reader. */
const LAST_LINES_MS = 1000;
/** Outputs whose readers may go away, or stop reading, while the process goes on. */
const outlived = new WeakSet<Sink>();

/**
 * Ends the process when the reader of standard output closes the pipe, as `| head` does when it has its lines: that is a
 * normal end. Any other error of standard output ends it as a failure. Standard error carries remarks only: without a
 * reader they are dropped, and the command goes on.
 */
export function endWithReader({ stdout, stderr }: Outputs): void {
  stdout.on("error", endOnClosed);
  stderr.on("error", drop);
}

/**
 * Drops output from now on that can't be written, in place of what `endWithReader` does. A collector of logs that was
 * restarted, or a disk that is full, is no reason for a server to end.
 */
export function outliveReaders({ stdout, stderr }: Outputs): void {
  stdout.off("error", endOnClosed);
  for (const output of [stdout, stderr]) {
    output.on("error", drop);
    outlived.add(output);
  }
}

/**
 * Ends the process of a server soon, although the reader of its output has stopped reading: Node would wait for that reader
 * for ever. Any other command waits, as a pager reads when its user has turned the page.
 */
export function endWithoutReaders({ stdout, stderr }: Outputs): void {
  if (![stdout, stderr].some((output) => outlived.has(output))) return;
  // Does not keep the process: where no output waits it ends at once.
  setTimeout(() => process.exit(), LAST_LINES_MS).unref();
}

function endOnClosed({ code, message }: NodeJS.ErrnoException): void {
  // Where no pipe was closed, it is most likely a file whose disk is full.
  const failure = new UsageError("file_unwritable", `standard output: ${message}`);
  const isJson = hasJsonFlag(process.argv);
  process.exit(code === "EPIPE" ? ExitCode.done : printFailure(failure, process.stderr, isJson));
}

function drop(): void {}
