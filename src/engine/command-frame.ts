/**
 * The frame of the command that is being executed: its key, and its body, which is read from front to back.
 *
 * One object is opened again for every command, so that reading a command allocates nothing. Format of commands:
 * `wire/edge/command.ts`.
 */
import { binaryString } from "../wire/bytes.ts";
import {
  Command,
  COMMAND_HEADER_BYTES,
  PAIR_COMMAND_HEADER_BYTES,
  TTL_BYTES,
} from "../wire/edge/command.ts";
import { Refusal, unitInvalid } from "./refusal.ts";
import { unitNs, type U64 } from "./time.ts";

export class CommandFrame {
  bytes: Uint8Array = new Uint8Array(0);
  view: DataView = new DataView(new ArrayBuffer(0));
  type = 0;
  flags = 0;
  keyAt = 0;
  keyBytes = 0;
  /** Where the part of the body begins that has not been read. */
  at = 0;
  /** Where the body ends. */
  end = 0;

  /** Opens the command in `bytes[at, end)`. */
  open(bytes: Uint8Array, at: number, end: number): void {
    if (bytes !== this.bytes) {
      this.bytes = bytes;
      this.view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    }
    this.type = bytes[at]!;
    this.flags = bytes[at + 1]!;
    if (this.type === Command.restorePair) {
      this.keyAt = at + PAIR_COMMAND_HEADER_BYTES;
      this.keyBytes = 2 + bytes[this.keyAt]! + bytes[this.keyAt + 1]!;
    } else {
      this.keyAt = at + COMMAND_HEADER_BYTES;
      this.keyBytes = bytes[at + 2]!;
    }
    this.at = this.keyAt + this.keyBytes;
    this.end = end;
  }

  /** The key, for messages. */
  get key(): string {
    return binaryString(this.bytes, this.keyAt, this.keyBytes);
  }

  /** Bytes of body that have not been read. */
  get bytesLeft(): number {
    return this.end - this.at;
  }

  /** @throws Refusal unless `bytes` to `bytesMax` bytes of body are left */
  need(bytes: number, bytesMax = bytes): void {
    const left = this.bytesLeft;
    if (left >= bytes && left <= bytesMax) return;
    throw new Refusal(
      `body_invalid: expected ${rangeText(bytes, bytesMax)} more bytes of body, got ${left}`,
    );
  }

  /** Passes a field and returns where it begins; it must be there. */
  take(bytes: number): number {
    const { at } = this;
    this.at += bytes;
    return at;
  }

  takeU8(): number {
    return this.bytes[this.at++]!;
  }

  /**
   * Reads a TTL into `duration` and returns its unit; it must be there.
   *
   * @throws Refusal for an unknown unit
   */
  takeTtl(duration: U64): number {
    const at = this.take(TTL_BYTES);
    const type = this.bytes[at]!;
    const unit = unitNs(type);
    if (unit === 0) throw new Refusal(unitInvalid(type));
    duration.setDuration(
      this.view.getUint32(at + 5, true),
      this.view.getUint32(at + 1, true),
      unit,
    );
    return type;
  }
}

function rangeText(from: number, to: number): string {
  if (to === Infinity) return `at least ${from}`;
  return from === to ? String(from) : `${from} to ${to}`;
}
