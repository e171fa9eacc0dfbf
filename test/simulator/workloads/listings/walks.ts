/** All ways to list what a namespace has, a page at a time. */
import {
  Command,
  EXPORT_ROW_BYTES,
  RecordKind,
  SCAN_ROW_BYTES,
  ScanOption,
} from "../../../../src/wire/edge/command.ts";
import { reading } from "../../../../src/wire/edge/on-key.ts";
import type { CommandReply, Operation } from "../../../../src/wire/edge/operation.ts";
import type { ListedRecord } from "../../../../src/wire/edge/operations.ts";
import type { ExportedKey, ExportedRecord } from "../../../../src/wire/edge/transfer.ts";
import { listRowBytes, readFragments } from "../../../../src/wire/throttr/fragments.ts";
import { RequestType } from "../../../../src/wire/throttr/request-types.ts";
import type { Collection, ListedPage, ListedRow, ListingName } from "../../checks/listing-calls.ts";
import { textOf } from "../records/commands.ts";
import {
  resultOf,
  type CallName,
  type Failed,
  type NamedCall,
  type PortWay,
  type ResultOf,
  type Way,
} from "./ways.ts";

/** What a page is asked for. */
export interface PageRequest {
  readonly prefix: string;
  readonly limit: number;
  /** Of an export. */
  readonly bytesMax: number;
  /** Of the page before, in the form of the way that lists; null for the first page. */
  readonly cursor: unknown;
}

/** The means of a client. */
export interface Means {
  /** Of calls: another one may take the next page. */
  way(): Way;
  /** Of frames. */
  readonly port: PortWay;
  /** Of JSON routes. */
  getJson(path: string): Promise<{ readonly result: unknown } | Failed>;
}

export interface Page extends ListedPage {
  readonly next: unknown;
}

export interface Walk {
  readonly by: ListingName;
  readonly collection: Collection;
  /** Whether it lists a part of the keys: LIST and STATS list all. */
  readonly hasPrefix: boolean;
  page(means: Means, request: PageRequest): Promise<Page | Failed>;
}

/** Of a row of LIST: what is in front of its kind, its unit and its time, and its bytes used. */
const LIST_BYTES_AT = 11;
/** Of STATS: key size, and four u64. */
const STATS_ROW_BYTES = 33;
const VALUE_BYTES = 8;
const COUNTER_BYTES = 8;
const STATUS_SUCCESS = 1;

