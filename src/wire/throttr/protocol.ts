/**
 * A Throttr protocol as one door speaks it: a dialect and a value size.
 *
 * Source: protocol reference, "Dialects and doors".
 */
import { Keyspace } from "../keyspace.ts";

/** Bytes of a dynamic field (quota, TTL, value size): uint8, uint16, uint32 or uint64. */
export type ValueSize = 1 | 2 | 4 | 8;

/** Dialects that this release serves. */
export type Dialect = "7.3" | "7.1" | "5" | "2" | "edge";

/** A protocol that a door speaks. `code` is its byte wherever a protocol is stored or sent. */
export interface Protocol {
  readonly code: number;
  readonly dialect: Dialect;
  readonly valueSize: ValueSize;
  /** Where its keys live. Dialect 2 has pairs (consumer, resource) in a keyspace of their own. */
  readonly keyspace: Keyspace;
  /** Bytes of the request id behind the type of a request and before every reply: 0, or 4 in dialect 2. */
  readonly requestIdBytes: number;
  /**
   * STAT and STATS report figures as of now. In the dialects of other Throttr servers they are those of the
   * last whole minute's end.
   */
  readonly hasLiveUsage: boolean;
  /** Largest value of a dynamic field as two u32 halves. */
  readonly maxHigh: number;
  readonly maxLow: number;
}

const DIALECT_CODES: Readonly<Record<Dialect, number>> = {
  "7.3": 0x10,
  "7.1": 0x20,
  "5": 0x30,
  "2": 0x40,
  edge: 0x50,
};

const VALUE_SIZE_NAMES: Readonly<Record<string, ValueSize>> = {
  uint8: 1,
  uint16: 2,
  uint32: 4,
  uint64: 8,
};

/** Dialects without sizes: their values are u64. `edge` is 7.3 and the commands of `wire/edge`. */
export const SIZELESS_DIALECTS: readonly Dialect[] = ["2", "edge"];
const SIZELESS_VALUE_SIZE = 8;

export const SIZED_DIALECTS: readonly Dialect[] = ["7.3", "7.1", "5"];
export const VALUE_SIZES = Object.keys(VALUE_SIZE_NAMES);

const protocols = new Map<number, Protocol>();
for (const dialect of SIZED_DIALECTS) {
  for (const valueSize of Object.values(VALUE_SIZE_NAMES)) add(dialect, valueSize);
}
for (const dialect of SIZELESS_DIALECTS) add(dialect, SIZELESS_VALUE_SIZE);

function add(dialect: Dialect, valueSize: ValueSize): void {
  const isPair = dialect === "2";
  const code = DIALECT_CODES[dialect] | valueSize;
  protocols.set(code, {
    code,
    dialect,
    valueSize,
    keyspace: isPair ? Keyspace.throttrPairs : Keyspace.throttr,
    requestIdBytes: isPair ? 4 : 0,
    hasLiveUsage: dialect === "edge",
    maxHigh: valueSize === 8 ? 0xffffffff : 0,
    maxLow: valueSize >= 4 ? 0xffffffff : 2 ** (8 * valueSize) - 1,
  });
}

/** The protocol with a code, or undefined for a code that this release does not know. */
export function protocolByCode(code: number): Protocol | undefined {
  return protocols.get(code);
}

/**
 * The protocol behind the names that paths use.
 *
 * @param dialect `7.3`, `7.1`, `5`, `2` or `edge`
 * @param size `uint8`, `uint16`, `uint32` or `uint64`; undefined for a dialect without sizes
 * @returns undefined when either name is unknown
 */
export function protocolByName(dialect: string, size: string | undefined): Protocol | undefined {
  if (!Object.hasOwn(DIALECT_CODES, dialect)) return undefined;
  const isSizeless = SIZELESS_DIALECTS.includes(dialect as Dialect);
  if (isSizeless !== (size === undefined)) return undefined;
  if (size !== undefined && !Object.hasOwn(VALUE_SIZE_NAMES, size)) return undefined;
  const valueSize = size === undefined ? SIZELESS_VALUE_SIZE : VALUE_SIZE_NAMES[size]!;
  return protocols.get(DIALECT_CODES[dialect as Dialect] | valueSize);
}
