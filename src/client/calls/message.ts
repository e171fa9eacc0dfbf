/** Messages: calls that travel together, within the limits of a server for one body. */
import { EDGE } from "../../wire/edge/operation.ts";
import { layoutsOf, Target } from "../../wire/throttr/requests.ts";
import type { Call } from "./call.ts";

/** Bytes of a message, unless one call alone has more. Servers accept 8 MiB unless configured otherwise. */
export const MESSAGE_BYTES_MAX = 1 << 20;
/** Runs, calls in a row that the same kind of object answers, in one message. Servers accept 500. */
const RUNS_MAX = 100;

const LAYOUTS = layoutsOf(EDGE);

/** Splits calls into messages, in order. */
export function messagesOf(calls: readonly Call[]): Call[][] {
  const messages: Call[][] = [];
  let message: Call[] = [];
  let bytes = 0;
  let runs = 0;
  let target: Target = Target.nobody;
  for (const call of calls) {
    const { frame, type } = call.operation;
    const next = LAYOUTS[type]!.target;
    bytes += frame.length;
    runs += next !== target || next === Target.namespace ? 1 : 0;
    target = next;
    const isFull = bytes > MESSAGE_BYTES_MAX || runs > RUNS_MAX;
    if (isFull && message.length > 0) {
      messages.push(message);
      message = [];
      bytes = frame.length;
      runs = 1;
    }
    message.push(call);
  }
  if (message.length > 0) messages.push(message);
  return messages;
}
