/**
 * A Directory of release 0.4, which a new door may meet: active objects keep their old code for up to five minutes after a
 * deployment. To be removed with the release after 0.5.
 */
import { ByteWriter } from "../wire/bytes.ts";
import { forEachPublication } from "../wire/channel-batch.ts";
import { writeMessage } from "../wire/messages.ts";
import type { DirectoryCalls, PublishedAll } from "../base/calls/channel.ts";

/**
 * Publishes messages to the channel `*`.
 *
 * @param publications all of that channel
 */
export async function publishToOldDirectory(
  stub: DurableObjectStub<DirectoryCalls>,
  publications: Uint8Array,
): Promise<PublishedAll> {
  const out = new ByteWriter(publications.length);
  let count = 0;
  forEachPublication(publications, (_, at, length) => {
    writeMessage(out, publications, at, length);
    count++;
  });
  const { delivered, sequence } = await stub.publish(out.take(), count);
  return {
    delivered: Uint32Array.from(delivered),
    sequences: sequence === null ? null : Float64Array.from(delivered, (_, i) => sequence + i),
    refused: null,
  };
}
