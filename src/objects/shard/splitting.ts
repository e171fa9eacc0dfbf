/**
 * Splitting: how a shard gives the upper part of its range to a new shard, while it serves all of it.
 *
 * The attempt is stored; then the records of the part are copied to the new shard, and with them every change. When little
 * is left, a gate holds calls back, the last changes go over, and one row says that the part is given. That row is the moment
 * of the split: before it this shard owns all, and after it the other one has all of the part on its disk. Then the other
 * shard is told, again and again until it has answered, also after a restart.
 *
 * Each message says what is on disk already, as the platform's output gate holds calls until the rows before them are. So a
 * crash, here or there, leaves one owner of each key.
 */
import type { RangeOffer, SplitFigures } from "../../base/calls/splits.ts";
import { variableName } from "../../base/deployment.ts";
import type { Environment } from "../../base/environment.ts";
import { withTimeout } from "../../base/in-time.ts";
import { logWarning } from "../../base/log.ts";
import { shardName } from "../../base/names.ts";
import { shardStub } from "../../base/stubs.ts";
import { inTurns, turn } from "../../base/turn.ts";
import { middleBySize } from "../../engine/size-choice.ts";
import {
  SPLIT_KEEP_MS,
  SPLIT_RESUME_MS,
  SPLIT_SWITCH_BYTES,
  SPLIT_SWITCH_MS,
  SPLIT_WAIT_MS,
} from "../../engine/sizes.ts";
import { ThrottrError } from "../../wire/edge/error.ts";
import { endOf } from "../../wire/range.ts";
import { AttemptFailed, RangeTransfer } from "./range-transfer.ts";
import { isWideEnough, middleOf, SplitPace } from "./split-pace.ts";
import { SplitProblem, type SplitCause } from "./split-problem.ts";
import { SplitPhase, type SplitRows } from "./split-rows.ts";
import type { SplittingHost } from "./splitting-host.ts";
import { isDue, TELL_AWAKE_MS_MAX, TELL_MS_MIN, Telling } from "./telling.ts";

/** Why a shard that has most of its bytes in one place does not split. */
const INDIVISIBLE =
  "a few large records are most of the shard: no place has a fifth of its bytes on either side";

/** The most shards of a namespace that splits because of too many calls can make. */
const LOAD_SHARDS_MAX = 16;

/** Of one shard. */
export class Splitting {
  readonly #env: Environment;
  readonly #host: SplittingHost;
  readonly #pace = new SplitPace();
  /** Whether the shard is looking for the hash to split at, by the sizes of its records. */
  #isWeighing = false;
  /** The copy on its way; null when none is. */
  #transfer: RangeTransfer | null = null;
  /** The last call of `host.noteSplit`, which may be under way; null before the first attempt of this instance. */
  #announcing: Promise<void> | null = null;
  /** Why the shard has last begun to split. */
  #cause: SplitCause = "operator";
  readonly #problem: SplitProblem;
  /** Tells the other shard that the range is its own. */
  readonly #telling: Telling;
  /** Whether `#hint` is under way. */
  #isHinting = false;
  /** When records that were given away are dropped, ms since the epoch; Infinity where there are none. */
  #forgetAtMs = Infinity;

