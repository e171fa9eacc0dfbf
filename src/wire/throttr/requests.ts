/**
 * The request types and where their fields lie, per protocol.
 *
 * A request type is one row of `LAYOUTS`; scanner, dispatch and engine read the same row. Source:
 * protocol reference, "7.3 layouts", "7.1 to the letter", "Dialect 2", "Scopes".
 */
import { binaryString } from "../bytes.ts";
import { Command, COMMAND_HEADER_BYTES, PAIR_COMMAND_HEADER_BYTES } from "../edge/command.ts";
import { Keyspace } from "../keyspace.ts";
import type { Dialect, Protocol } from "./protocol.ts";
import { RequestType } from "./request-types.ts";

export * from "./request-types.ts";

/** The rights a request can need, as bits, so that a connection's rights fit one number. */
export const Scope = { read: 1, write: 2, publish: 4, subscribe: 8, admin: 16 } as const;
export type ScopeName = keyof typeof Scope;
/** For requests that everybody may send. */
const NO_SCOPE = 0;

/** Who answers a request. Requests in a row with one target are handed over together: a run. */
export const Target = {
  /** The shard that owns its key. */
  shard: 0,
  /** The object of its channel. */
  channel: 1,
  /** The connection that it came on. */
  connection: 2,
  /** All objects of the namespace; such a request is a run of its own. */
  namespace: 3,
  /** No object: the request is refused. */
  nobody: 4,
} as const;
export type Target = (typeof Target)[keyof typeof Target];

/** Where the fields of a request lie. Offsets count from the type byte; 0 means that there is no such field. */
export interface Layout {
  readonly name: string;
  readonly target: Target;
  /** Where the key lives, of a request on a key. */
  readonly keyspace: Keyspace;
  /** Bytes before the first variable field. */
  readonly headerBytes: number;
  /** Offset of the one-byte size of the key, or of the channel. */
  readonly keySizeAt: number;
  /** Offset of the second size where a key is a pair: it follows the first. */
  readonly pairSizeAt: number;
  /** Offset of the key: behind the header. The key of a pair begins with its two sizes. */
  readonly keyAt: number;
  /** Offset of the value size. The value, or the payload, follows the key. */
  readonly valueSizeAt: number;
  readonly valueSizeBytes: number;
  /** Bits of the scopes that the request needs; 0 for none. */
  readonly scope: number;
  /** Which prefixes of a token the key must have; null where it may be any. */
  readonly prefixes: "keyPrefixes" | "channelPrefixes" | null;
  /** A success begins with a status byte, so there is a way to say no. */
  readonly hasStatus: boolean;
}

/** Length of the key of the frame at `at`, as it is stored: a pair has its two sizes in front. */
export function keyLength(layout: Layout, bytes: Uint8Array, at: number): number {
  const first = bytes[at + layout.keySizeAt]!;
  return layout.pairSizeAt === 0 ? first : 2 + first + bytes[at + layout.pairSizeAt]!;
}

/** Channel of the frame at `at`, as a binary string. */
export function channelOfFrame(layout: Layout, bytes: Uint8Array, at: number): string {
  return binaryString(bytes, at + layout.keyAt, bytes[at + layout.keySizeAt]!);
}

/** Whether a request of a type may change something that outlives its connection; else it only reads. */
export function isWrite({ scope }: Layout, type: number): boolean {
  return (scope & (Scope.write | Scope.publish)) !== 0 || type === Command.remove;
}

type LayoutOf = (protocol: Protocol) => Layout;

const PLAIN = {
  keyspace: Keyspace.throttr,
  headerBytes: 1,
  keySizeAt: 0,
  pairSizeAt: 0,
  keyAt: 0,
  valueSizeAt: 0,
  valueSizeBytes: 0,
  prefixes: null,
  hasStatus: true,
} as const;

/** A request on a key: `sizeAt` says where its size stands, without the request id of dialect 2. */
const onKey =
  (name: string, sizeAt: (n: number) => number, scope: number): LayoutOf =>
  ({ valueSize, requestIdBytes, keyspace }) => {
    const keySizeAt = sizeAt(valueSize) + requestIdBytes;
    const isPair = requestIdBytes > 0;
    const headerBytes = keySizeAt + (isPair ? 2 : 1);
    return {
      ...PLAIN,
      name,
      target: Target.shard,
      keyspace,
      headerBytes,
      keySizeAt,
      pairSizeAt: isPair ? keySizeAt + 1 : 0,
      keyAt: isPair ? keySizeAt : headerBytes,
      scope,
      prefixes: "keyPrefixes",
    };
  };

