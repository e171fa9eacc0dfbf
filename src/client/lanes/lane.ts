/** A lane: a way for calls to a server. */
import type { Call } from "../calls/call.ts";

export interface Lane {
  /** Sends the calls of one turn. Each of them is settled, sooner or later. */
  send(calls: readonly Call[]): void;
  /** Ends it, and all of its calls. */
  close(): void;
}
