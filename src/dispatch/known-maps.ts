/**
 * Known maps: the shard maps that an isolate remembers from one request to the next.
 *
 * They are module state, as doors live for one request each; a map holds no I/O, so any request may use it. The number of
 * namespaces is bounded, since strangers may name any on an open server.
 */
import type { Environment } from "../base/environment.ts";
import { readSettings, type Settings } from "../base/settings.ts";
import { KNOWN_MAPS_MAX } from "../engine/sizes.ts";
import { ShardMap } from "./shard-map.ts";

/** By settings, which are one object for each environment; then by namespace, those asked for lately at the end. */
const known = new WeakMap<Settings, Map<string, ShardMap>>();

/** The map of a namespace, as far as this isolate knows it. */
export function shardMapOf(env: Environment, namespace: string): ShardMap {
  const settings = readSettings(env);
  let maps = known.get(settings);
  if (maps === undefined) known.set(settings, (maps = new Map()));
  const map =
    maps.get(namespace) ?? new ShardMap(namespace, settings.SHARDS, settings.SHARD_SECRET);
  maps.delete(namespace);
  maps.set(namespace, map);
  if (maps.size > KNOWN_MAPS_MAX) maps.delete(maps.keys().next().value!);
  return map;
}
