/** What clients ask and get, as lines of a trace. */
import type { Call, CallListener } from "./checks/history.ts";
import type { Trace } from "./kernel/trace.ts";

/** Longer texts are cut. */
const TEXT_MAX = 300;
const BYTES_SHOWN = 24;

/** Writes a line when a client asks, and one when it has an answer or gives up. */
export const callLines = (trace: Trace): CallListener => ({
  onBegin: (call) =>
    trace.say(clientOf(call), () => `asks over ${wayOf(call)}: ${textOf(call.operation)}`),
  onEnd: (call) =>
    trace.say(clientOf(call), () => `gets ${textOf(call.outcome)} for ${textOf(call.operation)}`),
});

const clientOf = ({ client }: Call<unknown, unknown>): string => `client ${client}`;

const wayOf = ({ door, connection }: Call<unknown, unknown>): string =>
  connection === null ? door : `${door} ${connection}`;

function textOf(value: unknown): string {
  if (typeof value === "string") return value;
  const text = JSON.stringify(value, readable);
  return text.length > TEXT_MAX ? `${text.slice(0, TEXT_MAX)}…` : text;
}

function readable(_: string, value: unknown): unknown {
  if (typeof value === "bigint") return `${value}n`;
  if (value === Infinity) return "Infinity";
  if (!(value instanceof Uint8Array)) return value;
  const hex = Buffer.from(value.subarray(0, BYTES_SHOWN)).toString("hex");
  return value.length > BYTES_SHOWN ? `${hex}… (${value.length} bytes)` : hex;
}
