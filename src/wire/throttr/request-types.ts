/**
 * The request types, and constants of requests and replies.
 *
 * They are apart from the layouts because a client needs no more of the protocol than these. Source: protocol reference,
 * "7.3 layouts".
 */
export const RequestType = {
  insert: 0x01,
  query: 0x02,
  update: 0x03,
  purge: 0x04,
  set: 0x05,
  get: 0x06,
  list: 0x07,
  info: 0x08,
  stat: 0x09,
  stats: 0x10,
  subscribe: 0x11,
  unsubscribe: 0x12,
  publish: 0x13,
  connections: 0x14,
  connection: 0x15,
  channels: 0x16,
  channel: 0x17,
  whoami: 0x18,
  /** A push to a subscriber; as a request it is always refused. */
  event: 0x19,
} as const;

/** Request types are below this: the length of arrays that count by type. */
export const REQUEST_TYPES_END = 0x40;

export const Attribute = { quota: 0, ttl: 1 } as const;
export const Change = { patch: 0, increase: 1, decrease: 2 } as const;
export type Change = (typeof Change)[keyof typeof Change];

export const STATUS_SUCCESS = 0x01;
export const STATUS_FAILURE = 0x00;
