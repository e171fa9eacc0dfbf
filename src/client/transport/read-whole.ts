/** Reads a body, but not one that is larger than it should be. */
import { joinBytes } from "../../wire/bytes.ts";
import { outcomeUnknown } from "../calls/call.ts";
import type { FetchResponse } from "../platform.ts";

/**
 * The bytes of a body.
 *
 * @throws ThrottrError `outcome_unknown` when there are more than `bytesMax`: the calls may have been applied, and their
 *   replies are not read
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
    throw outcomeUnknown(`the server sent more than ${bytesMax} bytes`);
  }
  return joinBytes(parts);
}
