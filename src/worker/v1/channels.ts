/** Routes of channels. Listening is not among them: `GET /channels/{channel}` streams Server-Sent Events. */
import { variableName } from "../../base/deployment.ts";
import { beginsWithAny, binaryString, compareBytes } from "../../wire/bytes.ts";
import { SCAN_RECORDS_MAX } from "../../wire/edge/command.ts";
import { RequestType } from "../../wire/throttr/requests.ts";
import { ThrottrError } from "../../wire/edge/error.ts";
import { publishMessage } from "../channels.ts";
import { exchange } from "../execute.ts";
import { channelRows, type ChannelRow } from "./channel-rows.ts";
import { ok, route } from "./route.ts";
import { channelsAnswer, messageAnswer, messageBody } from "./schemas/channels.ts";
import { pageQuery } from "./schemas/parts.ts";
import { textFields, urlBase64Of } from "../text.ts";

const tag = "channels";
/** The prefix of all names. */
const NOTHING = new Uint8Array(0);

export const channelRoutes = [
  route({
    method: "POST",
    path: "/v1/channels/{channel}",
    id: "publish",
    tag,
    summary: "Publish a message",
    description:
      "Goes to listeners of `GET /channels/{channel}` and to subscribers on connections.",
    scopes: ["publish"],
    body: messageBody,
    answers: {
      200: {
        description: "How many subscriptions received it, and its number.",
        schema: messageAnswer,
      },
    },
    errors: ["frame_too_large"],
    example: { url: "/v1/channels/news", body: { payload: "hello" } },
    answer: async ({ caller, path, body }) => {
      const { settings } = caller;
      const payload = (body.payload ?? body.payloadBase64)!;
      if (payload.length > settings.FRAME_BYTES_MAX) {
        throw new ThrottrError(
          "frame_too_large",
          `a message may have at most ${settings.FRAME_BYTES_MAX} bytes (${variableName("FRAME_BYTES_MAX")}), got ${payload.length}`,
        );
      }
      const channel = binaryString(path.channel, 0, path.channel.length);
      return ok(await publishMessage(caller, channel, payload));
    },
  }),
  route({
    method: "GET",
    path: "/v1/channels",
    id: "listChannels",
    tag,
    summary: "List channels that have subscriptions",
    scopes: ["admin"],
    query: pageQuery,
    answers: { 200: { description: "A page. Not a snapshot.", schema: channelsAnswer } },
    errors: ["reply_too_large"],
    example: { url: "/v1/channels?prefix=ne&limit=100" },
    answer: async ({ caller, query }) => {
      const { prefix = NOTHING, limit = SCAN_RECORDS_MAX, cursor = null } = query;
      const { access } = caller;
      const channelPrefixes = beginsWithAny(access.channelPrefixes, prefix, 0, prefix.length)
        ? [prefix]
        : access.channelPrefixes;
      // CHANNELS has no pages, and its prefixes are those of rights: its reply is whole, so `reply_too_large` is possible, and pages
      // are cut out of it here.
      const reply = await exchange(
        { ...caller, access: { ...access, channelPrefixes } },
        Uint8Array.of(RequestType.channels),
      );
      const page: ChannelRow[] = [];
      for (const row of channelRows(reply)) {
        const { name } = row;
        const isBehind =
          cursor === null || compareBytes(name, 0, name.length, cursor, 0, cursor.length) > 0;
        if (isBehind && beginsWithAny([prefix], name, 0, name.length)) page.push(row);
        // One row more than the page has shows that it is not the last.
        if (page.length > limit) break;
      }
      const isLast = page.length <= limit;
      const channels = page
        .slice(0, limit)
        .map(({ name, ...figures }) => ({ ...textFields("channel", name), ...figures }));
      return ok({ channels, cursor: isLast ? null : urlBase64Of(page[limit - 1]!.name) });
    },
  }),
];
