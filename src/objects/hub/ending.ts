/** Why the server closes a connection. The codes are listed in docs/reference.md; clients tell them apart by them. */

export interface Ending {
  /** WebSocket close code. */
  readonly code: number;
  /** Begins with a stable code, and has at most 123 bytes of ASCII: more does not fit a close frame. */
  readonly reason: string;
}

/** The peer has ended the connection. */
export const FINISHED: Ending = { code: 1000, reason: "" };

export const FRAME_LOST: Ending = {
  code: 1011,
  reason: "frame_lost: the server restarted in the middle of a frame",
};

export const TEXT_MESSAGE: Ending = {
  code: 1003,
  reason: "text_message: send frames as binary messages; the only text message may be ping",
};

export const BRIDGE_INVALID: Ending = {
  code: 1008,
  reason:
    "bridge_invalid: expected end, or drained N, where N is at most the reply bytes not yet drained",
};

export const TOKEN_EXPIRED: Ending = {
  code: 1008,
  reason: "token_expired: the token of this connection has expired",
};

export const SUBSCRIPTIONS_MAX: Ending = { code: 1013, reason: "subscriptions_max" };

export const CHANNEL_FAILED: Ending = { code: 1011, reason: "channel_failed" };

export const frameTimeout = (ms: number): Ending => ({
  code: 1008,
  reason: `frame_timeout: a frame did not arrive completely within ${ms} ms`,
});

export const frameTooLarge = (bytesMax: number): Ending => ({
  code: 1009,
  reason: `frame_too_large: a frame may have at most ${bytesMax} bytes`,
});

export const pendingBytes = (bytesMax: number): Ending => ({
  code: 1013,
  reason: `pending_bytes: all connections together have more than ${bytesMax} bytes of waiting requests`,
});

export const unansweredBytes = (bytesMax: number): Ending => ({
  code: 1013,
  reason: `unanswered_bytes: more than ${bytesMax} bytes of requests wait for replies`,
});

export const replyBytes = (bytesMax: number): Ending => ({
  code: 1013,
  reason: `reply_bytes: more than ${bytesMax} bytes of replies are unread; send fewer requests at once`,
});

export const pushBytes = (bytesMax: number): Ending => ({
  code: 1013,
  reason: `push_bytes: more than ${bytesMax} bytes of pushes were left unread`,
});
