/** Reads a body that may be longer than it should be. */
import { joinBytes } from "../../wire/bytes.ts";
import { outcomeUnknown } from "../calls/call.ts";
import type { FetchResponse } from "../platform.ts";

/**
 * The bytes of a body.
 *
 * @throws ThrottrError `outcome_unknown` when there are more than `bytesMax`: what was asked was applied or
 * not, and nobody reads what it came to
 */
export async function readWhole(response: FetchResponse, bytesMax: number): Promise<Uint8Array> {
  const { body } = response;
  if (body === null || body === undefined) return new Uint8Array(await response.arrayBuffer());
  const reader = body.getReader();
  const parts: Uint8Array[] = [];
  let length = 0;
  for (;;) {
    const { value, done } = await reader.read();
    if (done) break;
    parts.push(value!);
    length += value!.length;
    if (length <= bytesMax) continue;
    await reader.cancel();
    throw outcomeUnknown(`the server has sent more than ${bytesMax} bytes`);
  }
  return joinBytes(parts);
}
