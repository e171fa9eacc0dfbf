/**
 * Adoption: a new shard takes a part of another one's range, row by row, and serves none of it before the other shard has
 * said that it is given.
 *
 * Until then the shard does nothing by itself but ask the other one, by its alarm and when a call comes for it: the other
 * one may have given the range and ended before it could say so, or have given the attempt up.
 */
import { presentMs } from "../../base/clock.ts";
import type { AdoptOutcome, RangeOffer } from "../../base/calls/splits.ts";
import type { Environment } from "../../base/environment.ts";
import { withTimeout } from "../../base/in-time.ts";
import { logWarning } from "../../base/log.ts";
import { shardName } from "../../base/names.ts";
import { shardStub } from "../../base/stubs.ts";
import type { Engine } from "../../engine/engine.ts";
import { ADOPT_ASK_MS, SPLIT_WAIT_MS } from "../../engine/sizes.ts";
import { ThrottrError } from "../../wire/edge/error.ts";
import type { Journal } from "./journal.ts";

/** The shard. */
export interface AdoptionHost {
  /** Name of the object. */
  readonly name: string;
  readonly engine: Engine;
  readonly journal: Journal;
  /** Executes what writes; a failure resets the object. */
  write(write: () => void): void;
  /** Resolves when all that was written is on disk. */
  sync(): Promise<void>;
  /** A range has begun to be adopted: the table has another order. */
  onBegin(offer: RangeOffer): void;
  /** The range is in force: the shard goes on as after a start. Asks for the alarm in this turn. */
  onActive(): Promise<void>;
  /** Sets the alarm for what is due next. */
  setAlarm(): Promise<void>;
}

/** Of one shard. */
export class Adoption {
  readonly #env: Environment;
  readonly #host: AdoptionHost;
  /** The question under way: calls that come meanwhile wait for the same one. */
  #asking: Promise<boolean> | null = null;
  /** When the other shard is asked next, in ms since the epoch. */
  #askAtMs = 0;

  constructor(env: Environment, host: AdoptionHost) {
    this.#env = env;
    this.#host = host;
  }

  /** A range was adopted and is not in force. */
  get isPending(): boolean {
    const { placement, split } = this.#host.journal;
    return placement !== null && !split.isActive;
  }

  /** When the other shard is asked, ms since the epoch. */
  get deadlineMs(): number {
    this.#askAtMs ||= presentMs() + ADOPT_ASK_MS;
    return this.#askAtMs;
  }

  /** See `SplitCalls.adopt`. */
  async adopt(
    offer: RangeOffer,
    number: number,
    row: Uint8Array,
    usage: Uint8Array,
  ): Promise<AdoptOutcome> {
    const { journal, engine, name } = this.#host;
    const { place } = shardName.parse(name);
    // A name of another range would be served under this one for good.
    if (place.kind !== "split" || place.from !== offer.range.from) return "gap";
    journal.assertSeed(offer.placement);
    const before = journal.placement;
    // Rows have times of the other shard: to a clock that was read long ago they would seem to be ahead.
    engine.advance(presentMs());
    let outcome: AdoptOutcome = "gap";
    this.#host.write(() => (outcome = journal.adopt(offer, number, row, usage)));
    if (journal.placement !== before) {
      this.#host.onBegin(offer);
      this.#askAtMs = 0;
      await this.#host.setAlarm();
    }
    // Said even where answers come before the disk: the other shard gives away only what is safe here.
    await this.#host.sync();
    return outcome;
  }

  /** See `SplitCalls.given`. */
  async activate(attempt: number, parentMs: number): Promise<boolean> {
    const { journal, engine } = this.#host;
    const wasPending = this.isPending;
    engine.advance(presentMs());
    let isActive = false;
    this.#host.write(() => (isActive = journal.activate(attempt, parentMs)));
    if (isActive && wasPending) await this.#host.onActive();
    return isActive;
  }

  /**
   * Before a call: asks the other shard whether the range is in force, and does what follows.
   *
   * @throws ThrottrError `shards_unsettled` where it does not answer
   */
  async ask(): Promise<void> {
    if (await this.#hasAnswered()) return;
    throw new ThrottrError(
      "shards_unsettled",
      "the shard that this one has its range from does not answer; nothing was applied: try again",
    );
  }

  /** Whether the other shard has answered the question: an earlier one that is under way, or a new one. */
  async #hasAnswered(): Promise<boolean> {
    this.#asking ??= this.#askOnce().finally(() => (this.#asking = null));
    return await this.#asking;
  }

  async #askOnce(): Promise<boolean> {
    try {
      await this.#ask();
      return true;
    } catch (error) {
      logWarning("adoption_unasked", { shard: this.#host.name, error: String(error) });
      return false;
    }
  }

  async #ask(): Promise<void> {
    const { journal, name } = this.#host;
    const { namespace } = shardName.parse(name);
    const { range, parent, attempt } = journal.split;
    const parentName = shardName.at(namespace, parent!, journal.placement!.shards);
    const asked = shardStub(this.#env, parentName).verdictOn(range!.from, attempt);
    const { verdict, nowMs } = await withTimeout(asked, SPLIT_WAIT_MS);
    // It has lost its data, or is an old copy of before the attempt.
    if (verdict === "unknown") throw new Error(`${parentName} does not know of the attempt`);
    if (verdict === "given") await this.activate(attempt, nowMs);
    if (verdict === "givenUp") this.#host.write(() => journal.dropAdopted(attempt));
  }

  /** By the alarm. */
  async askByAlarm(): Promise<void> {
    this.#askAtMs = 0;
    await this.#hasAnswered();
  }
}
