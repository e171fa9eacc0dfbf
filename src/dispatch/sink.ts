/**
 * Between a door and Dispatch: requests come as runs of frames, and their replies go to a sink.
 *
 * Sink is what all doors have in common: a connection that lives for weeks, an HTTP response that is streamed, an RPC
 * call that waits for the whole.
 */
import type { AnyProtocol } from "../wire/protocols.ts";
import type { Protocol } from "../wire/throttr/protocol.ts";
import type { Target } from "../wire/throttr/requests.ts";
import type { Holder } from "./holder.ts";

/** A run: whole frames that one target answers. */
export interface Frames<P extends AnyProtocol = Protocol> {
  readonly protocol: P;
  /** What answers the run: shards, channels, the namespace, or the connection itself. */
  readonly target: Target;
  /** Back to back; the door may reuse its buffer only when the run is answered. */
  readonly bytes: Uint8Array;
  /** Frames in `bytes`, at least one. */
  readonly count: number;
  /** The door has checked the rights to each frame. Else Dispatch does, and answers what is not allowed. */
  readonly isAllowed?: boolean;
  /** Who holds what frames of the yrmcds protocol acquire. */
  readonly holder?: Holder;
}

/** A run of any protocol. */
export type AnyFrames = Frames<AnyProtocol>;

/** Whether a run is of a Throttr protocol. */
export function isThrottr(frames: AnyFrames): frames is Frames {
  return frames.protocol.dialect !== "yrmcds";
}

/** Who gets the replies. */
export interface Sink {
  /** The next replies in order. `isLast` with the last ones: then every frame is answered. */
  reply(replies: Uint8Array, isLast: boolean): void;
  /**
   * False once the caller has gone: requests that only read are not executed any more, and replies are dropped. It may
   * change at any time, so it is asked before each call.
   */
  readonly hasReader: boolean;
  /**
   * Null when there is room for more replies, else a promise of it; rejected when there never will be. Null rather than
   * a resolved promise: a connection with room, which is the rule, shall not wait for a microtask with each run.
   */
  room(): Promise<void> | null;
  /** A call failed; no reply follows. What was not answered may have been applied or not. */
  fail(error: unknown): void;
  /** Counts what the caller has published to a channel, for the row that CONNECTIONS has of it. */
  countPublished(channel: string, payloadBytes: number): void;
}