/** @param isOurs rows of other workloads are left out */
export function walksFor(isOurs: (key: string) => boolean): readonly Walk[] {
  const pageOf = (
    rows: readonly ListedRow[],
    next: unknown,
    more: { readonly cursor?: Uint8Array | null; readonly fault?: string | null } = {},
  ): Page => ({
    rows: rows.filter(({ key }) => isOurs(key)),
    next,
    cursor: more.cursor ?? null,
    fault: more.fault ?? null,
  });
  return [
    {
      by: "LIST",
      collection: "records",
      hasPrefix: false,
      page: async ({ port }) =>
        await framesOf(port, RequestType.list, listRowBytes(VALUE_BYTES), (key, row) => ({
          key,
          kind: row.getUint8(1) === 0 ? "counter" : "buffer",
          // A counter has the bytes of a quota.
          ...(row.getUint8(1) === 0
            ? {}
            : { bytes: Number(row.getBigUint64(LIST_BYTES_AT, true)) }),
        })).then((rows) => ("failed" in rows ? rows : pageOf(rows, null))),
    },
    {
      by: "STATS",
      collection: "records",
      hasPrefix: false,
      page: async ({ port }) =>
        await framesOf(port, RequestType.stats, STATS_ROW_BYTES, (key) => ({ key })).then((rows) =>
          "failed" in rows ? rows : pageOf(rows, null),
        ),
    },
    {
      by: "SCAN",
      collection: "records",
      hasPrefix: true,
      page: async (means, request) => {
        const { prefix, limit } = request;
        const options = { prefix, limit, ...cursorOf(request) };
        const answer = await callOne(means.way(), { name: "list", given: [options] });
        if ("failed" in answer) return answer;
        const { records, cursor } = answer.result;
        return pageOf(records.map(rowOf), cursor, { cursor, fault: tooMany(records, limit) });
      },
    },
    {
      by: "SCAN by key",
      collection: "records",
      hasPrefix: true,
      page: async ({ port: { port } }, { prefix, limit, cursor: after }) => {
        const operation = scanByKey(prefix, limit, after as Uint8Array | null);
        const [answer] = await port.exchange([operation]);
        const read = resultOf(port, operation, answer!);
        if ("failed" in read) return read;
        const { records, isLast } = read.result;
        const keys = records.map(({ key }) => Buffer.from(key));
        const isOrdered = keys.every((key, i) => i === 0 || keys[i - 1]!.compare(key) < 0);
        const fault = isOrdered ? tooMany(records, limit) : "is not in the order of its keys";
        return pageOf(records.map(rowOf), isLast ? null : keys.at(-1)!, { fault });
      },
    },
    {
      by: "/v1/records",
      collection: "records",
      hasPrefix: true,
      page: async (means, { prefix, limit, cursor: after }) => {
        const answer = await means.getJson(
          `/v1/records?${queryOf({ prefix, limit, cursor: after })}`,
        );
        if ("failed" in answer) return answer;
        const { records, cursor } = answer.result as JsonPage;
        return pageOf(records.map(rowOfJson), cursor, {
          cursor: cursor === null ? null : Uint8Array.from(Buffer.from(cursor, "base64url")),
          fault: tooMany(records, limit),
        });
      },
    },
    ...(["records", "pairs"] as const).map((collection): Walk => ({
      by: "EXPORT",
      collection,
      hasPrefix: true,
      page: async (means, request) => {
        const { prefix, limit, bytesMax } = request;
        const pairs = collection === "pairs";
        const options = { prefix, limit, bytesMax, pairs, ...cursorOf(request) };
        const answer = await callOne(means.way(), { name: "exportPage", given: [options] });
        if ("failed" in answer) return answer;
        const { records, cursor } = answer.result;
        const bytes = records.reduce((sum, record) => sum + exportedBytes(record), 0);
        const isTooLarge = records.length > 1 && bytes > bytesMax;
        return pageOf(records.map(rowOfExported), cursor, {
          fault: isTooLarge ? `has ${bytes} bytes, not ${bytesMax}` : tooMany(records, limit),
        });
      },
    })),
    {
      by: "EXPORT_LEASES",
      collection: "leases",
      hasPrefix: true,
      page: async (means, request) => {
        const { prefix, limit, bytesMax } = request;
        const options = { prefix, limit, bytesMax, ...cursorOf(request) };
        const answer = await callOne(means.way(), { name: "exportLeases", given: [options] });
        if ("failed" in answer) return answer;
        const { leases, cursor } = answer.result;
        const rows = leases.map(({ name, leaseId }) => ({ key: `${textOf(name)}/${leaseId}` }));
        return pageOf(rows, cursor, { fault: tooMany(rows, limit) });
      },
    },
    {
      by: "SEMAPHORES",
      collection: "semaphores",
      hasPrefix: true,
      page: async (means, request) => {
        const { prefix, limit } = request;
        const options = { prefix, limit, ...cursorOf(request) };
        const answer = await callOne(means.way(), { name: "semaphores", given: [options] });
        if ("failed" in answer) return answer;
        const { semaphores, cursor } = answer.result;
        const rows = semaphores.map(({ name }) => ({ key: textOf(name) }));
        return pageOf(rows, cursor, { fault: tooMany(rows, limit) });
      },
    },
    {
      by: "HOLDERS",
      collection: "leases",
      hasPrefix: true,
      page: async (means, request) => {
        const { prefix, limit } = request;
        const name = prefix.slice(0, -1);
        const options = { limit, ...cursorOf(request) };
        const answer = await callOne(means.way(), { name: "holders", given: [name, options] });
        if ("failed" in answer) return answer;
        const { holders, cursor } = answer.result;
        const rows = holders.map(({ id }) => ({ key: `${name}/${id}` }));
        return pageOf(rows, cursor, { fault: tooMany(rows, limit) });
      },
    },
  ];
}

/** A page of JSON. */
interface JsonPage {
  readonly records: readonly {
    readonly key: string;
    readonly kind: "counter" | "buffer";
    readonly quota?: string;
    readonly bytes?: number;
  }[];
  readonly cursor: string | null;
}

async function callOne<Name extends CallName>(
  way: Way,
  call: NamedCall<Name>,
): Promise<{ readonly result: ResultOf<Name> } | Failed> {
  const [answer] = await way.call([call]);
  return answer!;
}

const cursorOf = ({ cursor }: PageRequest): { readonly cursor?: never } =>
  cursor === null ? {} : { cursor: cursor as never };

function queryOf(fields: Readonly<Record<string, unknown>>): string {
  const given = Object.entries(fields).filter(([, value]) => value !== null);
  return new URLSearchParams(given.map(([name, value]) => [name, String(value)])).toString();
}

