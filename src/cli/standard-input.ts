/** Standard input, where an argument leaves a value to it. */
import { UsageError } from "./failure.ts";
import type { Invocation } from "./invocation.ts";
import { encodingOf, type EncodingOptions } from "./options.ts";
import { bytesOfArgument } from "./text.ts";

/** No frame is larger. */
const INPUT_BYTES_MAX = 1_800_000;

/**
 * The bytes of a value: of the argument, or of standard input where it is `-` or missing. What comes
 * from there is taken as it is.
 *
 * @param name of the argument
 * @throws UsageError `value_missing` where there is nobody to give it, `value_invalid` when it is too long
 */
export async function valueOfArgument(
  { host: { stdin }, run }: Invocation,
  options: EncodingOptions,
  name: string,
  text: string | undefined,
): Promise<Uint8Array> {
  if (text !== undefined && text !== "-") return bytesOfArgument(text, encodingOf(options));
  if (run.isPrompt || (text === undefined && stdin.isTTY === true)) {
    throw new UsageError("value_missing", `${name}: a value is expected`);
  }
  return await allOf(stdin, name);
}

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
