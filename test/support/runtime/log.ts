/**
 * Keeps what the runtime prints about provoked failures out of the output of the tests.
 *
 * workerd writes a stack for every rejected RPC and every object that a test resets, also where the test
 * expects just that: a thousand of them hide the one line that matters. The plugin passes them to standard
 * output and standard error of this process; here they go to a file instead.
 */
import { appendFileSync, writeFileSync } from "node:fs";
import { resolve } from "node:path";

const PATH = resolve(".wrangler/test-runtime.log");

/** How a message of the runtime begins; messages of the tests and of vitest do not begin so. */
const RUNTIME_MESSAGE = /^(?:uncaught exception; |exception = )/;

export default function setup(): () => void {
  writeFileSync(PATH, "");
  const restores = [process.stdout, process.stderr].map(divert);
  return () => {
    for (const restore of restores) restore();
  };
}

function divert(stream: NodeJS.WriteStream): () => void {
  const write = stream.write.bind(stream);
  stream.write = ((chunk: string | Uint8Array, ...rest: []) => {
    if (typeof chunk !== "string" || !RUNTIME_MESSAGE.test(chunk)) return write(chunk, ...rest);
    appendFileSync(PATH, chunk);
    return true;
  }) as typeof stream.write;
  return () => {
    stream.write = write;
  };
}
