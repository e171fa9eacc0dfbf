/** Channels for web pages and curl: Server-Sent Events to listen, POST to publish. */
import { missingRight, missingRightError, type Access } from "../base/access.ts";
import { Dispatch } from "../dispatch/dispatch.ts";
import { binaryBytes } from "../wire/bytes.ts";
import { protocolByName } from "../wire/throttr/protocol.ts";
import { layoutsOf, RequestType } from "../wire/throttr/requests.ts";
import { ThrottrError } from "../wire/edge/error.ts";
import type { Caller } from "./caller.ts";
import { EventStream } from "./event-stream.ts";
import { escapedName, rawPath } from "./escaped-name.ts";
import { openConnection, type Entrance } from "./hubs.ts";
import { reportFailure } from "../base/failure.ts";

const PREFIX = "/channels/";

/**
 * Every connection of a Hub has a protocol. A listener sends no frames, so any would do; its layouts name
 * the rights that publishing and listening need.
 */
const PROTOCOL = protocolByName("7.3", "uint64")!;
const LAYOUTS = layoutsOf(PROTOCOL);

/**
 * The channel that a URL names, as a binary string: a name need not be valid UTF-8.
 *
 * @throws ThrottrError `channel_invalid` if an escape is invalid, or the name is longer than 255 bytes
 */
export function channelOf(url: string): string {
  const path = rawPath(url);
  if (!path.startsWith(PREFIX))
    throw new ThrottrError("not_found", `there is no route ${path}; /docs lists the routes`);
  return escapedName(path.slice(PREFIX.length), "channel");
}

/** The outcome of a publication. */
export interface PublishAnswer {
  /** Number of subscriptions that received it. */
  delivered: number;
  /** Its number in the channel; null until the channel had its first listener over HTTP. */
  sequence: number | null;
}

/**
 * Publishes one message.
 *
 * @throws ThrottrError `scope_missing`, `prefix_missing`
 * @throws ThrottrError `outcome_unknown`
 */
export async function publishMessage(
  { env, access, requestTally }: Caller,
  channel: string,
  payload: Uint8Array,
): Promise<PublishAnswer> {
  assertAllowed(access, RequestType.publish, channel);
  const dispatch = new Dispatch(env, access.namespace, requestTally);
  // Counted here, as no shard sees a publication.
  dispatch.countRequest(RequestType.publish, payload.length);
  const bytes = binaryBytes(channel);
  const run = dispatch.publisher.begin();
  run.add({ bytes, at: 0, length: bytes.length }, payload, 0, payload.length);
  try {
    const { delivered, sequence } = await run.send();
    return { delivered: delivered[0]!, sequence };
  } catch (error) {
    throw reportFailure(error);
  }
}

/** What a listener asks for. */
export interface Listening {
  readonly channel: string;
  /** `Last-Event-ID` as it was sent; null if it was not. Messages after it are replayed. */
  readonly after: string | null;
  readonly ip: string;
}

/**
 * Opens a stream of Server-Sent Events.
 *
 * @returns the stream, or the status of a refusal as of `openConnection`
 * @throws ThrottrError `scope_missing`, `prefix_missing`
 */
export async function openListener(
  entrance: Entrance,
  access: Access,
  { channel, after, ip }: Listening,
): Promise<Response | number> {
  assertAllowed(access, RequestType.subscribe, channel);
  // Anything but a number is as if nothing had been sent: browsers repeat whatever id they saw last.
  const sequence = after === null || !/^\d{1,15}$/.test(after) ? null : Number(after);
  const response = await openConnection(entrance, {
    protocolCode: PROTOCOL.code,
    transport: "events",
    access,
    subprotocol: null,
    ip,
    port: 0,
    channel,
    after: sequence,
  });
  if (response.webSocket === null) return response.status;
  return new EventStream(response.webSocket, entrance.settings.STALL_TIMEOUT_MS).response;
}

/**
 * Checks scope and channel prefixes by the rights of PUBLISH or SUBSCRIBE.
 *
 * @throws ThrottrError `scope_missing`, `prefix_missing`
 */
function assertAllowed(access: Access, type: number, channel: string): void {
  const layout = LAYOUTS[type]!;
  const missing = missingRight(access, layout, binaryBytes(channel));
  if (missing !== null) throw missingRightError(missing, layout, access);
}
