/** What requests come as, and where their replies go. */
import type { Protocol } from "../wire/throttr/protocol.ts";
import type { Target } from "../wire/throttr/requests.ts";

/** A run: whole frames that one target answers. */
export interface Frames {
  readonly protocol: Protocol;
  readonly target: Target;
  readonly bytes: Uint8Array;
  readonly count: number;
}

/** Who gets the replies. */
export interface Sink {
  /** The next replies in order. `isLast` with the last ones: then every frame is answered. */
  reply(replies: Uint8Array, isLast: boolean): void;
  /** Null when there is room for more replies, else a promise of it. Rejected when there never will be. */
  room(): Promise<void> | null;
  /** A call failed; no reply follows. What was not answered may have been applied or not. */
  failed(error: unknown): void;
  /** The caller has published to a channel. */
  published(channel: string, payloadBytes: number): void;
}
