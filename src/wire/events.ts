/**
 * What the Hub tells the door of Server-Sent Events over their internal WebSocket, as replies of
 * `wire/bridge.ts`: records back to back.
 *
 *     record = sequence f64, length u32, payload
 *     start  = sequence f64, 0xffffffff: the listener has all messages up to this one
 *
 * Little-endian. A sequence of -1 stands for none.
 */
import { ByteWriter } from "./bytes.ts";
import { forEachMessage } from "./messages.ts";

const HEADER_BYTES = 12;
const START = 0xffffffff;
const NO_SEQUENCE = -1;

export interface EventRecord {
  /** Null in a channel whose messages are not numbered. */
  readonly sequence: number | null;
  /** Null for the record that says where the listener starts. */
  readonly payload: Uint8Array | null;
}

export function startRecord(sequence: number): Uint8Array {
  const out = new ByteWriter(HEADER_BYTES);
  writeHeader(out, sequence, START);
  return out.take();
}

/** The records of messages that are numbered from `sequence` on. */
export function eventRecords(sequence: number | null, messages: Uint8Array): Uint8Array {
  const out = new ByteWriter(messages.length + 64);
  let next = sequence;
  forEachMessage(messages, (at, length) => {
    writeHeader(out, next ?? NO_SEQUENCE, length);
    out.copy(messages, at, at + length);
    if (next !== null) next++;
  });
  return out.take();
}

function writeHeader(out: ByteWriter, sequence: number, length: number): void {
  const at = out.reserve(HEADER_BYTES);
  out.view.setFloat64(at, sequence, true);
  out.view.setUint32(at + 8, length, true);
}

export function parseRecords(bytes: Uint8Array): EventRecord[] {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const records: EventRecord[] = [];
  for (let at = 0; at < bytes.length;) {
    const sequence = view.getFloat64(at, true);
    const length = view.getUint32(at + 8, true);
    at += HEADER_BYTES;
    const isStart = length === START;
    const end = isStart ? at : at + length;
    records.push({
      sequence: sequence === NO_SEQUENCE ? null : sequence,
      payload: isStart ? null : bytes.subarray(at, end),
    });
    at = end;
  }
  return records;
}
