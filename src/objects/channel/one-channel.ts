/**
 * Publishing to one channel by the calls of a group, which take any number of channels. Doors and Hubs of release 0.4
 * ask for one channel at a time.
 */
import { binaryBytes, ByteWriter } from "../../wire/bytes.ts";
import { writePublication } from "../../wire/channel-batch.ts";
import { forEachMessage } from "../../wire/messages.ts";
import { assertTaken, type Published, type PublishedAll } from "../../base/calls/channel.ts";

/** @param messages format: `wire/messages.ts` */
export function publicationsOf(channel: string, messages: Uint8Array): Uint8Array {
  const out = new ByteWriter(messages.length + 64);
  const bytes = binaryBytes(channel);
  const name = { bytes, at: 0, length: bytes.length };
  forEachMessage(messages, (at, length) => writePublication(out, name, messages, at, length));
  return out.take();
}

/**
 * What came of messages that all went to one channel.
 *
 * @throws Error when the disk of the group has refused them
 */
export function publishedOf(published: PublishedAll, count: number): Published {
  assertTaken(published, 0, count);
  const { delivered, sequences } = published;
  const sequence = sequences?.[0] ?? null;
  return {
    delivered: delivered === null ? Array.from({ length: count }, () => 0) : [...delivered],
    sequence: sequence === null || Number.isNaN(sequence) ? null : sequence,
  };
}
