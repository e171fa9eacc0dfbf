/**
 * The request types and where their fields lie, per protocol.
 *
 * A request type is one row of `LAYOUTS`; scanner, dispatch and engine read the same row. Source:
 * protocol reference, "7.3 layouts", "7.1 to the letter", "Scopes".
 */
import type { Dialect, Protocol } from "./protocol.ts";

export const RequestType = {
  insert: 0x01,
  query: 0x02,
  update: 0x03,
  purge: 0x04,
  set: 0x05,
  get: 0x06,
} as const;

export const Attribute = { quota: 0, ttl: 1 } as const;
export const Change = { patch: 0, increase: 1, decrease: 2 } as const;

export const STATUS_SUCCESS = 0x01;
export const STATUS_FAILURE = 0x00;

/** The rights a request can need, as bits, so that a connection's rights fit one number. */
export const Scope = { read: 1, write: 2, publish: 4, subscribe: 8, admin: 16 } as const;
export type ScopeName = keyof typeof Scope;

/** Where the fields of a request lie. Offsets count from the type byte; 0 stands for "no such field". */
export interface Layout {
  readonly name: string;
  /** Bytes before the first variable field. */
  readonly headerBytes: number;
  /** Offset of the one-byte key size. The key begins at `headerBytes`. */
  readonly keySizeAt: number;
  /** Offset of the value size. The value follows the key. */
  readonly valueSizeAt: number;
  readonly valueSizeBytes: number;
  /** Bit of the scope that the request needs. */
  readonly scope: number;
}

type LayoutOf = (protocol: Protocol) => Layout;

const withKey =
  (name: string, keySizeAt: (n: number) => number, scope: number): LayoutOf =>
  ({ valueSize }) => ({
    name,
    headerBytes: keySizeAt(valueSize) + 1,
    keySizeAt: keySizeAt(valueSize),
    valueSizeAt: 0,
    valueSizeBytes: 0,
    scope,
  });

const insert = withKey("INSERT", (n) => 1 + n + 1 + n, Scope.write);
const query = withKey("QUERY", () => 1, Scope.read);
const update = withKey("UPDATE", (n) => 3 + n, Scope.write);
const purge = withKey("PURGE", () => 1, Scope.write);
const get = withKey("GET", () => 1, Scope.read);

const set: LayoutOf = ({ valueSize, dialect }) => {
  const valueSizeBytes = dialect === "7.1" ? 1 : valueSize;
  return {
    name: "SET",
    headerBytes: 3 + valueSize + valueSizeBytes,
    keySizeAt: 2 + valueSize,
    valueSizeAt: 3 + valueSize,
    valueSizeBytes,
    scope: Scope.write,
  };
};

const COUNTERS: readonly (readonly [number, LayoutOf])[] = [
  [RequestType.insert, insert],
  [RequestType.query, query],
  [RequestType.update, update],
  [RequestType.purge, purge],
];
const BUFFERS: readonly (readonly [number, LayoutOf])[] = [
  [RequestType.set, set],
  [RequestType.get, get],
];
const LAYOUTS: Readonly<Record<Dialect, readonly (readonly [number, LayoutOf])[]>> = {
  "7.3": [...COUNTERS, ...BUFFERS],
  "7.1": [...COUNTERS, ...BUFFERS],
  "5": COUNTERS,
};

interface Requests {
  readonly layouts: readonly (Layout | undefined)[];
  readonly scopes: number;
}

const requests = new Map<number, Requests>();

function requestsOf(protocol: Protocol): Requests {
  let known = requests.get(protocol.code);
  if (known === undefined) {
    const layouts = Array.from<Layout | undefined>({ length: 256 });
    let scopes = 0;
    for (const [type, layoutOf] of LAYOUTS[protocol.dialect]) {
      const layout = layoutOf(protocol);
      layouts[type] = layout;
      scopes |= layout.scope;
    }
    known = { layouts, scopes };
    requests.set(protocol.code, known);
  }
  return known;
}

/** The layouts of a protocol, indexed by request type; undefined for a type it does not know. */
export function layoutsOf(protocol: Protocol): readonly (Layout | undefined)[] {
  return requestsOf(protocol).layouts;
}

/** The scopes, as bits, that the requests of a protocol need. */
export function scopesOf(protocol: Protocol): number {
  return requestsOf(protocol).scopes;
}
