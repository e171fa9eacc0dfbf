/** The HTTP door: a body of frames in, their replies out. */
import type { Access } from "../base/access.ts";
import { Dispatch, type RequestTally } from "../dispatch/dispatch.ts";
import type { Settings } from "../base/settings.ts";
import type { Frames, Sink } from "../dispatch/sink.ts";
import type { Protocol } from "../wire/throttr/protocol.ts";
import { REPLY_HEADERS, ResponseSink } from "./response-sink.ts";
import { assertAllowed, RunSequence, runsOf } from "./runs.ts";

/** Reply bytes of one call to a shard. */
const REPLY_BYTES_MAX = 1 << 20;

/**
 * Answers a body of frames. Of one whose client has gone, what writes is still executed.
 *
 * @throws Problem when a frame can't be read or is not allowed; then nothing has been applied
 */
export async function answerBody(
  env: Env,
  settings: Settings,
  protocol: Protocol,
  access: Access,
  requestTally: RequestTally,
  body: Uint8Array,
  signal: AbortSignal,
  ctx: Pick<ExecutionContext, "waitUntil">,
): Promise<Response> {
  const runs = runsOf(protocol, body, settings.FRAME_BYTES_MAX);
  for (const run of runs) assertAllowed(run, access, body);
  if (runs.length === 0) return new Response(null, { headers: REPLY_HEADERS });
  const sink = new ResponseSink({ signal, stallTimeoutMs: settings.STALL_TIMEOUT_MS });
  const dispatch = new Dispatch(env, access.namespace, requestTally);
  const send = (run: Frames, to: Sink): void => dispatch.send(run, access, to, REPLY_BYTES_MAX);
  // The runtime ends a request whose client has gone, unless something is waited for.
  ctx.waitUntil(sink.ended);
  new RunSequence(runs, send, sink).start();
  return await sink.response;
}
