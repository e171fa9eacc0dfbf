/**
 * A Throttr protocol as one door speaks it: a dialect and a value size.
 *
 * Source: protocol reference, "Dialects and doors".
 */

/** Bytes of a dynamic field (quota, TTL, value size): uint8, uint16, uint32 or uint64. */
export type ValueSize = 1 | 2 | 4 | 8;

/** Dialects that this release serves. */
export type Dialect = "7.3" | "7.1" | "5";

/** What a door speaks. The `code` names it in one byte wherever a protocol is stored or sent. */
export interface Protocol {
  readonly code: number;
  readonly dialect: Dialect;
  readonly valueSize: ValueSize;
  /** Largest value of a dynamic field as two u32 halves. */
  readonly maxHigh: number;
  readonly maxLow: number;
}

const DIALECT_CODES: Readonly<Record<Dialect, number>> = { "7.3": 0x10, "7.1": 0x20, "5": 0x30 };

const VALUE_SIZE_NAMES: Readonly<Record<string, ValueSize>> = {
  uint8: 1,
  uint16: 2,
  uint32: 4,
  uint64: 8,
};

export const DIALECTS = Object.keys(DIALECT_CODES) as readonly Dialect[];
export const VALUE_SIZES = Object.keys(VALUE_SIZE_NAMES);

const protocols = new Map<number, Protocol>();
for (const dialect of DIALECTS) {
  for (const valueSize of Object.values(VALUE_SIZE_NAMES)) {
    const code = DIALECT_CODES[dialect] | valueSize;
    protocols.set(code, {
      code,
      dialect,
      valueSize,
      maxHigh: valueSize === 8 ? 0xffffffff : 0,
      maxLow: valueSize >= 4 ? 0xffffffff : 2 ** (8 * valueSize) - 1,
    });
  }
}

/** The protocol a code stands for, or undefined for a code that this release does not know. */
export function protocolByCode(code: number): Protocol | undefined {
  return protocols.get(code);
}

/**
 * The protocol behind the names that paths use.
 *
 * @param dialect `7.3`, `7.1` or `5`
 * @param size `uint8`, `uint16`, `uint32` or `uint64`
 * @returns undefined when either name is unknown
 */
export function protocolByName(dialect: string, size: string): Protocol | undefined {
  const valueSize = Object.hasOwn(VALUE_SIZE_NAMES, size) ? VALUE_SIZE_NAMES[size] : undefined;
  if (valueSize === undefined || !Object.hasOwn(DIALECT_CODES, dialect)) return undefined;
  return protocols.get(DIALECT_CODES[dialect as Dialect] | valueSize);
}
