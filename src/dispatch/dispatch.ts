/**
 * Dispatch: the way from one door to the objects of a namespace that answer requests.
 *
 * A Hub has one for as long as it is awake, shared by its connections: so their frames for a shard gather in one lane. A
 * door over RPC or HTTP has one for each request, as a Worker may not use one request's I/O for another. So making one
 * is cheap, and what a request does not need is not made.
 */
import type { ShardMap } from "./shard-map.ts";
import { shardRows, splitShard } from "./shard-rows.ts";
import type { BegunSplit, ShardRow } from "../wire/shards.ts";
import { presentMs } from "../base/clock.ts";
import type { Environment } from "../base/environment.ts";
import { TALLY_READ_BYTES, TALLY_WRITE_BYTES, type Tally } from "../engine/tally.ts";
import { framingOf, type AnyProtocol } from "../wire/protocols.ts";
import { layoutsOf, Target } from "../wire/throttr/requests.ts";
import { frameEnd } from "../wire/throttr/scanner.ts";
import type { YrmcdsProtocol } from "../wire/yrmcds/dialect.ts";
import type { Access } from "../base/access.ts";
import type { ShardLimitFigures } from "../base/calls/shard.ts";
import { answerYrmcds } from "./yrmcds-requests.ts";
import { noteServed } from "../base/data-refusals.ts";
import { Exchange } from "./exchange.ts";
import { endHolder } from "./holder-end.ts";
import { shardMapOf } from "./known-maps.ts";
import type { Holder } from "./holder.ts";
import { NamespaceRequests } from "./namespace-requests.ts";
import { shardStub } from "../base/stubs.ts";
import { refuseUnknown } from "../base/unknown-method.ts";
import { answerPublications } from "./publication.ts";
import { Publisher } from "./publisher.ts";
import { refuserFor } from "./refuser.ts";
import { readSettings } from "../base/settings.ts";
import { ShardGroup } from "./shard-group.ts";
import { ShardLanes } from "./shard-lane.ts";
import { isThrottr, type AnyFrames, type Frames, type Sink } from "./sink.ts";
import { askLimits } from "./limit-figures.ts";
import { askAll, type Silence, type Survey } from "./survey.ts";

/** The tally of the requests that no shard counts, for INFO. */
export interface RequestTally {
  /** Asked for when there is something to count. */
  readonly tally: Tally;
  /** Brings what was counted to where INFO finds it. */
  readonly flush: () => Promise<void>;
}

/** Of one Hub, or of one request at a door. */
export class Dispatch {
  readonly #env: Environment;
  /** For requests on all shards: each call on its own. */
  readonly #shards: ShardGroup;
  /** What is known of the shards. */
  readonly map: ShardMap;
  /** For requests on keys: what gathers goes in one call. */
  readonly #lanes: ShardLanes;
  /** Counts what no shard sees: publications, subscriptions, requests on the namespace. */
  readonly #requestTally: RequestTally;
  /** `METRICS`: without it nothing is counted, and INFO says zero. */
  readonly #isCounting: boolean;
  #publisher: Publisher | null = null;