const set: LayoutOf = ({ valueSize, dialect }) => {
  const valueSizeBytes = dialect === "7.1" ? 1 : valueSize;
  const headerBytes = 3 + valueSize + valueSizeBytes;
  return {
    ...PLAIN,
    name: "SET",
    target: Target.shard,
    headerBytes,
    keySizeAt: 2 + valueSize,
    keyAt: headerBytes,
    valueSizeAt: 3 + valueSize,
    valueSizeBytes,
    scope: Scope.write,
    prefixes: "keyPrefixes",
  };
};

/** A request of the edge dialect: all have the same fields. */
const command =
  (name: string, target: Target, scope: number, keyspace: Keyspace = Keyspace.throttr): LayoutOf =>
  () => ({
    ...PLAIN,
    name,
    target,
    keyspace,
    headerBytes: COMMAND_HEADER_BYTES,
    keySizeAt: 2,
    keyAt: COMMAND_HEADER_BYTES,
    valueSizeAt: 3,
    valueSizeBytes: 4,
    scope,
    prefixes: target === Target.shard ? "keyPrefixes" : null,
  });

/** A request of the edge dialect on a pair of dialect 2. */
const pairCommand =
  (name: string, scope: number): LayoutOf =>
  () => ({
    ...PLAIN,
    name,
    target: Target.shard,
    keyspace: Keyspace.throttrPairs,
    headerBytes: PAIR_COMMAND_HEADER_BYTES + 2,
    keySizeAt: PAIR_COMMAND_HEADER_BYTES,
    pairSizeAt: PAIR_COMMAND_HEADER_BYTES + 1,
    keyAt: PAIR_COMMAND_HEADER_BYTES,
    valueSizeAt: 2,
    valueSizeBytes: 4,
    scope,
    prefixes: "keyPrefixes",
  });

/** A command on a semaphore. */
const onSemaphore = (name: string, scope: number): LayoutOf =>
  command(name, Target.shard, scope, Keyspace.semaphores);

/** It concerns one name, but looks at all that the shard holds: so it is a run of its own. */
const holders: LayoutOf = (protocol) => ({
  ...command("HOLDERS", Target.namespace, Scope.admin, Keyspace.semaphores)(protocol),
  prefixes: "keyPrefixes",
});

/** A request with nothing but a channel. */
const onChannel =
  (name: string, target: Target, scope: number): LayoutOf =>
  () => ({
    ...PLAIN,
    name,
    target,
    headerBytes: 2,
    keySizeAt: 1,
    keyAt: 2,
    scope,
    prefixes: "channelPrefixes",
  });

/** A request with a channel and a payload. */
const withPayload =
  (name: string, target: Target, scope: number): LayoutOf =>
  ({ valueSize }) => ({
    ...PLAIN,
    name,
    target,
    headerBytes: 2 + valueSize,
    keySizeAt: 1,
    keyAt: 2 + valueSize,
    valueSizeAt: 2,
    valueSizeBytes: valueSize,
    scope,
    prefixes: "channelPrefixes",
  });

/** A request of its type byte alone. In 7.1 its reply has no status. */
const alone =
  (name: string, target: Target, scope: number): LayoutOf =>
  ({ dialect }) => ({ ...PLAIN, name, target, scope, hasStatus: dialect !== "7.1" });

/** 7.3 asks by id, 7.1 by the position in the answer to CONNECTIONS. */
const connection: LayoutOf = ({ dialect }) => ({
  ...PLAIN,
  name: "CONNECTION",
  target: Target.namespace,
  headerBytes: dialect === "7.1" ? 5 : 17,
  scope: Scope.admin,
});

type Row = readonly [type: number, LayoutOf];

