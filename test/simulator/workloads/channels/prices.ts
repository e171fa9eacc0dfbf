/** What groups of channels were asked and have written, for the checker of their prices. */
import { forEachChange, forEachPublication } from "../../../../src/wire/channel-batch.ts";
import type { GroupPrices, Sample } from "../../checks/budgets.ts";
import type { Carriage, ChannelCall, ReplayRules } from "../../checks/channel-calls.ts";
import { isPublication } from "../../checks/channels.ts";
import type { Facts, ObjectCall } from "../../checks/facts.ts";
import type { SimulatedObject } from "../../platform/object.ts";
import type { World } from "../../world.ts";
import { nameOf } from "../../witness.ts";
import { DEFAULT, isOfNamespace } from "../namespaces.ts";

/** Of a run that begins with today's code: the release before has an object for each channel. */
export function pricesOf(
  world: World,
  calls: readonly ChannelCall[],
  carriages: readonly Carriage[],
  { groupOf }: ReplayRules,
): Sample<GroupPrices>[] {
  const { facts } = world.witness;
  const at = world.moments.now();
  const published = new Map<string, number>();
  for (const call of calls) {
    if (!isPublication(call)) continue;
    const group = groupOf(call.operation.channel);
    published.set(group, (published.get(group) ?? 0) + 1);
  }
  const isKept = world.settingsMost.REPLAY_MESSAGES_MAX > 0;
  const chunkBytes = isKept ? world.sizes.REPLAY_CHUNK_BYTES_MAX : null;
  return [...world.cluster.objects]
    .filter(({ className, name }) => className === "Channel" && isOfNamespace(name, DEFAULT))
    .map((object) => {
      const publications = published.get(nameOf(object)) ?? 0;
      return {
        subject: nameOf(object),
        at,
        figures: { ...figuresOf(object, facts, carriages, chunkBytes), publications },
      };
    });
}

function figuresOf(
  object: SimulatedObject,
  facts: Facts,
  carriages: readonly Carriage[],
  chunkBytes: number | null,
): Omit<GroupPrices, "publications"> {
  const group = nameOf(object);
  const sums = { publishCalls: 0, changes: 0, listens: 0, channels: 0, keptRows: 0 };
  for (const { method, parameters } of facts.callsOf(group)) {
    if (method === "listenTo") sums.listens++;
    if (method === "change") forEachChange(parameters[1] as Uint8Array, () => sums.changes++);
    if (method !== "publishAll") continue;
    sums.publishCalls++;
    const ofChannels = sizesOf(parameters[0] as Uint8Array);
    sums.channels += ofChannels.size;
    if (chunkBytes === null) continue;
    for (const { count, bytes } of ofChannels.values()) {
      sums.keptRows += Math.min(count, 1 + Math.floor((2 * bytes) / chunkBytes));
    }
  }
  const toHubs = new Map<string, Set<ObjectCall>>();
  for (const { call } of carriages) {
    if (call.caller !== group) continue;
    toHubs.set(call.object, (toHubs.get(call.object) ?? new Set()).add(call));
  }
  return {
    ...sums,
    hubCalls: Math.max(0, ...Array.from(toHubs.values(), ({ size }) => size)),
    rowsWritten: object.disk.written.rows,
    lives: object.livesBegun,
  };
}

/** Messages of a publication, and their bytes, by channel. */
function sizesOf(publications: Uint8Array): Map<string, { count: number; bytes: number }> {
  const sizes = new Map<string, { count: number; bytes: number }>();
  forEachPublication(publications, (channel, _at, length) => {
    const { count, bytes } = sizes.get(channel) ?? { count: 0, bytes: 0 };
    sizes.set(channel, { count: count + 1, bytes: bytes + length + MESSAGE_OVERHEAD_BYTES });
  });
  return sizes;
}

/** In front of each message. */
const MESSAGE_OVERHEAD_BYTES = 4;
