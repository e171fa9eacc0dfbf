/** The HTTP door: a body of frames in, their replies out. */
import { allows, allowsKey, isUnrestricted, scopeName, type Access } from "../objects/access.ts";
import { Dispatch } from "../objects/dispatch.ts";
import type { Frames } from "../objects/exchange.ts";
import type { Settings } from "../objects/settings.ts";
import type { Protocol } from "../wire/throttr/protocol.ts";
import { layoutsOf } from "../wire/throttr/requests.ts";
import {
  FRAME_INCOMPLETE,
  FRAME_TOO_LARGE,
  frameLength,
  scanFrames,
} from "../wire/throttr/scanner.ts";
import { Problem } from "./problem.ts";
import { REPLY_HEADERS, ResponseSink } from "./response-sink.ts";

/** Reply bytes per shard that are held in memory; more are streamed. */
const REPLY_BYTES_MAX = 2 << 20;

/**
 * Answers a body of frames.
 *
 * @throws Problem when a frame can't be read or is not allowed; then nothing has been applied
 */
export async function answerBody(
  env: Env,
  settings: Settings,
  protocol: Protocol,
  access: Access,
  body: Uint8Array,
): Promise<Response> {
  const frames = framesOf(protocol, body, settings.FRAME_BYTES_MAX);
  assertAllowed(frames, access);
  if (frames.count === 0) return new Response(null, { headers: REPLY_HEADERS });
  const sink = new ResponseSink();
  new Dispatch(env, access.namespace).send(frames, access, sink, REPLY_BYTES_MAX);
  return await sink.response;
}

function framesOf(protocol: Protocol, bytes: Uint8Array, frameBytesMax: number): Frames {
  const { frames, end, stop } = scanFrames(
    layoutsOf(protocol),
    bytes,
    0,
    bytes.length,
    frameBytesMax,
  );
  if (stop === FRAME_TOO_LARGE) {
    throw new Problem(
      413,
      "frame_too_large",
      `frame at byte ${end}: a frame may have ${frameBytesMax} bytes; nothing was applied`,
    );
  }
  if (stop !== FRAME_INCOMPLETE) {
    const hex = bytes[end]!.toString(16).padStart(2, "0");
    throw new Problem(
      400,
      "request_type_unknown",
      `byte ${end}: 0x${hex} is no request type of dialect ${protocol.dialect}; nothing was applied`,
    );
  }
  if (end < bytes.length) {
    throw new Problem(
      400,
      "body_truncated",
      `the body ends inside the frame that begins at byte ${end}; nothing was applied`,
    );
  }
  return { protocol, bytes, count: frames };
}

function assertAllowed({ protocol, bytes, count }: Frames, access: Access): void {
  if (isUnrestricted(access, protocol)) return;
  const layouts = layoutsOf(protocol);
  for (let frame = 0, at = 0; frame < count; frame++) {
    const layout = layouts[bytes[at]!]!;
    const keyAt = at + layout.headerBytes;
    const keyBytes = bytes[at + layout.keySizeAt]!;
    if (!allows(access, layout, bytes, keyAt, keyBytes)) {
      throw allowsKey(access, bytes, keyAt, keyBytes)
        ? new Problem(
            403,
            "scope_missing",
            `${layout.name} at byte ${at} needs the scope ${scopeName(layout.scope)}; nothing was applied`,
          )
        : new Problem(
            403,
            "prefix_missing",
            `${layout.name} at byte ${at}: its key begins with none of the token's keyPrefixes; nothing was applied`,
          );
    }
    at += frameLength(layouts, bytes, at, bytes.length, Infinity);
  }
}