const COUNTERS: readonly Row[] = [
  [RequestType.insert, onKey("INSERT", (n) => 1 + n + 1 + n, Scope.write)],
  [RequestType.query, onKey("QUERY", () => 1, Scope.read)],
  [RequestType.update, onKey("UPDATE", (n) => 3 + n, Scope.write)],
  [RequestType.purge, onKey("PURGE", () => 1, Scope.write)],
];
const SINCE_7_1: readonly Row[] = [
  ...COUNTERS,
  [RequestType.set, set],
  [RequestType.get, onKey("GET", () => 1, Scope.read)],
  [RequestType.list, alone("LIST", Target.namespace, Scope.read)],
  [RequestType.info, alone("INFO", Target.namespace, Scope.read)],
  [RequestType.stat, onKey("STAT", () => 1, Scope.read)],
  [RequestType.stats, alone("STATS", Target.namespace, Scope.read)],
  [RequestType.subscribe, onChannel("SUBSCRIBE", Target.connection, Scope.subscribe)],
  [RequestType.unsubscribe, onChannel("UNSUBSCRIBE", Target.connection, Scope.subscribe)],
  [RequestType.publish, withPayload("PUBLISH", Target.channel, Scope.publish)],
  [RequestType.connections, alone("CONNECTIONS", Target.namespace, Scope.admin)],
  [RequestType.connection, connection],
  [RequestType.channels, alone("CHANNELS", Target.namespace, Scope.admin)],
  [RequestType.channel, onChannel("CHANNEL", Target.namespace, Scope.admin)],
  [RequestType.whoami, alone("WHOAMI", Target.connection, NO_SCOPE)],
];
const SINCE_7_3: readonly Row[] = [
  ...SINCE_7_1,
  [RequestType.event, withPayload("EVENT", Target.nobody, NO_SCOPE)],
];
const COMMANDS: readonly Row[] = [
  [Command.read, command("READ", Target.shard, Scope.read)],
  [Command.insert, command("INSERT", Target.shard, Scope.write)],
  [Command.increment, command("INCREMENT", Target.shard, Scope.write)],
  [Command.change, command("CHANGE", Target.shard, Scope.write)],
  [Command.expire, command("EXPIRE", Target.shard, Scope.write)],
  [Command.purge, command("PURGE", Target.shard, Scope.write)],
  [Command.set, command("SET", Target.shard, Scope.write)],
  [Command.compareAndSet, command("COMPARE_AND_SET", Target.shard, Scope.read | Scope.write)],
  [Command.limit, command("LIMIT", Target.shard, Scope.write)],
  [Command.peek, command("PEEK", Target.shard, Scope.read)],
  [Command.refund, command("REFUND", Target.shard, Scope.write)],
  [Command.draw, command("DRAW", Target.shard, Scope.write)],
  [Command.limitAll, command("LIMIT_ALL", Target.namespace, Scope.write)],
  [Command.reserve, command("RESERVE", Target.shard, Scope.write)],
  [Command.settle, command("SETTLE", Target.shard, Scope.write)],
  [Command.scan, command("SCAN", Target.namespace, Scope.read)],
  [Command.remove, command("REMOVE", Target.namespace, Scope.admin)],
  [Command.acquire, onSemaphore("ACQUIRE", Scope.write)],
  [Command.renew, onSemaphore("RENEW", Scope.write)],
  [Command.release, onSemaphore("RELEASE", Scope.write)],
  [Command.semaphore, onSemaphore("SEMAPHORE", Scope.read)],
  [Command.semaphores, command("SEMAPHORES", Target.namespace, Scope.read, Keyspace.semaphores)],
  [Command.holders, holders],
  [Command.restore, command("RESTORE", Target.shard, Scope.write)],
  [Command.export, command("EXPORT", Target.namespace, Scope.read)],
  [Command.restorePair, pairCommand("RESTORE_PAIR", Scope.write)],
  [Command.exportLeases, command("EXPORT_LEASES", Target.namespace, Scope.admin)],
  [Command.restoreLease, onSemaphore("RESTORE_LEASE", Scope.write)],
];
const LAYOUTS: Readonly<Record<Dialect, readonly Row[]>> = {
  "7.3": SINCE_7_3,
  "7.1": SINCE_7_1,
  "5": COUNTERS,
  "2": COUNTERS,
  edge: [...SINCE_7_3, ...COMMANDS],
};

interface Requests {
  readonly layouts: readonly (Layout | undefined)[];
  readonly shardScopes: number;
}

const requests = new Map<number, Requests>();

function requestsOf(protocol: Protocol): Requests {
  let known = requests.get(protocol.code);
  if (known === undefined) {
    const layouts = Array.from<Layout | undefined>({ length: 256 });
    let shardScopes = 0;
    for (const [type, layoutOf] of LAYOUTS[protocol.dialect]) {
      const layout = layoutOf(protocol);
      layouts[type] = layout;
      if (layout.target === Target.shard) shardScopes |= layout.scope;
    }
    known = { layouts, shardScopes };
    requests.set(protocol.code, known);
  }
  return known;
}

/** The layouts of a protocol, indexed by request type; undefined for a type it does not know. */
export function layoutsOf(protocol: Protocol): readonly (Layout | undefined)[] {
  return requestsOf(protocol).layouts;
}

/** The scopes, as bits, that the requests of a protocol on keys need. */
export function shardScopesOf(protocol: Protocol): number {
  return requestsOf(protocol).shardScopes;
}
