/**
 * The yrmcds protocol: its numbers and its words.
 *
 * The original server calls it its counter protocol, as opposed to its cache, which is not spoken here. Here a
 * counter is a kind of record, and what this protocol acquires and releases is a semaphore.
 *
 * Source: yrmcds protocol reference, "General format of a packet", "Opcodes", "Response status".
 */

export const REQUEST_MAGIC = 0x90;
export const REPLY_MAGIC = 0x91;

/** Magic, opcode, flags or status, reserved, body length u32, opaque u32; all big-endian. */
export const HEADER_BYTES = 12;

/** The length of a name is a u16. */
export const NAME_BYTES_MAX = 0xffff;

export const Opcode = {
  noop: 0x00,
  get: 0x01,
  acquire: 0x02,
  release: 0x03,
  stats: 0x10,
  dump: 0x11,
  /** Opcode of the reply to an unknown opcode. */
  unknown: 0x12,
} as const;

export const Status = {
  success: 0x00,
  notFound: 0x01,
  invalidArguments: 0x04,
  /** The semaphore would exceed the maximum that the request names. */
  resourceNotAvailable: 0x21,
  /** The connection does not hold that much. */
  notAcquired: 0x22,
  unknownCommand: 0x81,
  outOfMemory: 0x82,
} as const;
export type Status = (typeof Status)[keyof typeof Status];

const ERROR_TEXTS: readonly (readonly [status: Status, text: string])[] = [
  [Status.notFound, "Not found"],
  [Status.invalidArguments, "Invalid arguments"],
  [Status.resourceNotAvailable, "Resource not available"],
  [Status.notAcquired, "Not acquired"],
  [Status.unknownCommand, "Unknown command"],
  [Status.outOfMemory, "OutOfMemory"],
];

const errorBodies: Uint8Array[] = [];
for (const [status, text] of ERROR_TEXTS) {
  errorBodies[status] = Uint8Array.from(text, (character) => character.charCodeAt(0));
}

/** Body of a reply that is an error: ASCII. */
export function errorBody(status: number): Uint8Array {
  return errorBodies[status]!;
}
