/**
 * The end of npm, of which nothing tells the process that it runs.
 *
 * npm and npx pass SIGTERM on to the shell that they start a program in, and the shell does not pass it on: the program would
 * go on without them.
 */

/** How often the process looks whether its parent is still there: the system tells it only to the parent of the parent. */
const INTERVAL_MS = 200;

/**
 * Calls a function once when npm, or its shell, has ended; never for a process that npm does not run.
 *
 * @returns a function that stops watching
 */
export function onNpmEnd(end: () => void): () => void {
  if (process.env.npm_lifecycle_event === undefined) return () => {};
  const { ppid } = process;
  const timer = setInterval(() => {
    if (process.ppid === ppid) return;
    clearInterval(timer);
    end();
  }, INTERVAL_MS);
  timer.unref();
  return () => clearInterval(timer);
}