  constructor(env: Environment, host: SplittingHost) {
    this.#env = env;
    this.#host = host;
    this.#problem = new SplitProblem((cause) => host.isWanted(cause));
    this.#telling = new Telling({
      ...host,
      given: async (at, attempt, nowMs) => await this.#shardAt(at).given(attempt, nowMs),
      onUntold: (reason) => this.#noteProblem(reason, "untold"),
      onTold: () => {
        this.#problem.clear();
        host.onChange();
      },
    });
  }

  /** The split under way; null when none is. */
  get figures(): SplitFigures | null {
    const { split, attempt } = this.#host.journal.split;
    return split && { at: split.at, attempt, isGiven: split.phase === SplitPhase.given };
  }

  /** See `ShardState.splitProblem`. */
  get problem(): string | null {
    return this.#problem.reasonAt(this.#host.nowMs());
  }

  /**
   * Before a commit. One that callers wait for waits for room for the other shard's rows, then looks again.
   *
   * @param isDue the commit has to be written now
   * @returns null when it may be written
   */
  makeRoom(isDue: boolean): Promise<void> | null {
    const room = isDue ? null : (this.#transfer?.room ?? null);
    if (room === null && this.#transfer?.copy.isOverfull)
      this.giveUp("the other shard is too slow");
    return room;
  }

  /**
   * After a start: goes on with what splits have left to do. All of that writes a row, and a full disk restarts the shard for it: so it
   * comes later, and the shard serves reads until then.
   */
  resume(): void {
    if (this.#host.journal.split.isToHint) this.#host.waitUntil(this.#hintAgain());
    if (this.figures !== null) this.#host.waitUntil(this.#goOn(this.figures));
  }

  async #hintAgain(): Promise<void> {
    await this.#host.wait(SPLIT_RESUME_MS);
    await this.#hint();
  }

  async #goOn({ at, attempt, isGiven }: SplitFigures): Promise<void> {
    await this.#host.wait(SPLIT_RESUME_MS);
    // Meanwhile another attempt may have begun, or the split may have been given up.
    if (this.#host.journal.split.attempt !== attempt || this.figures === null) return;
    if (isGiven) await this.#telling.tell(at);
    // So an operator can stop a split that crashes the shard again and again: by a lower `SHARDS_MAX`.
    else if (!this.#isWideEnough(at)) this.giveUp(this.#tooNarrow);
    // The cause is not stored. Calls are counted anew since the start, so any cause but the size is taken for an operator's.
    else await this.#run(at, this.#host.isWanted("size") ? "size" : "operator");
  }

  /**
   * Begins a split.
   *
   * @param at first hash of the upper part; null for the middle of the records, by their bytes
   * @throws ThrottrError `split_refused`
   */
  async begin(at: number | null): Promise<SplitFigures> {
    this.#assertIdle();
    const weighed = at ?? (await this.#middle());
    this.#assertIdle();
    const { range } = this.#host.own.ranges;
    const middle = weighed ?? middleOf(range);
    if (!Number.isInteger(middle) || middle <= range.from || middle >= endOf(range)) {
      throw refused(`the shard owns the hashes from ${range.from} to ${endOf(range) - 1}`);
    }
    if (!this.#isWideEnough(middle)) throw refused(this.#tooNarrow);
    this.#host.waitUntil(this.#run(middle, "operator"));
    return this.figures!;
  }

  /** The shard has grown large: splits it, if that is possible and was not tried a moment ago. */
  noteLarge(): void {
    const nowMs = this.#host.nowMs();
    if (this.#isWeighing || !this.#pace.mayTry(nowMs)) return;
    const hindrance = this.#hindrance();
    if (hindrance !== null && hindrance !== this.#tooNarrow) return;
    this.#pace.noteAttempt(nowMs);
    if (hindrance !== null) return this.#noteTooLarge(hindrance);
    this.#isWeighing = true;
    this.#host.waitUntil(this.#splitBySize().finally(() => (this.#isWeighing = false)));
  }

  /**
   * The shard has too many calls: splits it, if that is possible.
   *
   * @param at where its calls are divided
   * @returns whether it splits
   */
  noteHot(at: number): boolean {
    const { range } = this.#host.own.ranges;
    const shardsMax = Math.min(LOAD_SHARDS_MAX, this.#host.shardsMax);
    if (this.#isWeighing || this.#hindrance() !== null || !isWideEnough(range, at, shardsMax)) {
      return false;
    }
    this.#host.waitUntil(this.#run(at, "load"));
    return true;
  }

  async #splitBySize(): Promise<void> {
    const middle = await this.#middle();
    // Another split may have begun meanwhile.
    if (this.#hindrance() !== null) return;
    if (middle === null) this.#noteTooLarge(INDIVISIBLE);
    else if (!this.#isWideEnough(middle)) this.#noteTooLarge(this.#tooNarrow);
    else await this.#run(middle, "size");
  }

  /** Notes why a split has failed, or does not end, for the log, the overview and the metrics. */
  #noteProblem(reason: string, cause: SplitCause | "untold"): void {
    this.#problem.note(reason, cause, this.#host.nowMs());
    const event = cause === "untold" ? "split_untold" : "split_given_up";
    logWarning(event, { shard: this.#host.name, error: reason });
    this.#host.onChange();
  }

  /** Notes why a shard that is too large can't split by itself. With `SHARDS_MAX=1` it is not meant to. */
  #noteTooLarge(reason: string): void {
    if (this.#host.shardsMax === 1) return;
    this.#noteProblem(reason, "size");
  }

  /** After a commit: the shard may have become smaller, or time may have passed, so that a noted problem has ended. */
  noteCommit(): void {
    if (this.#problem.endsAt(this.#host.nowMs())) this.#host.onChange();
  }

  /** The hash at which the range can be divided into two parts of about equal size in bytes; null if there is none. */
  async #middle(): Promise<number | null> {
    const { engine, seed, own } = this.#host;
    const { range } = own.ranges;
    return middleBySize(await inTurns(engine.ownership.weigh(range, seed)), range);
  }

  #assertIdle(): void {
    const hindrance = this.#hindrance();
    if (hindrance !== null) throw refused(hindrance);
  }

  /** Why the shard can't split now; null when it can. */
  #hindrance(): string | null {
    const { journal, engine, own } = this.#host;
    if (journal.placement === null) return "the shard has no data";
    if (!journal.split.isActive) return "the range of the shard is not in force yet";
    if (journal.split.split?.phase === SplitPhase.given || this.#transfer !== null)
      return "a split of the shard is under way";
    if (engine.ownership.isForgetting) return "the last split of the shard was a moment ago";
    return this.#isWideEnough(middleOf(own.ranges.range)) ? null : this.#tooNarrow;
  }

  #isWideEnough(at: number): boolean {
    return isWideEnough(this.#host.own.ranges.range, at, this.#host.shardsMax);
  }

  get #tooNarrow(): string {
    return `a part of the range would be narrower than ${variableName("SHARDS_MAX")}=${this.#host.shardsMax} admits`;
  }

  /** Stops the split under way, unless the part was given already. */
  giveUp(reason: string): void {
    const { engine, journal } = this.#host;
    if (journal.split.split?.phase !== SplitPhase.copying) return;
    if (engine.ownership.copy !== null) engine.ownership.giveUp();
    this.#transfer?.stop();
    this.#transfer = null;
    this.#host.write(() => journal.split.giveUp());
    this.#host.waitUntil(this.#takeBack(journal.split.attempt));
    this.#noteProblem(reason, this.#cause);
  }

  /** Makes an attempt. Its row is written and its copy begins in one turn, before anything is awaited. */
  async #run(at: number, cause: SplitCause): Promise<void> {
    const { journal, engine, seed } = this.#host;
    this.#cause = cause;
    this.#host.write(() => journal.split.begin(at));
    const offer = this.#offerFrom(at);
    const copy = engine.ownership.copyRange(offer.range, seed);
    const transfer = new RangeTransfer(this.#host, copy, async (number, { row, usage }) => {
      return await this.#shardAt(at).adopt(offer, number, row, usage);
    });
    this.#transfer = transfer;
    this.#host.onChange();
    try {
      await transfer.prepare(this.#announce(at));
      await this.#copy(transfer);
    } catch (error) {
      if (!(error instanceof AttemptFailed)) throw error;
      if (this.#transfer === transfer) this.giveUp(error.message);
      return;
    }
    this.#transfer = null;
    this.#pace.noteSuccess();
    await Promise.all([this.#hint(), this.#telling.tell(at), this.#forgetLater()]);
  }

  #offerFrom(at: number): RangeOffer {
    const { placement, hashKey, split } = this.#host.journal;
    const { shards, fingerprint } = placement!;
    const { from, to } = this.#host.own.ranges.range;
    const range = { from: at, to };
    return {
      placement: { shards, fingerprint },
      hashKey,
      range,
      parent: from,
      attempt: split.attempt,
    };
  }

  async #announce(at: number): Promise<void> {
    const { range, begins } = this.#host.own.ranges;
    this.#announcing = this.#host.noteSplit({ from: range.from, to: at }, [...begins, at]);
    await this.#announcing;
  }

  /** Takes back the announcement of an attempt that is over: after it has arrived, and unless another attempt has begun. */
  async #takeBack(attempt: number): Promise<void> {
    await this.#announcing?.catch(() => {});
    const { split } = this.#host.journal;
    if (split.split === null && split.attempt === attempt) await this.#host.noteGivenUp();
  }

  /** Copies the whole range, and gives it away. */
  async #copy(transfer: RangeTransfer): Promise<void> {
    const { copy } = transfer;
    for (;;) {
      const isShort = copy.isWalked && copy.queuedBytes <= SPLIT_SWITCH_BYTES;
      if (isShort && (await this.#switch(transfer))) return;
      if (await transfer.send()) continue;
      if (!copy.step()) continue;
      await turn();
    }
  }

  /**
   * Hands the last changes over, while calls wait, and gives the range away.
   *
   * Other changes of records, such as leases that end, don't wait. They go over with the rest, as the range is given in a turn in
   * which no change is left to hand over.
   *
   * @returns false where the other shard was too slow
   */
  async #switch(transfer: RangeTransfer): Promise<boolean> {
    const { engine, journal, gate, own } = this.#host;
    gate.close();
    try {
      const late = this.#host.wait(SPLIT_SWITCH_MS).then(() => true);
      for (;;) {
        if (engine.isDirty) this.#host.write(() => journal.append());
        if (transfer.isTaken) {
          const { range } = own.ranges;
          this.#host.write(() => journal.give(range));
          own.former = range;
          return true;
        }
        if (await Promise.race([late, transfer.send().then(() => false)])) return false;
      }
    } finally {
      gate.open();
      // What the last commits had is due as well, whatever becomes of the attempt.
      this.#host.waitUntil(this.#host.setAlarm());
    }
  }

  /** When the alarm has something to do, ms since the epoch; Infinity for never. */
  get deadlineMs(): number {
    return Math.min(this.#telling.atMs, this.#forgetAtMs);
  }

  /** Does what is due; the alarm calls it. */
  async runDue(): Promise<void> {
    const nowMs = this.#host.nowMs();
    const { split } = this.#host.journal.split;
    if (isDue(this.#forgetAtMs, nowMs)) await this.#forget();
    if (split !== null) this.#telling.runDue(split.at);
  }

  /** See `SplitCalls.noteSplit`. */
  noteSplit(begins: readonly number[]): boolean {
    const { journal } = this.#host;
    if (journal.placement === null) return false;
    // One row: where a full disk refuses it, the caller tries again, and nothing has changed here.
    if (journal.split.noteGone(begins)) this.#host.waitUntil(this.#hint());
    return true;
  }

  /**
   * Tells the shard that this one was split off from where other ranges begin, as doors may come by way of that one. If it has
   * no data, or does not answer for about a minute, the next start tells it.
   */
  async #hint(): Promise<void> {
    if (this.#isHinting) return;
    this.#isHinting = true;
    const { split } = this.#host.journal;
    for (let pauseMs = TELL_MS_MIN; split.isToHint; pauseMs *= 2) {
      const isTaken = await this.#sendHint(split);
      if (isTaken === false || pauseMs > TELL_AWAKE_MS_MAX) break;
      if (isTaken === null) await this.#host.wait(pauseMs);
    }
    this.#isHinting = false;
  }

  /** Whether the other shard has taken the hint; null if it does not answer, or if its answer could not be stored. */
  async #sendHint({ parent, gone }: SplitRows): Promise<boolean | null> {
    try {
      const noted = this.#shardAt(parent!).noteSplit([...gone]);
      if (!(await withTimeout(noted, SPLIT_WAIT_MS))) return false;
      // If a full disk refuses this row, the next attempt tells the same again.
      this.#host.journal.split.noteHinted(gone.length);
      return true;
    } catch {
      return null;
    }
  }

  /** Drops what was given away: at once, or, if a listing may be under way, when it has had time to end. */
  async #forgetLater(): Promise<void> {
    const nowMs = this.#host.nowMs();
    if (nowMs - this.#host.listedAtMs() >= SPLIT_KEEP_MS) return await this.#forget();
    this.#forgetAtMs = nowMs + SPLIT_KEEP_MS;
    await this.#host.setAlarm();
  }

  async #forget(): Promise<void> {
    this.#forgetAtMs = Infinity;
    this.#host.own.former = null;
    for (let cursor: number | null = 0; cursor !== null;) {
      cursor = this.#host.engine.ownership.forgetStep(cursor);
      await turn();
    }
  }

  /** The shard whose range begins at a hash; a new stub each time, as one whose object was reset stays broken. */
  #shardAt(at: number): ReturnType<typeof shardStub> {
    const { name, journal } = this.#host;
    const { namespace } = shardName.parse(name);
    return shardStub(this.#env, shardName.at(namespace, at, journal.placement!.shards));
  }
}

function refused(reason: string): ThrottrError {
  return new ThrottrError("split_refused", `${reason}; nothing was changed`);
}
