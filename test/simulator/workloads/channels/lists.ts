/** What CHANNELS, CONNECTIONS, INFO and `GET /v1/connections` are asked, and what their answers say. */
import { decodeInfo, INFO_BYTES } from "../../../../src/wire/throttr/info.ts";
import { RequestType } from "../../../../src/wire/throttr/request-types.ts";
import type { Sent } from "../pipe.ts";

export type ListKind = "channels" | "connections" | "info";

/** An answer: names or IDs in their order, and figures by name. */
export interface List {
  readonly rows: readonly string[];
  /** Subscriptions by channel; of INFO, sums of the whole namespace. */
  readonly figures: ReadonlyMap<string, number>;
}

/** Figures of INFO that are about connections. */
export const INFO_FIGURES = ["connections", "subscriptions", "channels"] as const;
export type InfoFigure = (typeof INFO_FIGURES)[number];

/** What a row of a fragment has. */
interface Shape {
  readonly rowBytes: number;
  /** Names come behind the rows, and the first byte of a row is the length of its name. */
  readonly hasNames: boolean;
}

const CHANNELS: Shape = { rowBytes: 25, hasNames: true };
const CONNECTIONS: Shape = { rowBytes: 237, hasNames: false };
const SUBSCRIPTIONS_AT = 17;
const ID_BYTES = 16;
const HEADER_BYTES = 9;
const FRAGMENT_BYTES = 16;

const decoder = new TextDecoder();

export const listFrame = (kind: ListKind): Sent => ({
  frame: Uint8Array.of(RequestType[kind]),
  replyLength: (bytes, at, end) => {
    if (kind !== "info") return walk(bytes, at, end, SHAPES[kind], () => {});
    const length = bytes[at] === 1 ? 1 + INFO_BYTES : 1;
    return at + length > end ? 0 : length;
  },
});

/** Null for an INFO that failed. */
export function readList(kind: ListKind, reply: Uint8Array): List | null {
  const rows: string[] = [];
  const figures = new Map<string, number>();
  if (kind === "info") {
    if (reply[0] !== 1) return null;
    const info = decodeInfo(reply.subarray(1));
    for (const name of INFO_FIGURES) figures.set(name, info[name]);
    return { rows, figures };
  }
  const view = new DataView(reply.buffer, reply.byteOffset, reply.byteLength);
  walk(reply, 0, reply.length, SHAPES[kind], (at, name) => {
    if (kind === "connections") {
      rows.push(Buffer.from(reply.subarray(at, at + ID_BYTES)).toString("hex"));
      return;
    }
    const channel = decoder.decode(name);
    rows.push(channel);
    figures.set(channel, Number(view.getBigUint64(at + SUBSCRIPTIONS_AT, true)));
  });
  return { rows, figures };
}

const SHAPES = { channels: CHANNELS, connections: CONNECTIONS } as const;

/**
 * Visits the rows of an answer of fragments.
 *
 * @returns its length; 0 while it is not complete
 */
function walk(
  bytes: Uint8Array,
  at: number,
  end: number,
  { rowBytes, hasNames }: Shape,
  visit: (rowAt: number, name: Uint8Array) => void,
): number {
  if (at + HEADER_BYTES > end) return 0;
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const fragments = Number(view.getBigUint64(at + 1, true));
  let next = at + HEADER_BYTES;
  for (let i = 0; i < fragments; i++) {
    if (next + FRAGMENT_BYTES > end) return 0;
    let rowAt = next + FRAGMENT_BYTES;
    const rowsEnd = rowAt + Number(view.getBigUint64(next + 8, true)) * rowBytes;
    if (rowsEnd > end) return 0;
    let nameAt = rowsEnd;
    for (; rowAt < rowsEnd; rowAt += rowBytes) {
      const nameEnd = nameAt + (hasNames ? bytes[rowAt]! : 0);
      if (nameEnd > end) return 0;
      visit(rowAt, bytes.subarray(nameAt, nameEnd));
      nameAt = nameEnd;
    }
    next = nameAt;
  }
  return next - at;
}