const tooMany = (rows: readonly unknown[], limit: number): string | null =>
  rows.length > limit ? `has ${rows.length} rows, not ${limit}` : null;

/** A page of SCAN whose cursor is the last key of the page before. */
interface PageByKey {
  readonly records: readonly ListedRecord[];
  readonly isLast: boolean;
}

/** SCAN without option 2. */
const scanByKey = (prefix: string, limit: number, after: Uint8Array | null): Operation<PageByKey> =>
  reading(Command.scan, prefix, readPageByKey, (out) => {
    out.u16(limit);
    out.u8(after === null ? 0 : ScanOption.isBehind);
    if (after !== null) out.copy(after);
  });

function readPageByKey({ bytes, view }: CommandReply): PageByKey {
  const records: ListedRecord[] = [];
  for (let at = 1; at < bytes.length;) {
    const keyAt = at + SCAN_ROW_BYTES;
    const keyEnd = keyAt + bytes[at]!;
    const isCounter = bytes[at + 1] === RecordKind.counter;
    const value = view.getBigUint64(at + 11, true);
    records.push({
      key: bytes.slice(keyAt, keyEnd),
      kind: isCounter ? "counter" : "buffer",
      expiresAtMs: Number(view.getBigUint64(at + 3, true) / 1_000_000n),
      quota: isCounter ? value : null,
      bytes: isCounter ? null : Number(value),
    });
    at = keyEnd;
  }
  return { records, isLast: bytes[0] === 1 };
}

/** The rows of an answer in fragments. */
async function framesOf(
  { port }: PortWay,
  type: number,
  rowBytes: number,
  rowAs: (key: string, row: DataView) => ListedRow,
): Promise<readonly ListedRow[] | Failed> {
  const operation: Operation<readonly ListedRow[] | null> = {
    type,
    frame: Uint8Array.of(type),
    isRead: true,
    isRepeatable: true,
    replyLength: (bytes, at, end) => fragmentsLength(bytes, at, end, rowBytes),
    read: (reply) => {
      if (reply[0] !== STATUS_SUCCESS) return null;
      const answer = reply.subarray(1);
      return [...readFragments(answer, rowBytes)].map(({ rowAt, name }) =>
        rowAs(textOf(name), new DataView(answer.buffer, answer.byteOffset + rowAt, rowBytes)),
      );
    },
  };
  const [answer] = await port.exchange([operation]);
  const read = resultOf(port, operation, answer!);
  if ("failed" in read) return read;
  return read.result ?? { failed: "refused", code: "status 00" };
}

/** Length of a reply: a status, the number of fragments, and the fragments; 0 while it is not complete. */
function fragmentsLength(bytes: Uint8Array, from: number, end: number, rowBytes: number): number {
  if (from >= end) return 0;
  if (bytes[from] !== STATUS_SUCCESS) return 1;
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  let at = from + 1 + 8;
  if (at > end) return 0;
  const fragments = Number(view.getBigUint64(from + 1, true));
  for (let i = 0; i < fragments; i++) {
    if (at + 16 > end) return 0;
    const rows = Number(view.getBigUint64(at + 8, true));
    const rowsAt = at + 16;
    at = rowsAt + rows * rowBytes;
    if (at > end) return 0;
    for (let row = 0; row < rows; row++) at += bytes[rowsAt + row * rowBytes]!;
  }
  return at > end ? 0 : at - from;
}

const rowOf = ({ key, kind, quota, bytes }: ListedRecord): ListedRow => ({
  key: textOf(key),
  kind,
  ...(quota === null ? {} : { quota }),
  ...(bytes === null ? {} : { bytes }),
});

const rowOfJson = ({ key, kind, quota, bytes }: JsonPage["records"][number]): ListedRow => ({
  key,
  kind,
  ...(quota === undefined ? {} : { quota: BigInt(quota) }),
  ...(bytes === undefined ? {} : { bytes }),
});

const rowOfExported = (record: ExportedRecord): ListedRow => ({
  key: textOfKey(record.key),
  kind: record.kind,
  ...(record.kind === "counter" ? { quota: record.quota } : { value: textOf(record.value) }),
});

const textOfKey = (key: ExportedKey): string =>
  key instanceof Uint8Array ? textOf(key) : `${textOf(key[0])}/${textOf(key[1])}`;

function exportedBytes(record: ExportedRecord): number {
  const { key } = record;
  const keyBytes = key instanceof Uint8Array ? key.length : 2 + key[0].length + key[1].length;
  const valueBytes = record.kind === "counter" ? COUNTER_BYTES : record.value.length;
  return EXPORT_ROW_BYTES + keyBytes + valueBytes;
}
