/** The lane over a connection: calls are answered by their position in the stream, pushes come between. */
import { nameOf, type Text } from "../../wire/edge/argument.ts";
import { ThrottrError } from "../../wire/edge/error.ts";
import { messageOf } from "../../wire/edge/operation.ts";
import { Alarm, expireAll, type Timed } from "../timing/alarm.ts";
import { momentOf } from "../timing/clock.ts";
import { CallQueue } from "../calls/call-queue.ts";
import { Call } from "../calls/call.ts";
import { Channels, Control, type Channel } from "../channels/channels.ts";
import type { Lane } from "./lane.ts";
import { Link, type LinkHost } from "./link.ts";
import { MESSAGE_BYTES_MAX } from "../calls/message.ts";
import { timeoutOf, type Settings } from "../options.ts";
import { platform } from "../platform.ts";
import { ReplyStream } from "../calls/reply-stream.ts";
import { toSendAgainAfterLoss } from "../calls/resend.ts";
import { Listener, type SubscribeOptions, type Subscription } from "../channels/subscription.ts";
import type { Ending, Transport } from "../transport/transport.ts";

/**
 * Bytes of calls that may be sent and unanswered; a larger call goes alone. Servers end a connection with more than
 * `UNANSWERED_BYTES_MAX` unanswered, 3 MiB at the least.
 */
const UNANSWERED_BYTES_MAX = MESSAGE_BYTES_MAX;

export class Connection implements Lane, LinkHost {
  readonly #settings: Settings;
  readonly #carriesCalls: boolean;
  readonly #link: Link;
  readonly #alarm: Alarm;
  readonly #queue: CallQueue;
  readonly #channels = new Channels();
  /** Sent before all calls: each new socket subscribes again. */
  #controls: Control[] = [];
  /** Replies on the open socket. */
  #stream: ReplyStream<Call | Control> | null = null;
  #isFlushDue = false;

  /** @param carriesCalls false for a connection that only serves subscriptions, and ends with the last one */
  constructor(transport: Transport, settings: Settings, carriesCalls: boolean) {
    this.#settings = settings;
    this.#carriesCalls = carriesCalls;
    this.#link = new Link(transport, settings, this);
    this.#alarm = new Alarm(settings.clock, (nowMs) => expireAll(this.#timed(), nowMs));
    this.#queue = new CallQueue(settings.queueMax, settings.queueBytesMax);
  }

  send(calls: readonly Call[]): void {
    for (const call of calls) {
      if (!this.#queue.add(call)) {
        this.#flush();
        if (!this.#queue.add(call)) {
          const detail = `${this.#queue.size} calls are already waiting to be sent: nothing was applied`;
          call.fail(new ThrottrError("queue_full", detail));
          continue;
        }
      }
      this.#alarm.setBy(call.deadlineMs);
    }
    this.#flush();
  }

  /** @throws ThrottrError `channel_invalid`, `option_invalid` */
  subscribe(channel: Text, options: SubscribeOptions): Subscription {
    const { clock, timeoutMs } = this.#settings;
    const listener = new Listener(
      // A copy, as a caller may use its buffer again; `slice` of a Buffer makes none.
      new Uint8Array(nameOf(channel, "channel")),
      options,
      clock.nowMs(),
      timeoutOf(options.timeoutMs, timeoutMs),
      (ended) => this.#left(ended),
    );
    if (!listener.isEnded) this.#join(listener);
    return listener;
  }

  close(): void {
    this.#alarm.clear();
    for (const timed of this.#timed()) if (timed instanceof Call) timed.close();
    for (const listener of this.#channels.listeners()) {
      listener.end("closed", "the client was closed");
    }
    this.#stream = null;
    this.#link.close();
  }

  opened(): void {
    this.#stream = new ReplyStream((name, payload) => this.#channels.push(name, payload));
    this.#controls = Array.from(this.#channels, (channel) => this.#subscribing(channel));
    const now = momentOf(this.#settings.clock);
    for (const call of this.#queue) call.expireLost(now);
    this.#flush();
  }

  received(bytes: Uint8Array): void {
    this.#stream!.read(bytes);
    this.#flush();
  }

  ended({ error, isFinal }: Ending, failures: number): boolean {
    const { attemptsMax } = this.#settings;
    const unanswered = this.#sent();
    this.#stream = null;
    this.#queue.addFirst(toSendAgainAfterLoss(unanswered, error, attemptsMax));
    for (const channel of this.#channels) channel.isConfirmed = false;
    if (isFinal || failures >= attemptsMax) this.#giveUp(error, isFinal);
    if (!this.#isNeeded) this.#alarm.clear();
    return this.#isNeeded;
  }

  get #isNeeded(): boolean {
    return this.#queue.size > 0 || this.#channels.size > 0;
  }

  /** Fails everything that waits for a connection, except subscriptions that were confirmed before. */
  #giveUp(error: ThrottrError, isFinal: boolean): void {
    for (const call of this.#queue.takeAll()) call.refuse(error);
    for (const listener of this.#channels.listeners()) {
      if (isFinal || !listener.isSettled) listener.fail(error);
    }
  }

  #join(listener: Listener): void {
    const channel = this.#channels.join(listener);
    if (channel.isConfirmed) {
      listener.confirm();
      return;
    }
    this.#alarm.setBy(listener.deadlineMs);
    if (channel.listeners.size === 1) this.#control(this.#subscribing(channel));
  }

  #left(listener: Listener): void {
    if (!this.#channels.leave(listener)) return;
    if (this.#channels.size === 0 && !this.#carriesCalls) {
      this.#stream = null;
      this.#alarm.clear();
      this.#link.release();
    } else if (this.#stream !== null) {
      this.#control(new Control("unsubscribe", listener.name));
    }
  }

  #subscribing(channel: Channel): Control {
    return new Control("subscribe", channel.name, (isDone) => {
      if (isDone) channel.confirm();
      else {
        for (const listener of channel.listeners) listener.fail(subscribeRefused(listener.channel));
      }
    });
  }

  /** Sends SUBSCRIBE or UNSUBSCRIBE together with those of the same turn, and opens a connection if none is open. */
  #control(control: Control): void {
    if (this.#stream !== null) this.#controls.push(control);
    if (this.#isFlushDue) return;
    this.#isFlushDue = true;
    platform.queueMicrotask(() => {
      this.#isFlushDue = false;
      this.#flush();
    });
  }

  /** Sends as much as the limit of unanswered bytes allows. */
  #flush(): void {
    const stream = this.#stream;
    if (stream === null) {
      if (this.#isNeeded) this.#link.open();
      return;
    }
    const { unansweredBytes } = stream;
    const calls = this.#queue.take(UNANSWERED_BYTES_MAX - unansweredBytes, unansweredBytes === 0);
    if (calls.length === 0 && this.#controls.length === 0) return;
    const entries = [...this.#controls, ...calls];
    this.#controls = [];
    for (const call of calls) call.isSent = true;
    for (const entry of entries) stream.expect(entry);
    this.#link.send(messageOf(entries.map(({ operation }) => operation)));
  }

  /** Calls that were sent and are not answered; some may be settled already. */
  #sent(): Call[] {
    const entries = this.#stream?.unanswered ?? [];
    return entries.filter((entry) => entry instanceof Call);
  }

  #timed(): Timed[] {
    return [...this.#queue, ...this.#sent(), ...this.#channels.listeners()];
  }
}

function subscribeRefused(channel: string): ThrottrError {
  return new ThrottrError(
    "subscribe_refused",
    `the server refused the subscription to ${channel}: the token lacks the scope or the prefix, or there are too many subscriptions`,
  );
}
