/** Answers in fragments as the protocol's tables have them. */
import { hex } from "./bytes.ts";

export interface FragmentRow {
  /** Without the leading size, where the row has one. */
  readonly row: Uint8Array;
  readonly name: string;
}

export interface Fragment {
  readonly index: number;
  /** Bytes of rows and names. */
  readonly bytes: number;
  readonly rows: readonly FragmentRow[];
}

export interface FragmentShape {
  readonly hasStatus: boolean;
  readonly rowBytes: number;
  /** Rows begin with the size of a name, and names follow the rows. */
  readonly hasNames: boolean;
}

/** Reads a whole answer; throws when a count is wrong or bytes are left over. */
export function parseFragments(answer: Uint8Array, shape: FragmentShape): Fragment[] {
  const view = new DataView(answer.buffer, answer.byteOffset, answer.byteLength);
  const u64 = (at: number): number => Number(view.getBigUint64(at, true));
  let at = 0;
  if (shape.hasStatus && answer[at++] !== 1)
    throw new Error(`status ${hex(answer.subarray(0, 1))}`);
  const count = u64(at);
  at += 8;
  const fragments: Fragment[] = [];
  for (let i = 0; i < count; i++) {
    const index = u64(at);
    const rowCount = u64(at + 8);
    at += 16;
    const from = at;
    const rows = Array.from({ length: rowCount }, (_, row) =>
      answer.subarray(at + row * shape.rowBytes, at + (row + 1) * shape.rowBytes),
    );
    at += rowCount * shape.rowBytes;
    fragments.push({
      index,
      rows: rows.map((row) => {
        if (!shape.hasNames) return { row, name: "" };
        const name = String.fromCharCode(...answer.subarray(at, at + row[0]!));
        at += row[0]!;
        return { row: row.subarray(1), name };
      }),
      bytes: at - from,
    });
  }
  if (at !== answer.length) throw new Error(`${answer.length - at} bytes behind the last fragment`);
  return fragments;
}

export const FRAGMENT_BYTES_MAX = 2048;

/** How many fragments rows of these sizes need when each is filled before the next one is begun. */
export function fragmentsNeeded(sizes: readonly number[]): number {
  let count = 0;
  let bytes = Infinity;
  for (const size of sizes) {
    if (bytes + size > FRAGMENT_BYTES_MAX) {
      count++;
      bytes = 0;
    }
    bytes += size;
  }
  return count;
}
