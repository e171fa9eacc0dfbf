/**
 * The way down from a session: gives each run of a connection's requests to whatever answers it.
 *
 * Runs about the connection itself (WHOAMI, SUBSCRIBE, UNSUBSCRIBE) are answered here, all others by `Dispatch`. Replies
 * go to the sink that comes with the run. While a run is under way the object must not hibernate.
 */
import { ByteWriter } from "../../wire/bytes.ts";
import {
  channelOfFrame,
  layoutsOf,
  RequestType,
  STATUS_FAILURE,
  STATUS_SUCCESS,
  Target,
  type Layout,
} from "../../wire/throttr/requests.ts";
import { frameEnd } from "../../wire/throttr/scanner.ts";
import { presentMs } from "../../base/clock.ts";
import { missingRightOfFrame, type Access } from "../../base/access.ts";
import { turn } from "../../base/turn.ts";
import type { Dispatch } from "../../dispatch/dispatch.ts";
import type { Holder } from "../../dispatch/holder.ts";
import { isThrottr, type AnyFrames, type Frames, type Sink } from "../../dispatch/sink.ts";
import { GroupFull } from "./memberships.ts";
import type { Roster, SubscriptionChange } from "./roster.ts";
import type { Subscriber } from "./subscription.ts";
import {
  HUB_CALL_REPLY_BYTES_MAX,
  OWN_PIECE_FRAMES,
  OWN_REPLY_BYTES,
  SUBSCRIBES_PENDING_MAX,
} from "../../engine/sizes.ts";

/** What requests need of the connection's Hub. */
export interface RequestsHub {
  readonly state: { waitUntil(work: Promise<void>): void };
  readonly dispatch: Dispatch;
  readonly roster: Roster;
}

/** Answers the runs of one connection, one at a time: `Session` begins the next one after the last reply. */
export class ConnectionRequests {
  readonly #hub: RequestsHub;
  /** The connection itself, as the roster knows it. */
  readonly #subscriber: Subscriber;
  /** Null for connections of a Throttr protocol: only yrmcds gives back what a connection holds when it ends. */
  readonly #holder: Holder | null;
  /** Stores the subscriptions: the client must not see a reply that a crash takes back. */
  readonly #onSubscribed: () => void;
  /** Resolved when nothing is under way any more. */
  #busy: PromiseWithResolvers<void> | null = null;
  /** The run under way is of all of a namespace. Its reply comes in pieces, and no push may come between them. */
  isInNamespaceRun = false;
  /** Gets the answers about the connection itself that are being made; null when none are. */
  #answering: Sink | null = null;

  /**
   * @param holder what a connection of the yrmcds protocol is to shards; null for others
   * @param onSubscribed is called before the last reply of a run that may have changed the subscriptions
   */
  constructor(
    hub: RequestsHub,
    subscriber: Subscriber,
    holder: Holder | null,
    onSubscribed: () => void,
  ) {
    this.#hub = hub;
    this.#subscriber = subscriber;
    this.#holder = holder;
    this.#onSubscribed = onSubscribed;
  }

  /** Returns at once; replies come to the sink, and with the last one the run is over. */
  exchange(frames: AnyFrames, access: Access, sink: Sink): void {
    this.stayAwake();
    this.isInNamespaceRun = frames.target === Target.namespace;
    if (isThrottr(frames) && frames.target === Target.connection) {
      if (sink.hasReader) void this.#answer(frames, access, sink);
      else sink.reply(NOTHING, true);
      return;
    }
    // Shards have to know who holds what is acquired, to give it back when this connection ends.
    const held = this.#holder === null ? frames : { ...frames, holder: this.#holder };
    this.#hub.dispatch.exchange(held, access, sink, HUB_CALL_REPLY_BYTES_MAX);
  }

