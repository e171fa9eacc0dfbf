/**
 * The requests that are counted: each by its name, with its index in a tally.
 *
 * Names are public, in metrics and in `/v1/info`. Requests of Throttr have those of the protocol reference. Commands of
 * the edge dialect begin with `EDGE_`, requests of the yrmcds protocol with `COUNTER_`, as some names are in two of them.
 */
import { Command, COMMANDS_START } from "../wire/edge/command.ts";
import { Keyspace } from "../wire/keyspace.ts";
import { protocolByName } from "../wire/throttr/protocol.ts";
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
  readonly name: string;
  /** Index in a tally. */
  readonly index: number;
  /** A shard counts it. Other requests are counted by a Hub, or by the door that they came through. */
  readonly isOfShard: boolean;
  readonly family: RequestFamily;
}

const EDGE = protocolByName("edge", undefined)!;
const LIMITS: readonly number[] = [Command.limit, Command.peek, Command.refund];

/** All counted requests, those of Throttr first, by type. EVENT is counted although it is always refused. */
export const COUNTED_REQUESTS: readonly CountedRequest[] = [
  ...layoutsOf(EDGE).flatMap((layout, index): CountedRequest[] => {
    if (layout === undefined) return [];
    const name = (index < COMMANDS_START ? "" : "EDGE_") + layout.name;
    const isOfShard = layout.target === Target.shard;
    return [{ name, index, isOfShard, family: familyOf(layout, index) }];
  }),
  ofYrmcds("NOOP", TALLY_YRMCDS_NOOP, true),
  ofYrmcds("GET", TALLY_YRMCDS_GET, true),
  ofYrmcds("ACQUIRE", TALLY_YRMCDS_ACQUIRE, true),
  ofYrmcds("RELEASE", TALLY_YRMCDS_RELEASE, true),
  ofYrmcds("STATS", TALLY_YRMCDS_STATS, false),
  ofYrmcds("DUMP", TALLY_YRMCDS_DUMP, false),
];

function ofYrmcds(name: string, index: number, isOfShard: boolean): CountedRequest {
  return { name: `COUNTER_${name}`, index, isOfShard, family: "semaphore" };
}

function familyOf({ target, keyspace, scope }: Layout, type: number): RequestFamily {
  if (type === RequestType.publish) return "publish";
  if (keyspace === Keyspace.semaphores) return "semaphore";
  if (target !== Target.shard) return "other";
  if (LIMITS.includes(type)) return "limit";
  return (scope & Scope.write) === 0 ? "read" : "write";
}
