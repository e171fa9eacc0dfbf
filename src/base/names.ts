/**
 * Names of the objects of a namespace. An object is found by its name alone, so these never change: under another name the
 * data is out of reach. Namespaces have no slash.
 */
import { binaryString, bytesOfHex } from "../wire/bytes.ts";
import { hexOfHash, initialIndexOf } from "../wire/range.ts";

/** The channel that every connection is subscribed to from its start. */
export const EVERYBODY = "*";

/**
 * All namespaces together: the `ns` of tokens for all of them, and the name of the Directory that lists them. No
 * namespace can be called so.
 */
export const DEPLOYMENT = "*";

/** The name of a namespace. */
export const NAMESPACE = /^[\w.-]{1,64}$/;

/**
 * Which shard of its namespace: one that the namespace began with, by its index, or one that a split has made, by the hash
 * at which its range begins.
 */
export type ShardPlace =
  | { readonly kind: "initial"; readonly index: number }
  | { readonly kind: "split"; readonly from: number };

/** Shards: `namespace/index`, and `namespace/` with 8 hex digits, which no index has. The witness has no index, and no data. */
export const shardName = {
  format: (namespace: string, index: number): string => `${namespace}/${index}`,
  /**
   * The name of the shard whose range begins at a hash.
   *
   * @param shards ranges that the namespace began with; 0 where that is not known: then the first shard is asked for all of them
   */
  at: (namespace: string, from: number, shards: number): string =>
    `${namespace}/${labelOfShard(from, shards)}`,
  /** The object that knows what the first shard owns, and has no records: see `Witness`. */
  witness: (namespace: string): string => `${namespace}/witness`,
  parse(name: string): { namespace: string; place: ShardPlace } {
    const [namespace, label] = name.split("/") as [string, string];
    const place: ShardPlace =
      label.length === HASH_DIGITS
        ? { kind: "split", from: Number.parseInt(label, 16) }
        : { kind: "initial", index: Number(label) };
    return { namespace, place };
  },
};

const HASH_DIGITS = 8;

/** What tells a shard from the others of its namespace: an index, or 8 hex digits. See `shardName.at`. */
export function labelOfShard(from: number, shards: number): string {
  if (from === 0 || shards === 0) return "0";
  const index = initialIndexOf(from, shards);
  return index < 0 ? hexOfHash(from) : String(index);
}

/** Where a Hub is: a location of three letters, and which of the Hubs there, 0 to 255. */
export interface HubAddress {
  /** Three capital letters, as Cloudflare names its data centers. */
  readonly location: string;
  /** 0 to 255. */
  readonly index: number;
}

/** Hubs: `namespace/location/index`. */
export const hubName = {
  format: (namespace: string, { location, index }: HubAddress): string =>
    `${namespace}/${location}/${index}`,
  parse(name: string): { namespace: string; address: HubAddress } {
    const [namespace, location, index] = name.split("/");
    return { namespace: namespace!, address: { location: location!, index: Number(index) } };
  },
};

/**
 * What an object of the class Channel is for, as its name says: the Directory, which is the object of the channel `*`,
 * is called `namespace`; a group of channels `namespace/group/index`; and an object that release 0.4 made for one channel
 * `namespace/name in hex`. Hex digits have no slash. The Directory of the deployment has no channels.
 */
export type ChannelObject =
  | { readonly kind: "deployment" }
  | { readonly kind: "everybody"; readonly namespace: string }
  | { readonly kind: "group"; readonly namespace: string; readonly index: number }
  | { readonly kind: "single"; readonly namespace: string; readonly channel: string };

/** Groups of channels: `namespace/group/index`. */
export const groupName = {
  format: (namespace: string, index: number): string => `${namespace}/group/${index}`,
};

/** Names of channels are bytes; here, as everywhere in `objects/`, they are binary strings: one character a byte. */
export function parseChannelObject(name: string): ChannelObject {
  const [namespace, group, index] = name.split("/") as [string, string?, string?];
  if (namespace === DEPLOYMENT) return { kind: "deployment" };
  if (group === undefined) return { kind: "everybody", namespace };
  if (index !== undefined) return { kind: "group", namespace, index: Number(index) };
  const bytes = bytesOfHex(group);
  return { kind: "single", namespace, channel: binaryString(bytes, 0, bytes.length) };
}
