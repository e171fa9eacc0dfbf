/**
 * The runs of a message that comes whole: found in its frames, or known from the operations that they were made of.
 *
 * Rights are checked here, before anything is sent, as these doors refuse a message as a whole and say why. Dispatch
 * does not check them again: `Frames.isAllowed`.
 */
import { variableName } from "../base/deployment.ts";
import { isUnrestricted, missingRightOfFrame, neededRight, type Access } from "../base/access.ts";
import type { Frames } from "../dispatch/sink.ts";
import { messageOf, type Operation } from "../wire/edge/operation.ts";
import { EDGE } from "../wire/edge/protocol.ts";
import type { Protocol } from "../wire/throttr/protocol.ts";
import { layoutsOf, REQUEST_TYPES_END, Target } from "../wire/throttr/requests.ts";
import { FRAME_TOO_LARGE, FRAME_UNKNOWN, frameEnd, scanRun } from "../wire/throttr/scanner.ts";
import { ThrottrError } from "../wire/edge/error.ts";
import { BATCH_BYTES_MAX } from "../engine/sizes.ts";

/** Most runs of a message. Each needs calls of its own, of which the platform allows a request a limited number. */
const RUNS_MAX = 500;

/**
 * Finds the runs of a message.
 *
 * @throws ThrottrError when a frame can't be read or is not allowed, or there are too many runs
 */
export function findRuns(
  protocol: Protocol,
  bytes: Uint8Array,
  frameBytesMax: number,
  access: Access,
): Frames[] {
  const layouts = layoutsOf(protocol);
  // `scanRun` counts requests by type for connections. No connection reads these, but it has no form without them.
  const counts = new Float64Array(REQUEST_TYPES_END);
  const runs: Frames[] = [];
  for (let at = 0; at < bytes.length;) {
    const run = scanRun(layouts, bytes, at, bytes.length, frameBytesMax, counts);
    const { target, frames: count, end, stop } = run;
    if (count > 0) {
      runs.push({ protocol, target, bytes: bytes.subarray(at, end), count, isAllowed: true });
      assertFewRuns(runs);
      at = end;
    }
    if (stop === FRAME_TOO_LARGE) throw frameTooLarge(end, frameBytesMax);
    if (stop === FRAME_UNKNOWN) {
      const hex = bytes[end]!.toString(16).padStart(2, "0");
      throw new ThrottrError(
        "request_type_unknown",
        `byte ${end}: dialect ${protocol.dialect} has no request type 0x${hex}; nothing was applied`,
      );
    }
    // Not even one frame was whole, and the message has no more bytes to come.
    if (count === 0) {
      throw new ThrottrError(
        "body_truncated",
        `the body ends in the middle of the frame that begins at byte ${end}; nothing was applied`,
      );
    }
  }
  for (const run of runs) assertAllowed(run, access, bytes);
  return runs;
}

/**
 * The runs of operations whose rights were checked. An operation knows its type, and so its target: this is what
 * `findRuns` would find in their frames.
 *
 * @throws ThrottrError `frame_too_large`, `batch_too_large`, `runs_max`
 */
export function runsOfOperations(
  operations: readonly Operation<unknown>[],
  frameBytesMax: number,
): Frames[] {
  const layouts = layoutsOf(EDGE);
  const runs: Frames[] = [];
  let from = 0;
  let bytes = 0;
  operations.forEach(({ type, frame }, i) => {
    if (frame.length > frameBytesMax) throw frameTooLarge(bytes, frameBytesMax);
    bytes += frame.length;
    if (bytes > BATCH_BYTES_MAX) throw batchTooLarge();
    const { target } = layouts[type]!;
    const next = operations[i + 1];
    // Requests on the namespace ask all shards, so each is a run of its own even beside another one.
    const goesOn = next !== undefined && layouts[next.type]!.target === target;
    if (goesOn && target !== Target.namespace) return;
    const message = messageOf(operations.slice(from, i + 1));
    const count = i + 1 - from;
    runs.push({ protocol: EDGE, target, bytes: message, count, isAllowed: true });
    assertFewRuns(runs);
    from = i + 1;
  });
  return runs;
}

function batchTooLarge(): ThrottrError {
  return new ThrottrError(
    "batch_too_large",
    `the operations of a call may have at most ${BATCH_BYTES_MAX} bytes together: send fewer at once; nothing was applied`,
  );
}

/** @param at the byte of the message at which the frame begins */
function frameTooLarge(at: number, frameBytesMax: number): ThrottrError {
  return new ThrottrError(
    "frame_too_large",
    `the frame at byte ${at} is too large: at most ${frameBytesMax} bytes are allowed (${variableName("FRAME_BYTES_MAX")}); nothing was applied`,
  );
}

/**
 * Checks the number of runs with each one that is found: a message of single bytes has millions, which take a hundred times its memory.
 *
 * @throws ThrottrError `runs_max`
 */
function assertFewRuns(runs: readonly Frames[]): void {
  if (runs.length <= RUNS_MAX) return;
  throw new ThrottrError(
    "runs_max",
    `a body may have at most ${RUNS_MAX} runs: requests on keys in a row are one, PUBLISH in a row are one, and each request on the namespace is one; send fewer at once; nothing was applied`,
  );
}

/**
 * Checks that all frames of a run may be executed.
 *
 * @param body the message that the run is part of
 * @throws ThrottrError `needs_connection`, `scope_missing`, `prefix_missing`
 */
function assertAllowed(
  { protocol, target, bytes, count }: Frames,
  access: Access,
  body: Uint8Array,
): void {
  // The usual case costs no look at the frames: a token of all keys, and requests on keys.
  if (target === Target.shard && isUnrestricted(access, protocol)) return;
  const layouts = layoutsOf(protocol);
  for (let frame = 0, at = 0; frame < count; frame++) {
    const layout = layouts[bytes[at]!]!;
    const where = `${layout.name} at byte ${bytes.byteOffset - body.byteOffset + at}`;
    // SUBSCRIBE and its like change a connection, and a message has none.
    if (target === Target.connection) {
      throw new ThrottrError(
        "needs_connection",
        `${where} needs a connection: send it over WebSocket or TCP; nothing was applied`,
      );
    }
    const missing = missingRightOfFrame(access, layout, bytes, at);
    if (missing !== null) {
      const needed = neededRight(missing, layout, access);
      throw new ThrottrError(missing, `${where} ${needed}; nothing was applied`);
    }
    at = frameEnd(layouts, bytes, at);
  }
}
