/** Requests and answers about channels. */
import * as v from "valibot";
import {
  base64,
  base64Answer,
  count,
  counted,
  cursor,
  oneOf,
  requiresOneOf,
  text,
  textAnswer,
} from "./parts.ts";

/** A message. Its size has no bound here: `FRAME_BYTES_MAX` is a setting, so the route checks it. */
export const messageBody = v.pipe(
  v.strictObject({
    payload: v.exactOptional(text("The message, as text.")),
    payloadBase64: v.exactOptional(base64("The message, in base64.")),
  }),
  v.metadata(requiresOneOf("payload", "payloadBase64")),
  oneOf("payload", "payloadBase64"),
);

/** What became of a message. No subscription is no error: a publisher need not know its listeners. */
export const messageAnswer = v.strictObject({
  delivered: counted("Number of subscriptions that received it."),
  sequence: v.pipe(
    v.nullable(count),
    v.description(
      "Its number in the channel; null until the channel had its first listener over HTTP.",
    ),
  ),
});

/** A channel with subscriptions; others are not listed. */
export const ListedChannel = v.strictObject({
  channel: textAnswer("The name, if it is UTF-8."),
  channelBase64: base64Answer("The name, if it is not UTF-8."),
  publishedBytes: counted("Bytes that its subscribers published to it."),
  deliveredBytes: counted("Bytes that they received from it."),
  subscriptions: count,
});

export const channelsAnswer = v.strictObject({
  channels: v.pipe(v.array(ListedChannel), v.description("In the order of their names.")),
  cursor,
});
