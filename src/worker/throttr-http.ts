/** The HTTP door: a body of frames in, their replies out. */
import type { Protocol } from "../wire/throttr/protocol.ts";
import type { Caller } from "./caller.ts";
import { REPLY_HEADERS, ResponseSink } from "./response-sink.ts";
import { assertInForce } from "./revocations.ts";
import { sendRuns } from "./run-sequence.ts";
import { findRuns } from "./runs.ts";
import { HTTP_CALL_REPLY_BYTES_MAX } from "../engine/sizes.ts";

/**
 * Answers a body of frames. Of one whose client has gone, what writes is still executed.
 *
 * @param signal aborts when the client has gone
 * @throws ThrottrError when a frame can't be read or is not allowed; then nothing has been applied
 */
export async function answerBody(
  caller: Caller,
  protocol: Protocol,
  body: Uint8Array,
  signal: AbortSignal,
): Promise<Response> {
  const { env, ctx, settings, access } = caller;
  const runs = findRuns(protocol, body, settings.FRAME_BYTES_MAX, access);
  // An empty body is a message without frames, and has no replies.
  if (runs.length === 0) return new Response(null, { headers: REPLY_HEADERS });
  const sink = new ResponseSink({
    signal,
    bodyBytes: body.length,
    stallTimeoutMs: settings.STALL_TIMEOUT_MS,
    assertAccess: async () => await assertInForce(env, ctx, access),
  });
  // The runtime ends a request whose client has gone, unless something is waited for.
  ctx.waitUntil(sink.ended);
  sendRuns(caller, runs, sink, HTTP_CALL_REPLY_BYTES_MAX);
  return await sink.response;
}
