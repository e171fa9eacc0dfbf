/** Why the server closes a connection. The codes are listed in docs/reference.md; clients tell them apart by them. */

/** One way for a connection to end. */
export interface Ending {
  /** WebSocket close code. */
  readonly code: number;
  /** Begins with a stable code, and has at most 123 bytes of ASCII: more does not fit a close frame. */
  readonly reason: string;
}

/** @param code of the WebSocket protocol: 1003 and 1009 are the client's fault, 1011 the server's, 1013 may pass */
const ending = (code: number, reason: string): Ending => ({ code, reason });

/** The peer has ended the connection. */
export const FINISHED = ending(1000, "");

/** A reset of the object has lost what it had in memory of a frame: what follows can't be told from a new one. */
export const FRAME_LOST = ending(1011, "frame_lost: the server restarted in the middle of a frame");

/** Text is for bridges; the runtime answers `ping` itself. */
export const TEXT_MESSAGE = ending(
  1003,
  "text_message: send frames as binary messages; the only text message may be ping",
);

/** A gateway's word is checked, as it comes from outside. */
export const BRIDGE_INVALID = ending(
  1008,
  "bridge_invalid: expected end, or drained N, where N is at most the reply bytes not yet drained",
);

export const TOKEN_EXPIRED = ending(
  1008,
  "token_expired: the token of this connection has expired",
);

/** The Directory has told the Hub. What was under way may have been executed or not. */
export const TOKEN_REVOKED = ending(
  1008,
  "token_revoked: the token of this connection was revoked",
);

/** A listener's subscription met the limit of its Hub, or the memory of its channel's group. */
export const SUBSCRIPTIONS_MAX = ending(1013, "subscriptions_max");

/** The group of a listener's channel could not be told. */
export const CHANNEL_FAILED = ending(1011, "channel_failed");

/** @param ms in which no further byte of the frame came, or in which it was not complete */
export const frameTimeout = (ms: number): Ending =>
  ending(1008, `frame_timeout: a frame did not arrive completely within ${ms} ms`);

/** The size is in the frame's head: nothing of the rest is read. */
export const frameTooLarge = (bytesMax: number): Ending =>
  ending(1009, `frame_too_large: a frame may have at most ${bytesMax} bytes`);

/** The Hub as a whole holds too much, and this connection more than a little of it. */
export const pendingBytes = (bytesMax: number): Ending =>
  ending(
    1013,
    `pending_bytes: all connections together have more than ${bytesMax} bytes of unanswered requests`,
  );

/** The client sends on without reading: a WebSocket can't be told to wait. */
export const unansweredBytes = (bytesMax: number): Ending =>
  ending(1013, `unanswered_bytes: more than ${bytesMax} bytes of requests wait for replies`);

/** The client asks on, and says nothing that shows that it reads. */
export const replyBytes = (bytesMax: number): Ending =>
  ending(
    1013,
    `reply_bytes: more than ${bytesMax} bytes of replies are unread; send fewer requests at once`,
  );

/** The subscriber is too slow for its channels: a push has no reply that could wait. */
export const pushBytes = (bytesMax: number): Ending =>
  ending(1013, `push_bytes: more than ${bytesMax} bytes of pushes were left unread`);
