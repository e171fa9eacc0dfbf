/**
 * Decides from allowances, and sends what they need: the shell around `Allowance`.
 *
 * In a Worker, no request may await what another one has sent. So the request that notices sends a message by itself,
 * and others only read the memory that its answer has changed.
 */
import { inBatches } from "../../wire/edge/batch-parts.ts";
import type { DrawReturn } from "../../wire/edge/draw.ts";
import type { LimitStrategy } from "../../wire/edge/limit.ts";
import { IS_WORKER } from "../../wire/is-worker.ts";
import { pause, type Clock } from "../../wire/clock.ts";
import type { LimitBackend } from "../backend.ts";
import {
  checkCount,
  type Decider,
  type ExactDecider,
  type WaitUntil,
  type Wish,
} from "../decider.ts";
import { encodeNow } from "../key.ts";
import type { RateLimitResult } from "../result.ts";
import { isUnknownCall } from "../unknown-call.ts";
import { Allowance, type Ask, type Lease } from "./allowance.ts";
import { allowancesOf, type AllowanceStore } from "./allowance-store.ts";
import type { Allowances, Scope } from "./allowances.ts";
import type { Draw } from "./draws.ts";
import { isLongerThan } from "./term.ts";

/** What allowances need of their limiter. */
export interface LocalSettings {
  readonly throttr: LimitBackend;
  readonly name: string;
  readonly strategy: LimitStrategy;
  readonly clock: Clock;
  readonly lease: Lease;
  readonly store: AllowanceStore;
  readonly waitUntil: WaitUntil | undefined;
}

/** A message, and whose it is. */
interface Sent {
  readonly allowance: Allowance;
  readonly ask: Ask;
}

/** A server without draws is asked for one again after so long: it may have been updated. */
const EXACT_MS = 60_000;
/** The longest pause of a request that waits for the draw of another one; the first ones are shorter. */
const WAIT_MS_MAX = 8;
/** Then the answer to that draw is most likely lost. */
const WAITS_MS_MAX = 500;

const WITHOUT_DRAWS =
  "the server has no DRAW, so `local` asks it for every decision: update it to 0.5";
const CAN_NOT_WAIT = "waitUntil failed: expected (work) => ctx.waitUntil(work)";

export class LocalDecider implements Decider {
  readonly #exact: ExactDecider;
  readonly #settings: LocalSettings;
  readonly #allowances: Allowances;
  readonly #scopeId: string;
  #scope: Scope;
  readonly #returnsAtEnd: boolean;

  constructor(exact: ExactDecider, settings: LocalSettings) {
    this.#exact = exact;
    const { name, strategy, clock, lease, store } = settings;
    this.#settings = settings;
    this.#allowances = allowancesOf(store, clock);
    this.#scopeId = `${name}\n${lease.leaseMs}\n${JSON.stringify(strategy)}`;
    this.#scope = this.#allowances.scope(this.#scopeId);
    this.#returnsAtEnd = isLongerThan(strategy, lease.termMs);
  }

  /**
   * Decides without a message; null where the shard must be asked. The hot path: it takes positions, and makes no object
   * but the result.
   *
   * @throws ThrottrError `key_invalid`
   */
  decide(key: string, cost: number, waitUntil: WaitUntil | undefined): RateLimitResult | null {
    const allowance = this.#scope.byKey.get(key) ?? this.#open(key, encodeNow(key), waitUntil);
    if (allowance === null || !(Number.isSafeInteger(cost) && cost > 0)) return null;
    const { clock } = this.#settings;
    const nowMs = clock.nowMs();
    const monotonicMs = clock.monotonicMs === undefined ? nowMs : clock.monotonicMs();
    this.#allowances.noteTime(nowMs);
    const result = allowance.decide(cost, nowMs, monotonicMs);
    if (result !== null && allowance.isLow(cost, monotonicMs)) this.#refill(allowance, waitUntil);
    return result;
  }

  async ask(
    wishes: readonly Wish[],
    gone: AbortSignal,
    waitUntil: WaitUntil | undefined,
  ): Promise<RateLimitResult[]> {
    const isExact = this.#allowances.isExact(this.#monotonicMs());
    const isDrawn = ({ request }: Wish): boolean =>
      !isExact && request.idempotencyKey === undefined;
    const [drawn, asked] = await Promise.all([
      inBatches(wishes.filter(isDrawn), (part) => this.#draw(part, gone, waitUntil)),
      this.#exact.ask(
        wishes.filter((wish) => !isDrawn(wish)),
        gone,
      ),
    ]);
    return wishes.map((wish) => (isDrawn(wish) ? drawn : asked).shift()!);
  }

