/**
 * The attachment of a socket: what a connection needs to come back after hibernation.
 *
 * The runtime keeps at most 16 KiB for each socket, and nothing else of a Hub that sleeps. Attachments outlive
 * deployments, too, so fields keep their names, and what is added may be absent.
 */
import { REQUEST_TYPES_END } from "../../wire/throttr/requests.ts";
import type { Access } from "../../base/access.ts";
import type { ConnectionParameters } from "../../base/calls/open-request.ts";
import { Holder, rangesOfBits } from "../../dispatch/holder.ts";
import type { StoredFlow } from "./flow.ts";

/** Structured clones: typed arrays stay what they are. At most 16 KiB in all. */
export interface Attachment extends ConnectionParameters, StoredFlow {
  /** 16 bytes: see `connection-id.ts`. */
  readonly id: Uint8Array;
  /** Milliseconds since the epoch. */
  readonly connectedAtMs: number;
  /** Requests by type, then bytes: see `CountAt`. */
  readonly counts: Float64Array;
  /** Format: `subscription.ts`. */
  readonly subscriptions: Uint8Array;
  /** True when groups of channels know of the subscriptions; not there in what release 0.4 has stored. */
  readonly hasJoinedGroups?: boolean;
  /** True once the server has closed the connection; its peer may not have done so yet. */
  readonly isClosed?: boolean;
  /** Of a listener of Server-Sent Events: number of the last message that it has; not there before its start. */
  readonly lastNumber?: number | null;
  /** Bytes of an unfinished frame; null when they are too many and kept in memory only. */
  readonly unfinished: Uint8Array | null;
  /** What releases before 0.5.0 have in place of `ranges`: a bit for each shard. */
  readonly shards: Uint8Array;
  /** Of the yrmcds protocol: true once a report of the Hub has counted it; not there in what earlier releases have stored. */
  readonly isReported?: boolean;
  /** Of the yrmcds protocol: ranges of shards that may have it hold something, see `Holder`. */
  readonly ranges?: Uint32Array;
}

/** Indexes of byte counts in `counts`, behind those of request types. */
export const CountAt = {
  readBytes: REQUEST_TYPES_END,
  writeBytes: REQUEST_TYPES_END + 1,
  publishedBytes: REQUEST_TYPES_END + 2,
  receivedBytes: REQUEST_TYPES_END + 3,
} as const;
// 8 bytes each in the attachment, which is why only types of requests are told apart.
const COUNTS = REQUEST_TYPES_END + 4;

/** Of the attachment, what subscriptions and the prefixes of the access may take together. */
const VARIABLE_BYTES_MAX = 14_000;
/** What a prefix takes beside its bytes. */
const PREFIX_OVERHEAD_BYTES = 16;

/** All zeros. */
export const newCounts = (): Float64Array => new Float64Array(COUNTS);

/** The attachment of a new connection. */
export function newAttachment(
  parameters: ConnectionParameters,
  id: Uint8Array,
  nowMs: number,
): Attachment {
  return {
    ...parameters,
    id,
    connectedAtMs: nowMs,
    counts: newCounts(),
    subscriptions: new Uint8Array(0),
    hasJoinedGroups: true,
    isReported: false,
    undrainedBytes: 0,
    unheardBytes: 0,
    unfinished: new Uint8Array(0),
    shards: new Uint8Array(0),
  };
}

/** Bytes that the packed subscriptions of a connection with some access may take. */
export function subscriptionBytesMax({ keyPrefixes, channelPrefixes }: Access): number {
  return [...keyPrefixes, ...channelPrefixes].reduce(
    (left, prefix) => left - prefix.length - PREFIX_OVERHEAD_BYTES,
    VARIABLE_BYTES_MAX,
  );
}

/**
 * The holder of a connection of the yrmcds protocol.
 *
 * @param store stores the ranges that it has noted
 */
export function holderOf(
  { id, ranges, shards: bits }: Attachment,
  store: (ranges: Uint32Array) => void,
): Holder {
  return new Holder(id, ranges ?? rangesOfBits(bits), store);
}
