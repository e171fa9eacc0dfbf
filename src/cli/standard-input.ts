/** Values from standard input, for arguments that are `-` or missing. */
import { UsageError } from "./failure.ts";
import type { Invocation } from "./invocation.ts";
import { encodingOf, type EncodingOptions } from "./options.ts";
import { bytesOfArgument } from "./text.ts";

/** The largest frame that a server accepts; a longer value would be refused after it was read. */
const INPUT_BYTES_MAX = 1_800_000;

/**
 * The bytes of a value: from the argument, or from standard input if the argument is `-` or missing. Standard input
 * is used as it is, without decoding.
 *
 * @param name the argument's name, for messages
 * @throws UsageError `value_missing` at a terminal or the prompt, `value_invalid` above 1,800,000 bytes
 */
export async function valueOfArgument(
  { host: { stdin }, run }: Invocation,
  options: EncodingOptions,
  name: string,
  text: string | undefined,
): Promise<Uint8Array> {
  if (text !== undefined && text !== "-") return bytesOfArgument(text, encodingOf(options));
  if (run.isPrompt || (text === undefined && stdin.isTTY === true)) {
    throw new UsageError(
      "value_missing",
      `${name}: expected a value as an argument or on standard input`,
    );
  }
  return await allOf(stdin, name);
}

/** All bytes of a stream. Stops reading as soon as there are too many. */
async function allOf(stdin: AsyncIterable<Buffer | string>, name: string): Promise<Uint8Array> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of stdin) {
    const buffer = Buffer.from(chunk);
    bytes += buffer.length;
    if (bytes > INPUT_BYTES_MAX) {
      throw new UsageError(
        "value_invalid",
        `${name}: standard input has more than ${INPUT_BYTES_MAX} bytes`,
      );
    }
    chunks.push(buffer);
  }
  return new Uint8Array(Buffer.concat(chunks));
}
