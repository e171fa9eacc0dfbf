/** The HTTP door: a body of frames in, their replies out. */
import type { Access } from "../objects/access.ts";
import { Dispatch, type Counter } from "../objects/dispatch.ts";
import type { Settings } from "../objects/settings.ts";
import type { Frames, Sink } from "../objects/sink.ts";
import type { Protocol } from "../wire/throttr/protocol.ts";
import { REPLY_HEADERS, ResponseSink } from "./response-sink.ts";
import { assertAllowed, RunSequence, runsOf } from "./runs.ts";

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
  counter: Counter,
  body: Uint8Array,
): Promise<Response> {
  const runs = runsOf(protocol, body, settings.FRAME_BYTES_MAX);
  for (const run of runs) assertAllowed(run, access, body);
  if (runs.length === 0) return new Response(null, { headers: REPLY_HEADERS });
  const sink = new ResponseSink();
  const dispatch = new Dispatch(env, access.namespace, counter);
  const send = (run: Frames, to: Sink): void => dispatch.send(run, access, to, REPLY_BYTES_MAX);
  new RunSequence(runs, send, sink, REPLY_BYTES_MAX).start();
  return await sink.response;
}
