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
  const { bytes, isWhole } = await readBeginning(response, bytesMax);
  if (isWhole) return bytes;
  throw outcomeUnknown(`the server sent more than ${bytesMax} bytes`);
}

/** The bytes of a body; of one with more than `bytesMax` its beginning, and the rest is not read. */
export async function readBeginning(
  response: FetchResponse,
  bytesMax: number,
): Promise<{ readonly bytes: Uint8Array; readonly isWhole: boolean }> {
  const { body } = response;
  if (body === null || body === undefined) {
    return { bytes: new Uint8Array(await response.arrayBuffer()), isWhole: true };
  }
  const reader = body.getReader();
  const parts: Uint8Array[] = [];
  let length = 0;
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return { bytes: joinBytes(parts), isWhole: true };
    parts.push(value!);
    length += value!.length;
    if (length <= bytesMax) continue;
    await reader.cancel();
    return { bytes: joinBytes(parts), isWhole: false };
  }
}

/** Ends a body that is not read: an unread one keeps its connection, and a process of Node, open. */
export function discard({ body }: FetchResponse): void {
  body
    ?.getReader()
    .cancel()
    .catch(() => {});
}
