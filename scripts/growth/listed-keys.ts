/** All keys of a namespace, as LIST answers them. */

const LIST = Uint8Array.of(0x07);
const STATUS_SUCCESS = 1;
/** Status, count of fragments. */
const HEAD_BYTES = 9;
/** Index and count of rows. */
const FRAGMENT_HEADER_BYTES = 16;
/** In uint16: key size, type, TTL type, time point, bytes used. */
const ROW_BYTES = 13;

/** @throws Error when the answer is not whole */
export async function listedKeys(url: string): Promise<string[]> {
  const response = await fetch(`${url}/throttr/7.3/uint16`, { method: "POST", body: LIST });
  const answer = Buffer.from(await response.arrayBuffer());
  if (answer[0] !== STATUS_SUCCESS) throw new Error(`LIST: status ${answer[0]}`);
  const fragments = Number(answer.readBigUInt64LE(1));
  const keys: string[] = [];
  let at = HEAD_BYTES;
  for (let fragment = 0; fragment < fragments; fragment++) {
    const rows = Number(answer.readBigUInt64LE(at + 8));
    const rowsAt = at + FRAGMENT_HEADER_BYTES;
    at = rowsAt + rows * ROW_BYTES;
    for (let row = 0; row < rows; row++) {
      const keyBytes = answer[rowsAt + row * ROW_BYTES]!;
      keys.push(answer.toString("latin1", at, at + keyBytes));
      at += keyBytes;
    }
  }
  if (at !== answer.length) throw new Error(`LIST: ${answer.length} bytes, not ${at}`);
  return keys;
}
