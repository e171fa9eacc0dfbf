/**
 * A run of PUBLISH requests: one call to each group of channels, one status per request.
 *
 * The frames are walked over twice, to send and to answer, instead of keeping an object for each: a run may have a
 * hundred thousand messages, and rights are checked without allocating.
 */
import {
  channelOfFrame,
  layoutsOf,
  STATUS_SUCCESS,
  type Layout,
} from "../wire/throttr/requests.ts";
import { frameEnd, valueLength } from "../wire/throttr/scanner.ts";
import { missingRightOfFrame, type Access } from "../base/access.ts";
import type { Publisher } from "./publisher.ts";
import type { Frames, Sink } from "./sink.ts";

/**
 * Answers a run of PUBLISH: success where any subscription took the message.
 *
 * @param access frames that it does not allow are answered with a failure, and not published
 */
export async function answerPublications(
  publisher: Publisher,
  frames: Frames,
  access: Access,
  sink: Sink,
): Promise<void> {
  const statuses = new Uint8Array(frames.count);
  const { bytes } = frames;
  const run = publisher.begin();
  try {
    forEachAllowed(frames, access, (layout, _, at, end) => {
      const payloadBytes = valueLength(layout, bytes, at);
      const name = { bytes, at: at + layout.keyAt, length: bytes[at + layout.keySizeAt]! };
      run.add(name, bytes, end - payloadBytes, payloadBytes);
    });
    const { delivered } = await run.send();
    let message = 0;
    forEachAllowed(frames, access, (layout, frame, at) => {
      if (delivered[message++]! > 0) statuses[frame] = STATUS_SUCCESS;
      sink.countPublished(channelOfFrame(layout, bytes, at), valueLength(layout, bytes, at));
    });
    sink.reply(statuses, true);
  } catch (error) {
    sink.fail(error);
  }
}

/** Visits the frames that the access allows; the others keep their status. */
function forEachAllowed(
  { protocol, bytes, count, isAllowed = false }: Frames,
  access: Access,
  visit: (layout: Layout, frame: number, at: number, end: number) => void,
): void {
  const layouts = layoutsOf(protocol);
  for (let frame = 0, at = 0; frame < count; frame++) {
    const layout = layouts[bytes[at]!]!;
    const end = frameEnd(layouts, bytes, at);
    if (isAllowed || missingRightOfFrame(access, layout, bytes, at) === null) {
      visit(layout, frame, at, end);
    }
    at = end;
  }
}
