/**
 * How a door asks a Hub to open a connection: an upgrade request whose header carries what the door knows of it.
 *
 * It is a request and no method, because only `fetch` can return a WebSocket.
 */
import type { ConnectionKind } from "../../wire/throttr/connection-row.ts";
import type { Access } from "../access.ts";

/** Carries the `OpenRequest`, as JSON, in the upgrade request. */
export const CONNECTION_HEADER = "x-throttr-connection";

/** What the door knows of a connection. */
export interface ConnectionParameters {
  /** Names protocol, dialect and sizes: see `wire/protocols.ts`. */
  readonly protocolCode: number;
  /** `events`: a listener of Server-Sent Events, who sends nothing. */
  readonly transport: keyof typeof ConnectionKind;
  /**
   * The peer is a gateway: a bridge outside, whose word counts for no more than that of a plain WebSocket client. A door
   * asks with the other fields of a plain WebSocket without a subprotocol: a Hub of release 0.4 ignores this one and opens
   * a plain WebSocket, and the gateway sees that its subprotocol was not confirmed. Asked for a bridge, that Hub would
   * believe whatever the gateway says.
   */
  readonly isGateway?: boolean;
  readonly access: Access;
  /** WebSocket subprotocol to confirm, if the client asked for it. */
  readonly subprotocol: string | null;
  /** Address of the client, as far as it is known. */
  readonly ip: string;
  /** Of the client; 0 where it is not known. */
  readonly port: number;
}

/** What the header carries. Fields are added only as optional ones: doors and Hubs of two releases meet. */
export interface OpenRequest extends ConnectionParameters {
  /** The channel of a listener of Server-Sent Events, as a binary string; null for other connections. */
  readonly channel: string | null;
  /** Number of the last message that such a listener has; null when it has none. */
  readonly after: number | null;
}

/** Prefixes are bytes: JSON carries them as arrays of numbers. Values of headers are ASCII: the rest is escaped. */
export function encodeOpenRequest(request: OpenRequest): string {
  return JSON.stringify(request, (_, value: unknown) =>
    value instanceof Uint8Array ? [...value] : value,
  ).replace(/[\u0080-\uffff]/g, (character) => {
    return `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`;
  });
}

/** The inverse of `encodeOpenRequest`. Only doors of this deployment can send one: a Hub has no address outside. */
export function decodeOpenRequest(text: string): OpenRequest {
  const request = JSON.parse(text) as OpenRequest;
  const toBytes = (prefixes: readonly Uint8Array[]): Uint8Array[] =>
    prefixes.map((prefix) => Uint8Array.from(prefix));
  const { access } = request;
  const keyPrefixes = toBytes(access.keyPrefixes);
  const channelPrefixes = toBytes(access.channelPrefixes);
  return { ...request, access: { ...access, keyPrefixes, channelPrefixes } };
}
