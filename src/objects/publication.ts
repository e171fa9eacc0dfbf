/** A run of PUBLISH requests: one call per channel, one status per request. */
import { binaryString, ByteWriter } from "../wire/bytes.ts";
import { writeMessage } from "../wire/messages.ts";
import { layoutsOf, STATUS_SUCCESS } from "../wire/throttr/requests.ts";
import { frameLength, valueLength } from "../wire/throttr/scanner.ts";
import { refusalOf, type Access } from "./access.ts";
import type { Publisher } from "./publisher.ts";
import type { Frames, Sink } from "./sink.ts";

interface ToChannel {
  readonly messages: ByteWriter;
  /** Which requests of the run these are. */
  readonly frames: number[];
}

export async function answerPublications(
  publisher: Publisher,
  frames: Frames,
  access: Access,
  sink: Sink,
): Promise<void> {
  const statuses = new Uint8Array(frames.count);
  const calls = [...byChannel(frames, access)].map(
    async ([channel, { messages, frames: which }]) => {
      const bytes = messages.bytes.subarray(0, messages.length);
      const { delivered } = await publisher.publish(channel, bytes, which.length);
      which.forEach((frame, i) => {
        if (delivered[i]! > 0) statuses[frame] = STATUS_SUCCESS;
      });
      sink.published(channel, bytes.length - which.length * 4);
    },
  );
  try {
    await Promise.all(calls);
    sink.reply(statuses, true);
  } catch (error) {
    sink.failed(error);
  }
}

function byChannel({ protocol, bytes, count }: Frames, access: Access): Map<string, ToChannel> {
  const layouts = layoutsOf(protocol);
  const channels = new Map<string, ToChannel>();
  for (let frame = 0, at = 0; frame < count; frame++) {
    const layout = layouts[bytes[at]!]!;
    const end = at + frameLength(layouts, bytes, at, bytes.length, Infinity);
    if (refusalOf(access, layout, bytes, at) === null) {
      const channel = binaryString(bytes, at + layout.keyAt, bytes[at + layout.keySizeAt]!);
      let to = channels.get(channel);
      if (to === undefined)
        channels.set(channel, (to = { messages: new ByteWriter(256), frames: [] }));
      const payloadBytes = valueLength(layout, bytes, at);
      writeMessage(to.messages, bytes, end - payloadBytes, payloadBytes);
      to.frames.push(frame);
    }
    at = end;
  }
  return channels;
}
