/**
 * How connections end that their clients end, in runs in which nothing goes wrong. Written from docs/guarantees.md ("The end of a
 * connection"): the server executes the writes that came before, and a TCP peer that closes only its sending half gets all its replies.
 */
import type { Violation } from "./history.ts";

/** The end of a connection that its client had ended, and that was open. */
export interface Goodbye {
  /** As in `Call.connection`. */
  readonly connection: number;
  readonly kind: "websocket" | "tcp" | "gateway";
  /** What the client got as the end: of a WebSocket, the code and the reason of the close. */
  readonly reason: string;
  /** Requests that have no reply. */
  readonly unanswered: number;
  /** The server has closed a connection by itself meanwhile, which may be this one: it met a limit, or found all Hubs full. */
  readonly mayBeClosed: boolean;
}

/** The server has executed so long after the end of a connection what had come over it, in ms. */
export const TAKEN_MS = 10_000;

/** The answer to the close of a WebSocket's client. The server closes with another code by itself. */
const ANSWERED = "1000 ";

/** Whether the server has taken all that came before the goodbye, though it answers nothing of that any more: writes are executed. */
export const isTaken = ({ kind, reason }: Goodbye): boolean =>
  kind === "websocket" && reason.startsWith(ANSWERED);

/** TCP, also behind a gateway: only the sending half is closed. */
export function checkGoodbyes(goodbyes: readonly Goodbye[]): Violation[] {
  return goodbyes
    .filter(
      ({ kind, unanswered, mayBeClosed }) => kind !== "websocket" && unanswered > 0 && !mayBeClosed,
    )
    .map(({ connection, kind, reason, unanswered }) => ({
      promise: "The end of a connection",
      subject: `${kind} ${connection}`,
      message: `its client closed its sending half, and ${unanswered} requests before that got no reply: ${reason}`,
    }));
}
