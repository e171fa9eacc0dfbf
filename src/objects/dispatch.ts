/** Dispatch: one door's lanes to the shards of a namespace. */
import type { Access } from "./access.ts";
import { Exchange, type Frames, type Sink } from "./exchange.ts";
import { Lane } from "./lane.ts";
import { ShardMap, shardName } from "./placement.ts";
import { readSettings } from "./settings.ts";

export class Dispatch {
  readonly #map: ShardMap;
  readonly #lanes: readonly Lane[];

  constructor(env: Env, namespace: string) {
    const settings = readSettings(env);
    const options =
      settings.LOCATION_HINT === ""
        ? {}
        : { locationHint: settings.LOCATION_HINT as DurableObjectLocationHint };
    this.#map = new ShardMap(namespace, settings.SHARDS, settings.SHARD_SECRET);
    this.#lanes = Array.from({ length: settings.SHARDS }, (_, index) => {
      const name = shardName.format(namespace, index);
      return new Lane(this.#map, () => {
        const stub = env.SHARD.getByName(name, options);
        return async (batch) => await stub.apply(batch);
      });
    });
  }

  /**
   * Sends frames to the shards that own their keys; replies come to the sink in request order.
   *
   * @param frames whole frames of the protocol's types; a frame that `access` does not allow is
   * answered 0x00 without a call
   * @param replyBytesMax reply bytes per shard after which the sink is asked for room
   */
  send(frames: Frames, access: Access, sink: Sink, replyBytesMax: number): void {
    new Exchange(frames, sink, replyBytesMax).start(this.#map, this.#lanes, access);
  }
}
