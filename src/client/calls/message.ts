/** Messages: calls that travel together, within the limits of a server for one body. */
import { Command } from "../../wire/edge/command.ts";
import { RequestType } from "../../wire/throttr/request-types.ts";
import type { Call } from "./call.ts";

/** Bytes of a message, unless one call alone has more. Servers accept 8 MiB unless configured otherwise. */
export const MESSAGE_BYTES_MAX = 1 << 20;
/** Runs, calls in a row that the same kind of object answers, in one message. Servers accept 500. */
const RUNS_MAX = 100;

/** Requests on all of a namespace: each is a run of its own. The table of all layouts would be most of a small client. */
const ALONE: ReadonlySet<number> = new Set([
  Command.scan,
  Command.remove,
  Command.export,
  Command.exportLeases,
  Command.semaphores,
  Command.holders,
  Command.limitAll,
  RequestType.info,
]);

/** Splits calls into messages, in order. */
export function messagesOf(calls: readonly Call[]): Call[][] {
  const messages: Call[][] = [];
  let message: Call[] = [];
  let bytes = 0;
  let runs = 0;
  let isPublishing: boolean | null = null;
  for (const call of calls) {
    const { frame, type } = call.operation;
    const isPublish = type === RequestType.publish;
    const isAlone = ALONE.has(type);
    bytes += frame.length;
    if (isAlone || isPublish !== isPublishing) runs++;
    isPublishing = isAlone ? null : isPublish;
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
