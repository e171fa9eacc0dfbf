/** A lane: one way for calls to reach a server, over a connection or by single exchanges. */
import type { Call } from "../calls/call.ts";

export interface Lane {
  /** Sends the calls of one turn. Each of them will be settled. */
  send(calls: readonly Call[]): void;
  /** Closes the lane, and fails all of its calls. */
  close(): void;
}