  waitFor({ request }: Wish, gone: AbortSignal): Promise<RateLimitResult | null> | null {
    const { cost = 1, idempotencyKey } = request;
    const allowance = idempotencyKey === undefined ? this.#known(request.key) : null;
    return allowance?.isLed(this.#monotonicMs()) ? this.#lookFor(allowance, cost, gone) : null;
  }

  takeReturns(storedKey: string): DrawReturn[] {
    return this.#known(storedKey)?.takeAll(this.#monotonicMs()) ?? [];
  }

  noteRefund(storedKey: string): void {
    this.#known(storedKey)?.noteRefund();
  }

  noteReset(storedKey: string): void {
    this.#known(storedKey)?.noteReset();
  }

  /**
   * Looks for units that another request draws, by timers of its own: in a Worker, no request may await what another one
   * has sent.
   */
  async #lookFor(
    allowance: Allowance,
    cost: number,
    gone: AbortSignal,
  ): Promise<RateLimitResult | null> {
    const { clock } = this.#settings;
    const endMs = this.#monotonicMs() + WAITS_MS_MAX;
    const isOver = (): boolean => this.#monotonicMs() >= endMs;
    for (let waitMs = 1; allowance.isLed(this.#monotonicMs()) && !isOver(); waitMs *= 2) {
      await pause(Math.min(waitMs, WAIT_MS_MAX), clock, []);
      gone.throwIfAborted();
      const nowMs = clock.nowMs();
      this.#allowances.noteTime(nowMs);
      const result = allowance.retry(cost, nowMs, this.#monotonicMs());
      if (result !== null) return result;
    }
    return null;
  }

  /**
   * Draws what wishes need, in one message. A server that has no draws is asked exactly. A draw is sent also for a caller
   * that is gone: it gives back units, and those that it draws are spent by others.
   */
  async #draw(
    wishes: readonly Wish[],
    gone: AbortSignal,
    waitUntil: WaitUntil | undefined,
  ): Promise<RateLimitResult[]> {
    const now = this.#now();
    const messages = wishes.map(({ key, request }) => {
      const allowance = this.#scope.byKey.get(key) ?? this.#open(key, request.key, waitUntil)!;
      return { allowance, ask: allowance.ask(request.cost!, ...now) };
    });
    try {
      return await this.#send(messages, waitUntil);
    } catch (error) {
      if (!isUnknownCall(error)) throw error;
      this.#allowances.noteExact(now[1] + EXACT_MS);
      this.#allowances.warn(WITHOUT_DRAWS);
      return await this.#exact.ask(wishes, gone);
    }
  }

  /** The allowance of a key, which another limiter may have opened; null where none is. */
  #known(storedKey: string): Allowance | null {
    this.#scope = this.#allowances.scope(this.#scopeId);
    return this.#scope.byStoredKey.get(storedKey) ?? null;
  }

  /** Opens the allowance of a key; null for a key without a stored one. */
  #open(key: string, stored: string | null, waitUntil: WaitUntil | undefined): Allowance | null {
    if (stored === null) return null;
    const known = this.#known(stored);
    if (known !== null) return known;
    const { name, strategy, lease } = this.#settings;
    const allowance = new Allowance({ name, key: stored, strategy }, lease);
    const place = { scopeId: this.#scopeId, scope: this.#scope, key, storedKey: stored };
    const evicted = this.#allowances.add(place, allowance);
    if (evicted !== null) this.#giveBack(evicted, waitUntil);
    return allowance;
  }

  /** Draws ahead, beside the request that has noticed. */
  #refill(allowance: Allowance, waitUntil: WaitUntil | undefined): void {
    this.#beside(waitUntil, async () => {
      const ask = allowance.refill(...this.#now());
      await this.#send([{ allowance, ask }], waitUntil);
    });
  }

  /** Gives back what is left of a draw, or of all of them. */
  #giveBack(allowance: Allowance, waitUntil: WaitUntil | undefined, draw?: Draw): void {
    this.#beside(waitUntil, async () => {
      const { clock } = this.#settings;
      if (draw !== undefined) {
        await pause(Math.max(0, draw.monotonicEndMs - this.#monotonicMs()), clock, []);
      }
      const ask = allowance.giveBack(...this.#now(), draw);
      if (ask !== null) await this.#send([{ allowance, ask }], waitUntil);
    });
  }

  /** Sends messages as one. They are sent once, whatever becomes of them. */
  async #send(
    messages: readonly Sent[],
    waitUntil: WaitUntil | undefined,
  ): Promise<RateLimitResult[]> {
    const { throttr } = this.#settings;
    for (const { allowance } of messages) this.#allowances.touch(allowance);
    const requests = messages.map(({ ask }) => ask.request);
    try {
      const drawn =
        requests.length === 1
          ? [await throttr.draw!(requests[0]!)]
          : await throttr.drawMany!(requests);
      checkCount(drawn.length, requests.length);
      const monotonicMs = this.#monotonicMs();
      return messages.map(({ allowance, ask }, i) => {
        const { result, draw } = allowance.answer(ask, drawn[i]!, monotonicMs);
        if (draw !== null && this.#returnsAtEnd) this.#giveBack(allowance, waitUntil, draw);
        return result;
      });
    } finally {
      for (const { allowance, ask } of messages) allowance.finish(ask);
    }
  }

  #monotonicMs(): number {
    return this.#now()[1];
  }

  /** The time by both clocks; not for the hot path. */
  #now(): [nowMs: number, monotonicMs: number] {
    const { clock } = this.#settings;
    const nowMs = clock.nowMs();
    return [nowMs, clock.monotonicMs?.() ?? nowMs];
  }

  /**
   * Does work that the answer to a request does not wait for. A Worker without `waitUntil` would end it with the response:
   * there it is left to the next message.
   */
  #beside(waitUntil: WaitUntil | undefined, work: () => Promise<void>): void {
    const extend = waitUntil ?? this.#settings.waitUntil;
    if (extend === undefined && IS_WORKER) return;
    // A message that failed has lost its units, and the next one tells the caller if the server can't be asked.
    const done = work().catch(() => {});
    try {
      extend?.(done);
    } catch {
      this.#allowances.warn(CAN_NOT_WAIT);
    }
  }
}
