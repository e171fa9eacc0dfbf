/**
 * A run of PUBLISH requests: one call per channel, one status per request.
 *
 * A run may name any number of channels: it is published a wave of some channels at a time.
 */
import { ByteWriter } from "../wire/bytes.ts";
import { writeMessage } from "../wire/messages.ts";
import { channelOfFrame, layoutsOf, STATUS_SUCCESS } from "../wire/throttr/requests.ts";
import { frameEnd, valueLength } from "../wire/throttr/scanner.ts";
import { refusalOf, type Access } from "./access.ts";
import type { Publisher } from "./publisher.ts";
import type { Frames, Sink } from "./sink.ts";

/** Channels that are published to at once. */
const WAVE_CHANNELS_MAX = 64;

/** What goes to one channel. */
interface ToChannel {
  readonly messages: ByteWriter;
  /** Which requests of the run these are. */
  readonly frames: number[];
  payloadBytes: number;
}

/** Where a run has been read to. */
interface Progress {
  frame: number;
  at: number;
}

export async function answerPublications(
  publisher: Publisher,
  frames: Frames,
  access: Access,
  sink: Sink,
): Promise<void> {
  const statuses = new Uint8Array(frames.count);
  const progress: Progress = { frame: 0, at: 0 };
  try {
    while (progress.frame < frames.count) {
      const wave = nextWave(frames, access, progress);
      await Promise.all(
        Array.from(wave, async ([channel, { messages, frames: which, payloadBytes }]) => {
          const bytes = messages.bytes.subarray(0, messages.length);
          const { delivered } = await publisher.publish(channel, bytes, which.length);
          which.forEach((frame, i) => {
            if (delivered[i]! > 0) statuses[frame] = STATUS_SUCCESS;
          });
          sink.published(channel, payloadBytes);
        }),
      );
    }
    sink.reply(statuses, true);
  } catch (error) {
    sink.failed(error);
  }
}

/** Reads on until the run ends, or names one channel more than a wave may have. */
function nextWave(
  { protocol, bytes, count }: Frames,
  access: Access,
  progress: Progress,
): Map<string, ToChannel> {
  const layouts = layoutsOf(protocol);
  const wave = new Map<string, ToChannel>();
  for (; progress.frame < count; progress.frame++) {
    const { at } = progress;
    const layout = layouts[bytes[at]!]!;
    const end = frameEnd(layouts, bytes, at);
    if (refusalOf(access, layout, bytes, at) === null) {
      const channel = channelOfFrame(layout, bytes, at);
      let to = wave.get(channel);
      if (to === undefined) {
        if (wave.size === WAVE_CHANNELS_MAX) break;
        to = { messages: new ByteWriter(256), frames: [], payloadBytes: 0 };
        wave.set(channel, to);
      }
      const payloadBytes = valueLength(layout, bytes, at);
      writeMessage(to.messages, bytes, end - payloadBytes, payloadBytes);
      to.frames.push(progress.frame);
      to.payloadBytes += payloadBytes;
    }
    progress.at = end;
  }
  return wave;
}
