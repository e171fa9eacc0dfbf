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

export const messageBody = v.pipe(
  v.strictObject({
    payload: v.exactOptional(text("The message, as text.")),
    payloadBase64: v.exactOptional(base64("The message, in base64.")),
  }),
  v.metadata(requiresOneOf("payload", "payloadBase64")),
  oneOf("payload", "payloadBase64"),
);

export const messageAnswer = v.strictObject({
  delivered: counted("Subscriptions that took it."),
  sequence: v.pipe(
    v.nullable(count),
    v.description("Its number in the channel; null until somebody has listened over HTTP."),
  ),
});

export const ListedChannel = v.strictObject({
  channel: textAnswer("The name, where it is UTF-8."),
  channelBase64: base64Answer("The name, where it is not."),
  publishedBytes: counted("Bytes that its subscribers have published to it."),
  deliveredBytes: counted("Bytes that were delivered to them."),
  subscriptions: count,
});

export const channelsAnswer = v.strictObject({
  channels: v.pipe(v.array(ListedChannel), v.description("In the order of their names.")),
  cursor,
});
