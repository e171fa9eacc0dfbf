/** Commands on semaphores as bytes, written from the text of their format, and pages of their replies. */
import { Command } from "../../../src/wire/edge/command.ts";
import { bytesOf, concat, u16, u32 } from "./bytes.ts";
import { commandFrame, ttlBytes, type CommandOptions, type Ttl } from "./commands.ts";

/** Sixteen bytes for a number. */
export const idOf = (number: number): Uint8Array => new Uint8Array(16).fill(number + 1);

/** The same as text. */
export const uuidOfNumber = (number: number): string => {
  const pair = (number + 1).toString(16).padStart(2, "0");
  return [4, 2, 2, 2, 6].map((count) => pair.repeat(count)).join("-");
};

export const acquire = (
  name: string,
  id: Uint8Array,
  resources: number,
  maximum: number,
  ttl: Ttl,
  options?: CommandOptions,
) =>
  commandFrame(
    Command.acquire,
    name,
    concat([id, u32(resources), u32(maximum), ttlBytes(ttl)]),
    options,
  );
export const renew = (name: string, id: Uint8Array, ttl: Ttl, options?: CommandOptions) =>
  commandFrame(Command.renew, name, concat([id, ttlBytes(ttl)]), options);
export const release = (name: string, id: Uint8Array, options?: CommandOptions) =>
  commandFrame(Command.release, name, id, options);
export const inspect = (name: string, options?: CommandOptions) =>
  commandFrame(Command.semaphore, name, undefined, options);

const pageBody = (rowsMax: number, after: Uint8Array | null): Uint8Array =>
  concat([u16(rowsMax), Uint8Array.of(after === null ? 0 : 1), after ?? new Uint8Array(0)]);

/** @param after one character a byte; null for the first page */
export const semaphores = (prefix: string, rowsMax: number, after: string | null = null) =>
  commandFrame(
    Command.semaphores,
    prefix,
    pageBody(rowsMax, after === null ? null : bytesOf(after)),
  );
export const holders = (name: string, rowsMax: number, after: Uint8Array | null = null) =>
  commandFrame(Command.holders, name, pageBody(rowsMax, after));
