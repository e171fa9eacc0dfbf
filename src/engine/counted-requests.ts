/**
 * The requests that are counted: each by its name, with its index in a tally.
 *
 * Names are public, in overviews, metrics and `/v1/info`, and are those of calls: `increment`, `limit`, `set`. Requests of
 * the Throttr protocol and commands of the edge dialect that do the same share one, such as `insert`. Requests of the
 * yrmcds protocol begin with `yrmcds_`, as its `acquire` belongs to a connection, and that of the edge dialect to a lease.
 */
import { Command, COMMANDS_START } from "../wire/edge/command.ts";
import { Keyspace } from "../wire/keyspace.ts";
import { EDGE } from "../wire/edge/protocol.ts";
import { layoutsOf, RequestType, Scope, Target, type Layout } from "../wire/throttr/requests.ts";
import {
  TALLY_YRMCDS_ACQUIRE,
  TALLY_YRMCDS_DUMP,
  TALLY_YRMCDS_GET,
  TALLY_YRMCDS_NOOP,
  TALLY_YRMCDS_RELEASE,
  TALLY_YRMCDS_STATS,
} from "./tally.ts";

/** The kind of thing that a request works on. `other`: connections, channels, listings, figures. */
export type RequestFamily = "read" | "write" | "limit" | "semaphore" | "publish" | "other";

export interface CountedRequest {
  /** As callers know it. */
  readonly name: string;
  /**
   * Unlike the name, of one protocol only: commands of the edge dialect begin with `EDGE_`, requests of the yrmcds
   * protocol with `COUNTER_`.
   *
   * @deprecated releases before 0.5.0 have only this name; 0.6 will not have it
   */
  readonly type: string;
  /** Index in a tally. */
  readonly index: number;
  /** A shard counts it. Other requests are counted by a Hub, or by the door that they came through. */
  readonly isOfShard: boolean;
  readonly family: RequestFamily;
}

/** Names of calls, by request type. */
const NAMES = new Map<number, string>(
  [...Object.entries(RequestType), ...Object.entries(Command)].map(([name, type]) => [type, name]),
);
const LIMITS: readonly number[] = [
  Command.limit,
  Command.peek,
  Command.refund,
  Command.draw,
  Command.limitAll,
  Command.reserve,
  Command.settle,
];

/** All counted requests, those of Throttr first, by type. EVENT is counted although it is always refused. */
export const COUNTED_REQUESTS: readonly CountedRequest[] = [
  ...layoutsOf(EDGE).flatMap((layout, index): CountedRequest[] => {
    if (layout === undefined) return [];
    const name = NAMES.get(index)!;
    const type = (index < COMMANDS_START ? "" : "EDGE_") + layout.name;
    const isOfShard = layout.target === Target.shard;
    return [{ name, type, index, isOfShard, family: familyOf(layout, index) }];
  }),
  ofYrmcds("noop", TALLY_YRMCDS_NOOP, true),
  ofYrmcds("get", TALLY_YRMCDS_GET, true),
  ofYrmcds("acquire", TALLY_YRMCDS_ACQUIRE, true),
  ofYrmcds("release", TALLY_YRMCDS_RELEASE, true),
  ofYrmcds("stats", TALLY_YRMCDS_STATS, false),
  ofYrmcds("dump", TALLY_YRMCDS_DUMP, false),
];

function ofYrmcds(name: string, index: number, isOfShard: boolean): CountedRequest {
  const type = `COUNTER_${name.toUpperCase()}`;
  return { name: `yrmcds_${name}`, type, index, isOfShard, family: "semaphore" };
}

function familyOf({ target, keyspace, scope }: Layout, type: number): RequestFamily {
  if (type === RequestType.publish) return "publish";
  if (keyspace === Keyspace.semaphores) return "semaphore";
  if (LIMITS.includes(type)) return "limit";
  if (target !== Target.shard) return "other";
  return (scope & Scope.write) === 0 ? "read" : "write";
}