  /** @param requestTally counts the requests that no shard counts */
  constructor(env: Environment, namespace: string, requestTally: RequestTally) {
    const { METRICS } = readSettings(env);
    this.#env = env;
    this.#requestTally = requestTally;
    this.#isCounting = METRICS === "on";
    const map = shardMapOf(env, namespace);
    this.map = map;
    const stubAt = (from: number) => shardStub(env, map.nameAt(from));
    this.#shards = new ShardGroup(map, stubAt);
    this.#lanes = new ShardLanes(map, (from) => {
      const stub = stubAt(from);
      return async (batch) => {
        // The present goes along: a shard whose own clock stands still is told by it (`ClockWatch`).
        const answer = await stub.apply(batch, presentMs());
        noteServed();
        return answer;
      };
    });
  }

  /** Made by the first publication, and kept: its lanes give the messages of all callers their order. */
  get publisher(): Publisher {
    return (this.#publisher ??= new Publisher(this.#env, this.#shards.map.namespace));
  }

  /**
   * Sends a run to the objects that answer it; replies come to the sink in the order of the requests.
   *
   * It returns at once, and awaits nothing: a promise for each run would cost a connection with small runs more than
   * the runs do.
   *
   * @param frames of any target but the connection
   * @param access frames that it does not allow are refused without a call, unless the door has checked them
   * @param replyBytesMax reply bytes per shard after which the sink is asked for room
   */
  exchange(frames: AnyFrames, access: Access, sink: Sink, replyBytesMax: number): void {
    if (!sink.hasReader && !beginsWithWrite(frames)) {
      sink.reply(NOTHING, true);
    } else if (isThrottr(frames)) {
      this.#exchangeThrottr(frames, access, sink, replyBytesMax);
    } else if (frames.target === Target.shard) {
      // The right to use the yrmcds protocol was checked when the connection was opened.
      new Exchange(this.#lanes, frames, sink, replyBytesMax).start(null);
    } else {
      const tally = this.#isCounting ? this.#requestTally.tally : null;
      const parts = { env: this.#env, shards: this.#shards, tally };
      void answerYrmcds(parts, frames as Frames<YrmcdsProtocol>, whileRead(sink));
    }
  }

  /** Runs that no shard sees are counted here, with their replies; a shard counts its own. */
  #exchangeThrottr(frames: Frames, access: Access, sink: Sink, replyBytesMax: number): void {
    const { target } = frames;
    if (target === Target.shard) {
      new Exchange(this.#lanes, frames, sink, replyBytesMax).start(refuserFor(frames, access));
      return;
    }
    this.countRequests(frames);
    const counted = this.#countReplies(sink);
    if (target === Target.channel) {
      void answerPublications(this.publisher, frames, access, counted);
    } else if (target === Target.namespace) {
      // Made for each request, as it keeps nothing between two.
      const requests = new NamespaceRequests(this.#env, this.#shards, this.#requestTally.flush);
      void requests.answer(frames, access, whileRead(counted));
    } else {
      // Of no target: the only such request is EVENT, which is always refused.
      counted.reply(new Uint8Array(frames.count), true);
    }
  }

  /** Tells the shards that a holder has ended, behind all that they were sent for it: they release what it holds. */
  async release(holder: Holder, protocol: AnyProtocol): Promise<void> {
    await endHolder(this.#lanes, holder, protocol);
  }

  /**
   * What all objects of the namespace say of themselves; those that don't answer within 2 s are left out.
   *
   * @param isKept shards store counts before they return them: see `ShardCalls.summary`
   */
  async survey(isKept: boolean = false): Promise<Survey> {
    await this.#requestTally.flush();
    return await askAll(this.#env, this.#shards, isKept);
  }

  /** What all shards say of their limits, in the order of the circle; those that don't answer within 2 s are left out. */
  async limitFigures(): Promise<(ShardLimitFigures | Silence)[]> {
    return await askLimits(this.#shards);
  }

  /** What each shard says of its range, or has reported, in the order of the circle. */
  async shards(): Promise<ShardRow[]> {
    return await shardRows(this.#env, this.#shards);
  }

  /** Begins a split by hand: see `splitShard`. */
  async split(label: string, at: number | null): Promise<BegunSplit> {
    return await splitShard(this.#shards, label, at);
  }

  /** Sets the clocks of all shards back: see `Shard.setClockBack`. Returns by how many ms, in the order of the circle. */
  async setClocksBack(): Promise<number[]> {
    const answers = await this.#shards.changeAll(async ({ placement, stub }, noteCall) => {
      noteCall();
      return await refuseUnknown(stub().setClockBack(placement));
    });
    return answers.map(({ answer }) => answer);
  }

  /** Counts requests that no shard sees: INFO adds these to what the shards have counted. */
  countRequests({ protocol, bytes, count }: Frames): void {
    if (!this.#isCounting) return;
    const { tally } = this.#requestTally;
    tally.turn(presentMs());
    const { totals } = tally;
    const layouts = layoutsOf(protocol);
    for (let frame = 0, at = 0; frame < count; frame++) {
      totals[bytes[at]!]!++;
      at = frameEnd(layouts, bytes, at);
    }
    totals[TALLY_READ_BYTES]! += bytes.length;
  }

  /** Counts a request that came as no frame. */
  countRequest(type: number, bytes: number): void {
    if (!this.#isCounting) return;
    const { tally } = this.#requestTally;
    tally.turn(presentMs());
    tally.totals[type]!++;
    tally.totals[TALLY_READ_BYTES]! += bytes;
  }

  /** Counts replies to what `countRequests` has counted. */
  countReplies(bytes: number): void {
    if (this.#isCounting) this.#requestTally.tally.totals[TALLY_WRITE_BYTES]! += bytes;
  }

  /** The sink, with its replies counted on their way. */
  #countReplies(sink: Sink): Sink {
    return sinkOver(sink, {
      reply: (replies, isLast) => {
        this.countReplies(replies.length);
        sink.reply(replies, isLast);
      },
    });
  }
}

const NOTHING = new Uint8Array(0);

/**
 * Whether a run for a caller that has gone is sent at all. An exchange picks the writes out of a run on keys; the frames
 * of any other run are all of one kind, so the first speaks for them.
 */
function beginsWithWrite({ protocol, target, bytes }: AnyFrames): boolean {
  return target === Target.shard || framingOf(protocol).isWrite(bytes, 0);
}

/**
 * Ends a reply that is streamed, with what has been sent of it, at the first piece after the caller has gone: such a
 * reply asks all shards or Hubs, a page at a time, and the rest would have no reader.
 */
function whileRead(sink: Sink): Sink {
  const unread = new Error("unread");
  return sinkOver(sink, {
    room: () => (sink.hasReader ? sink.room() : Promise.reject(unread)),
    fail: (error) => (error === unread ? sink.reply(NOTHING, true) : sink.fail(error)),
  });
}

/** A sink that passes on to another one, but for some of its methods. A spread of a class would lose its methods. */
function sinkOver(sink: Sink, methods: Partial<Omit<Sink, "hasReader">>): Sink {
  return {
    get hasReader() {
      return sink.hasReader;
    },
    reply: (replies, isLast) => sink.reply(replies, isLast),
    room: () => sink.room(),
    fail: (error) => sink.fail(error),
    countPublished: (channel, payloadBytes) => sink.countPublished(channel, payloadBytes),
    ...methods,
  };
}
