/** What the objects of a namespace are called. Namespaces have no slash. */
import { binaryBytes, binaryString, bytesOfHex, hexOf } from "../wire/bytes.ts";

/** The channel that everybody hears. */
export const EVERYBODY = "*";

/** Shards: `namespace/index`. */
export const shardName = {
  format: (namespace: string, index: number): string => `${namespace}/${index}`,
  parse(name: string): { namespace: string; index: number } {
    const [namespace, index] = name.split("/");
    return { namespace: namespace!, index: Number(index) };
  },
};

/** Where a Hub lives: a location of three letters, and which of the Hubs there, 0 to 255. */
export interface HubPlace {
  readonly location: string;
  readonly index: number;
}

/** Hubs: `namespace/location/index`. */
export const hubName = {
  format: (namespace: string, { location, index }: HubPlace): string =>
    `${namespace}/${location}/${index}`,
  parse(name: string): { namespace: string; place: HubPlace } {
    const [namespace, location, index] = name.split("/");
    return { namespace: namespace!, place: { location: location!, index: Number(index) } };
  },
};

/**
 * Channels: `namespace/name in hex`. Names of channels are bytes; here, as everywhere in `objects/`,
 * they are binary strings: one character a byte.
 */
export const channelName = {
  format: (namespace: string, channel: string): string =>
    `${namespace}/${hexOf(binaryBytes(channel))}`,
  parse(name: string): { namespace: string; channel: string } {
    const slash = name.indexOf("/");
    // The Directory of a namespace, `namespace`, is the object of the channel that everybody hears.
    if (slash < 0) return { namespace: name, channel: EVERYBODY };
    const bytes = bytesOfHex(name.slice(slash + 1));
    return { namespace: name.slice(0, slash), channel: binaryString(bytes, 0, bytes.length) };
  },
};