  /** Requests are under way, or wait for room. Hibernation, which comes after 10 s without I/O, would lose them. */
  stayAwake(): void {
    if (this.#busy !== null) return;
    this.#busy = Promise.withResolvers<void>();
    this.#hub.state.waitUntil(this.#busy.promise);
  }

  /** Nothing is under way: the object may hibernate. */
  rest(): void {
    this.#busy?.resolve();
    this.#busy = null;
  }

  /** Ends what is answered here. Subscriptions end with the connection: they need not be changed before. */
  loseReader(): void {
    const answering = this.#answering;
    this.#answering = null;
    answering?.reply(NOTHING, true);
  }

  /** The connection is closed: nothing is answered any more, and the object may hibernate. */
  close(): void {
    this.#answering = null;
    this.rest();
  }

  /**
   * Answers requests in their order, in pieces. The status byte of a subscription is written before its group has answered,
   * and corrected in place where that refuses; a piece is sent when all groups have answered that it waits for.
   */
  async #answer(frames: Frames, access: Access, sink: Sink): Promise<void> {
    const { bytes, count, protocol } = frames;
    const layouts = layoutsOf(protocol);
    const out = new ByteWriter(Math.min(count, OWN_REPLY_BYTES));
    const pending = new Set<Promise<void>>();
    let pieceEnd = OWN_PIECE_FRAMES;
    const { dispatch } = this.#hub;
    this.#answering = sink;
    dispatch.countRequests(frames);
    try {
      for (let frame = 0, at = 0; frame < count; frame++) {
        const layout = layouts[bytes[at]!]!;
        if (bytes[at] === RequestType.whoami) {
          if (layout.hasStatus) out.u8(STATUS_SUCCESS);
          out.copy(this.#subscriber.id);
        } else {
          const change = this.#changeSubscription(access, layout, bytes, at);
          if (change instanceof Promise) pending.add(orRefusal(change, out, out.length));
          out.u8(change === "refused" ? STATUS_FAILURE : STATUS_SUCCESS);
        }
        at = frameEnd(layouts, bytes, at);
        const isLast = frame === count - 1;
        const isPiece = frame + 1 === pieceEnd || out.length >= OWN_REPLY_BYTES;
        if (!isLast && !isPiece && pending.size < SUBSCRIBES_PENDING_MAX) continue;
        pieceEnd = frame + 1 + OWN_PIECE_FRAMES;
        await Promise.all(pending);
        pending.clear();
        // The reader is lost, or the connection closed: the sink has been answered, or wants no answer.
        if (this.#answering !== sink) return;
        if (isLast) {
          this.#answering = null;
          this.#onSubscribed();
        }
        dispatch.countReplies(out.length);
        sink.reply(out.take(), isLast);
        out.reset();
        if (isLast) return;
        await sink.room();
        // A message may have a million requests, and other connections of the Hub must not wait for all of them.
        await turn();
        if (this.#answering !== sink) return;
      }
    } catch (error) {
      if (this.#answering === sink) sink.fail(error);
    }
  }

  /** Executes the SUBSCRIBE or UNSUBSCRIBE at `at`. */
  #changeSubscription(
    access: Access,
    layout: Layout,
    bytes: Uint8Array,
    at: number,
  ): SubscriptionChange {
    const { roster } = this.#hub;
    const channel = channelOfFrame(layout, bytes, at);
    const missing = missingRightOfFrame(access, layout, bytes, at);
    // No prefix keeps a connection from its own channel.
    const isAllowed =
      missing === null || (missing === "prefix_missing" && channel === this.#subscriber.ownChannel);
    if (!isAllowed) return "refused";
    return bytes[at] === RequestType.subscribe
      ? roster.subscribe(this.#subscriber, channel, presentMs())
      : roster.unsubscribe(this.#subscriber, channel);
  }
}

// A reply of no bytes: it ends a run that has no reader.
const NOTHING = new Uint8Array(0);

/** A join that its group has no room for is answered as at any other limit. */
async function orRefusal(change: Promise<void>, out: ByteWriter, statusAt: number): Promise<void> {
  try {
    await change;
  } catch (error) {
    if (!(error instanceof GroupFull)) throw error;
    out.bytes[statusAt] = STATUS_FAILURE;
  }
}
