/** The lane of transports that carry one message, and its replies back, at a time: HTTP and RPC. */
import { ThrottrError } from "../../wire/edge/error.ts";
import type { Code } from "../../wire/edge/codes.ts";
import { PART_CODES } from "../../wire/edge/outcome-codes.ts";
import { messageOf } from "../../wire/edge/operation.ts";
import { pause } from "../../wire/clock.ts";
import { Alarm, expireAll } from "../timing/alarm.ts";
import { backoffMs } from "../timing/backoff.ts";
import { momentOf } from "../timing/clock.ts";
import { outcomeUnknown, type Call, type CallOwner } from "../calls/call.ts";
import type { Lane } from "./lane.ts";
import { messagesOf } from "../calls/message.ts";
import type { Settings } from "../options.ts";
import { platform } from "../platform.ts";
import { ReplyStream } from "../calls/reply-stream.ts";
import { toSendAgain } from "../calls/resend.ts";
import type { Transport } from "../transport/transport.ts";

type Exchange = NonNullable<Transport["exchange"]>;

/** How often a message is halved after a refusal: a server that goes on refusing means every call. */
const HALVINGS_MAX = 32;

/** The server could not hold all replies, and which calls were applied is unknown. Fewer calls may fit. */
const REPLY_TOO_LARGE = "reply_too_large";

export class ExchangeLane implements Lane {
  readonly #exchange: Exchange;
  readonly #settings: Settings;
  readonly #turns = new Set<Turn>();

  constructor(exchange: Exchange, settings: Settings) {
    this.#exchange = exchange;
    this.#settings = settings;
  }

  send(calls: readonly Call[]): void {
    const turn = new Turn(calls, this.#exchange, this.#settings, () => this.#turns.delete(turn));
    this.#turns.add(turn);
    void turn.run();
  }

  close(): void {
    for (const turn of this.#turns) turn.close();
  }
}

/**
 * The calls of one turn. Its messages go one after the other, so the calls of a turn are applied in the order in which
 * they were made, except those that are sent again.
 *
 * Each turn has a timer of its own: in a Worker, timers belong to the request that sets them.
 */
class Turn implements CallOwner {
  readonly #calls: readonly Call[];
  readonly #open: Set<Call>;
  readonly #exchange: Exchange;
  readonly #settings: Settings;
  readonly #onEnd: () => void;
  readonly #alarm: Alarm;
  readonly #aborter = new platform.AbortController();
  /** Requests and pauses under way, which end with the last call. */
  #underWay = 0;
  #halvings = 0;

  constructor(calls: readonly Call[], exchange: Exchange, settings: Settings, onEnd: () => void) {
    this.#calls = calls;
    this.#open = new Set(calls);
    this.#exchange = exchange;
    this.#settings = settings;
    this.#onEnd = onEnd;
    this.#alarm = new Alarm(settings.clock, (nowMs) => expireAll(this.#open, nowMs));
    for (const call of calls) {
      call.owner = this;
      this.#alarm.setBy(call.deadlineMs);
    }
  }

  async run(): Promise<void> {
    for (const message of messagesOf(this.#calls)) {
      const again = await this.#attempt(message);
      if (again.length > 0) void this.#repeat(again);
    }
  }

  close(): void {
    for (const call of this.#open) call.close();
  }

  released(call: Call): void {
    this.#open.delete(call);
    if (this.#open.size > 0) return;
    this.#alarm.clear();
    if (this.#underWay > 0) this.#aborter.abort();
    this.#onEnd();
  }

  async #repeat(calls: readonly Call[]): Promise<void> {
    const { clock } = this.#settings;
    let again = calls;
    for (let step = 0; again.length > 0; step++) {
      const delayMs = backoffMs(this.#settings, step, clock.random());
      await this.#pause(delayMs);
      again = await this.#attempt(again);
    }
  }

  /** Sends calls in one message. Returns those to send again. */
  async #attempt(calls: readonly Call[]): Promise<Call[]> {
    const now = momentOf(this.#settings.clock);
    for (const call of calls) call.expireLost(now);
    const open = calls.filter(({ isSettled }) => !isSettled);
    if (open.length === 0) return [];
    for (const call of open) call.isSent = true;
    const error = await this.#carry(open);
    if (error === null) return [];
    const unanswered = open.filter(({ isSettled }) => !isSettled);
    if (error.code === REPLY_TOO_LARGE) {
      const again = repeatable(unanswered, error);
      if (open.length > 1) return await this.#halves(again);
      for (const call of again) call.fail(error);
      return [];
    }
    if (
      PART_CODES.includes(error.code as Code) &&
      open.length > 1 &&
      this.#halvings++ < HALVINGS_MAX
    ) {
      return await this.#halves(unanswered);
    }
    return toSendAgain(unanswered, error, this.#settings.attemptsMax);
  }

  async #halves(calls: readonly Call[]): Promise<Call[]> {
    const half = Math.ceil(calls.length / 2);
    const again = await this.#attempt(calls.slice(0, half));
    return [...again, ...(await this.#attempt(calls.slice(half)))];
  }

  /** Carries a message to the server and its replies back. Returns an error when calls are left without a reply. */
  async #carry(calls: readonly Call[]): Promise<ThrottrError | null> {
    const replies = new ReplyStream<Call>(() => {
      throw new ThrottrError("reply_invalid", "a push came between replies");
    });
    for (const call of calls) replies.expect(call);
    const message = messageOf(calls.map(({ operation }) => operation));
    try {
      replies.read(await this.#underSignal(message));
    } catch (error) {
      if (error instanceof ThrottrError && error.code !== "reply_invalid") return error;
      return outcomeUnknown(error instanceof Error ? error.message : String(error), error);
    }
    return replies.unanswered.length === 0 ? null : outcomeUnknown("replies are missing");
  }

  /** Waits before another attempt, or until no call needs one. */
  async #pause(delayMs: number): Promise<void> {
    this.#underWay++;
    try {
      await pause(delayMs, this.#settings.clock, [this.#aborter.signal]);
    } catch {
      // All calls are settled, and the attempt sends nothing.
    } finally {
      this.#underWay--;
    }
  }

  /** Aborts the request once all its calls are settled. */
  async #underSignal(message: Uint8Array<ArrayBuffer>): Promise<Uint8Array> {
    this.#underWay++;
    try {
      return await this.#exchange(message, this.#aborter.signal);
    } finally {
      this.#underWay--;
    }
  }
}

/** Returns the calls that are safe to repeat, and fails the others. */
function repeatable(calls: readonly Call[], error: ThrottrError): Call[] {
  return calls.filter((call) => {
    call.isLost = true;
    if (!call.operation.isRepeatable) call.fail(outcomeUnknown(error.message, error));
    return !call.isSettled;
  });
}
