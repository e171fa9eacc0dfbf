/**
 * What doors, groups of channels and Hubs tell each other of many channels in one call.
 *
 *     publications = (name size u8, name, length u32, payload)*
 *     deliveries   = (name size u8, name, sequence f64, bytes u32, messages)*
 *     changes      = (join u8, name size u8, name)*
 *
 * Little-endian; `messages` as in `messages.ts`. A sequence of -1 stands for none. One message has to be
 * found without an object for each: a caller may publish to any number of names.
 */
import { binaryString, compareBytes, type ByteWriter } from "./bytes.ts";

const NO_SEQUENCE = -1;
/** Of a delivery, between the name and the messages. */
const DELIVERY_FIELDS_BYTES = 12;

/** Bytes of a publication without name and payload. */
export const PUBLICATION_BYTES = 5;

/** Where a name lies. */
export interface NameAt {
  readonly bytes: Uint8Array;
  readonly at: number;
  readonly length: number;
}

export function writePublication(
  out: ByteWriter,
  { bytes, at, length }: NameAt,
  payload: Uint8Array,
  payloadAt: number,
  payloadLength: number,
): void {
  out.u8(length);
  out.copy(bytes, at, at + length);
  out.u32(payloadLength);
  out.copy(payload, payloadAt, payloadAt + payloadLength);
}

/** Visits each message in the order of publication. */
export function forEachPublication(
  publications: Uint8Array,
  visit: (channel: string, payloadAt: number, payloadLength: number) => void,
): void {
  const view = viewOf(publications);
  let channel = "";
  let channelAt = 0;
  for (let at = 0; at < publications.length;) {
    const size = publications[at]!;
    const nameAt = at + 1;
    // Messages in a row often go to one channel: its name is made a string once.
    if (compareBytes(publications, nameAt, size, publications, channelAt, channel.length) !== 0) {
      channel = binaryString(publications, nameAt, size);
      channelAt = nameAt;
    }
    at = nameAt + size;
    const length = view.getUint32(at, true);
    visit(channel, at + 4, length);
    at += 4 + length;
  }
}

/** Begins the messages of one channel; they follow, and then `endDelivery`. */
export function beginDelivery(out: ByteWriter, name: Uint8Array): void {
  out.u8(name.length);
  out.copy(name);
  out.reserve(DELIVERY_FIELDS_BYTES);
}

/** Where the messages begin of the only delivery that a writer has. */
export function messagesAt(nameLength: number): number {
  return 1 + nameLength + DELIVERY_FIELDS_BYTES;
}

/** Ends the only delivery that a writer has. */
export function endDelivery(out: ByteWriter, nameLength: number, sequence: number | null): void {
  const at = 1 + nameLength;
  out.view.setFloat64(at, sequence ?? NO_SEQUENCE, true);
  out.view.setUint32(at + 8, out.length - messagesAt(nameLength), true);
}

/** Visits the messages of each channel. */
export function forEachDelivery(
  deliveries: Uint8Array,
  visit: (channel: string, sequence: number | null, messages: Uint8Array) => void,
): void {
  const view = viewOf(deliveries);
  for (let at = 0; at < deliveries.length;) {
    const size = deliveries[at]!;
    const channel = binaryString(deliveries, at + 1, size);
    const sequence = view.getFloat64(at + 1 + size, true);
    const bytes = view.getUint32(at + 1 + size + 8, true);
    at += messagesAt(size);
    const messages = deliveries.subarray(at, at + bytes);
    visit(channel, sequence === NO_SEQUENCE ? null : sequence, messages);
    at += bytes;
  }
}

/** A Hub has its first subscriber of a channel, or has lost its last one. */
export function writeChange(out: ByteWriter, isJoin: boolean, name: Uint8Array): void {
  out.u8(isJoin ? 1 : 0);
  out.u8(name.length);
  out.copy(name);
}

export function forEachChange(
  changes: Uint8Array,
  visit: (channel: string, isJoin: boolean) => void,
): void {
  for (let at = 0; at < changes.length;) {
    const size = changes[at + 1]!;
    visit(binaryString(changes, at + 2, size), changes[at] === 1);
    at += 2 + size;
  }
}

function viewOf(bytes: Uint8Array): DataView {
  return new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}
