/**
 * ShardClaim: which shards of a namespace have data, so that a database that has vanished is not taken for a new one.
 *
 * Shard 0 keeps a note of every other shard that the namespace began with and that has data, and knows the shards that have split.
 * A shard without data asks the witness and shard 0 before its first request, and shard 0 asks the witness and all others that the
 * namespace began with. Where data should be and is not, requests are refused until the operator accepts the loss; those for keys
 * that the shard had given away are led on to the shards that have them. A shard that has data never asks: ordinary requests cost no
 * call and no row.
 */
import { presentMs } from "../../base/clock.ts";
import { variableName } from "../../base/deployment.ts";
import type { Environment } from "../../base/environment.ts";
import type { Placement } from "../../wire/batch.ts";
import type { Journal } from "./journal.ts";
import { Registration } from "./registration.ts";
import { logError } from "../../base/log.ts";
import { shardName, type ShardPlace } from "../../base/names.ts";
import type { Timers } from "../../base/timers.ts";
import { livingBegins } from "./living-begins.ts";
import { initialRanges, NOTHING_YET, shardMoved, type OwnRange } from "./own-range.ts";
import { assertSamePlacement, assertSameSeed } from "./same-placement.ts";
import { readSettings } from "../../base/settings.ts";
import type { ShardCalls } from "../../base/calls/shard.ts";
import { shardStub } from "../../base/stubs.ts";
import { orIfUnknown } from "../../base/unknown-method.ts";
import { ThrottrError } from "../../wire/edge/error.ts";
import { beginsOf, type ShardRanges } from "../../wire/moved.ts";
import {
  CIRCLE,
  endOf,
  initialRange,
  isSameRange,
  isWithin,
  type Range,
} from "../../wire/range.ts";
import type { WitnessedShard } from "../../base/calls/splits.ts";
import { Witness } from "./witness.ts";

/** No shard of the namespace is at this place: a range that no caller asks for. */
const NO_RANGE: Range = { from: 0, to: 0xffffffff };

/** Whether two calls are both refused or both not, as `assertSamePlacement` and `assertSameSeed` judge them. */
function isJudgedAlike(one: Placement, other: Placement): boolean {
  if (one.fingerprint !== other.fingerprint) return false;
  const isRanged = one.range !== undefined && other.range !== undefined;
  return isRanged || (one.range === other.range && one.shards === other.shards);
}

/** The shard. */
interface ClaimHost extends Timers {
  /** Executes what writes; a failure resets the object. */
  write(write: () => void): void;
}

/** Of one shard; shard 0 has a part of its own in most methods. */
export class ShardClaim {
  readonly #env: Environment;
  /** Of the object. */
  readonly #name: string;
  readonly #namespace: string;
  readonly #place: ShardPlace;
  /** Of a shard that the namespace began with. */
  readonly #index: number;
  readonly #journal: Journal;
  readonly #host: ClaimHost;
  readonly #own: OwnRange;
  /** Of use in shard 0. */
  readonly #registration: Registration;
  /** Of use in shards that the namespace began with. */
  readonly #witness: Witness;
  /** `ACCEPT_DATA_LOSS`: the operator knows that data is missing, and wants to go on without it. */
  readonly #isLossAccepted: boolean;
  /** The claim under way, and the call that it judges: calls that it would judge alike wait for the same one. */
  #pending: { readonly asked: Placement; readonly work: Promise<void> } | null = null;
  /** The shard has no data, and should not have any. */
  #isNew = false;
  /** How many ranges the namespace began with; 0 while that is not known. */
  #shards = 0;
  /** Shards whose data is gone, and of which the log says so. */
  readonly #lost = new Set<string>();

  /** @param shard name of the object */
  constructor(
    env: Environment,
    shard: string,
    { journal, own }: { journal: Journal; own: OwnRange },
    host: ClaimHost,
  ) {
    const { namespace, place } = shardName.parse(shard);
    this.#env = env;
    this.#name = shard;
    this.#namespace = namespace;
    this.#place = place;
    // A shard that a split has made has its data from another shard, never by a claim.
    this.#index = place.kind === "initial" ? place.index : NaN;
    this.#journal = journal;
    this.#own = own;
    this.#host = host;
    this.#registration = new Registration(env, namespace, journal, host);
    this.#witness = new Witness(env, { namespace, index: this.#index }, { journal, own });
    this.#isLossAccepted = readSettings(env).ACCEPT_DATA_LOSS === "on";
  }

  /** The shard has no data yet, or is being made to have some. */
  get isOpen(): boolean {
    return this.#pending !== null || this.#journal.placement === null;
  }

  /**
   * Before the first batch: no two shards ever hold data of two placements. A shard that the namespace did not begin with,
   * or not with the range that is asked for, stays without data; so does one whose data is gone, when it is asked for keys
   * that it had given away.
   *
   * @throws Error `shards_mismatch`, `shard_data_missing`
   */
  async claim(placement: Placement): Promise<void> {
    this.#journal.assertSeed(placement);
    const had = await this.#witnessed();
    if (had !== null && this.#journal.placement === null) {
      assertSameSeed(had.placement, placement);
      if (!this.#isLossAccepted) return await this.#assertOfOthers(placement, had);
    }
    while (this.#pending !== null && !isJudgedAlike(this.#pending.asked, placement)) {
      // It may be refused by its secret; whether this call is, too, is found out next.
      await this.#pending.work.catch(() => {});
    }
    this.#pending ??= {
      asked: placement,
      work: this.#create(placement, had).finally(() => (this.#pending = null)),
    };
    await this.#pending.work;
  }

  /** What the witness knows of this shard, which has no data; of one that a split has made it never knows anything. */
  async #witnessed(): Promise<WitnessedShard | null> {
    return this.#place.kind === "split" ? null : await this.#witness.ask();
  }

  /**
   * Checks that a call is for keys of other shards than this one, whose data is gone.
   *
   * @param had what the witness knows
   * @throws Error `shard_data_missing`
   */
  async #assertOfOthers({ range }: Placement, had: WitnessedShard): Promise<void> {
    const isOfOthers = range !== undefined && !isWithin(range, had.range);
    if (!isOfOthers) throw await this.#missing();
    await this.#assertLost(this.#name);
  }

  /**
   * Before records of a shard without data are listed.
   *
   * Where the loss of data is accepted that other shards know of, the shard has data behind this: none of its records, but its range.
   *
   * @throws Error `shard_data_missing`, `shard_moved`
   */
  async assertNew(placement: Placement): Promise<void> {
    if (this.#place.kind === "split") await this.claim(placement);
    else if (!this.#isNew) await this.#assertInitialNew(placement, await this.#witnessed());
    if (this.#journal.placement !== null) return;
    const { range } = placement;
    if (range === undefined || isSameRange(range, await this.#rangeWithoutData(placement))) return;
    throw shardMoved(range);
  }

  /** @param had what the witness knows */
  async #assertInitialNew(placement: Placement, had: WitnessedShard | null): Promise<void> {
    // The first batch may have come meanwhile.
    if (this.#journal.placement !== null) return;
    if (had !== null) {
      // Where its loss is accepted, it has its old range, which may be less than that of its index.
      if (this.#isLossAccepted) return await this.claim(placement);
      await this.#assertOfOthers(placement, had);
      throw shardMoved(had.range);
    }
    const isMissed = !this.#isLossAccepted && (await this.#isMissed(placement));
    // Then others know of data that the shard has.
    if (this.#journal.placement !== null) return;
    if (isMissed) throw await this.#missing();
    this.#isNew = true;
  }

  /** Other shards know that this one had data. */
  async #isMissed({ shards }: Placement): Promise<boolean> {
    if (this.#index === 0) return (await this.#othersWithData(shards)).length > 0;
    return await orIfUnknown(this.#first().hasNoted(this.#index), () => false);
  }

  /**
   * What this shard says of ranges; without data, what the first one says. Where its data is gone, it is what the shard had: so
   * callers find the shards that it has split off.
   *
   * @throws Error `shards_mismatch`, `shard_data_missing`
   */
  async ranges(placement: Placement): Promise<ShardRanges> {
    const { fingerprint, shards } = placement;
    const inForce = this.#journal.placement;
    if (inForce !== null) assertSameSeed(inForce, placement);
    if (this.#own.isInForce) return this.#own.ranges;
    const had = this.#isNew ? null : await this.#witnessed();
    if (had !== null && !this.#isLossAccepted && this.#journal.placement === null) {
      await this.#assertLost(this.#name);
      return { shards: had.placement.shards, range: had.range, begins: had.begins };
    }
    if (this.#index !== 0) return await this.#firstRanges(placement);
    if (!this.#isNew) await this.#assertInitialNew({ fingerprint, shards }, had);
    return this.#own.isInForce ? this.#own.ranges : NOTHING_YET;
  }

  /** What the first shard says of ranges; one of an earlier release says what the namespace began with. */
  async #firstRanges(placement: Placement): Promise<ShardRanges> {
    return await orIfUnknown(this.#first().ranges(placement), async () => {
      const { shards } = await this.#first().claim(placement);
      return initialRanges(0, shards);
    });
  }

  /** The range of a shard without data: that of its index, once the namespace has begun; until then the first has all. */
  async #rangeWithoutData(placement: Placement): Promise<Range> {
    if (this.#index === 0) return NOTHING_YET.range;
    this.#shards ||= (await this.#firstRanges(placement)).shards;
    return this.#index < this.#shards ? initialRange(this.#index, this.#shards) : NO_RANGE;
  }

  /**
   * In shard 0: the placement in force, recorded at first use.
   *
   * @param index of the shard that asks and has no data; a release before 0.5.0 does not say it
   * @throws Error `shard_data_missing` when that shard, or this one, should have data
   */
  async placementFor(placement: Placement, index: number | null): Promise<Placement> {
    const { shards, fingerprint } = placement;
    // Whatever range the other one is asked for.
    if (this.#journal.placement === null) await this.claim({ shards, fingerprint });
    if (index !== null && this.#journal.hasNoted(index) && !this.#isLossAccepted) {
      throw await this.#missing(shardName.format(this.#namespace, index));
    }
    return this.#journal.placement!;
  }

  /** In shard 0: notes that another shard has data. */
  async note(index: number): Promise<void> {
    if (this.#journal.placement === null) throw await this.#missing();
    if (this.#journal.hasNoted(index)) return;
    this.#host.write(() => this.#journal.noteShard(index));
    this.#host.waitUntil(this.#witness.noteOthers());
  }

  /**
   * Before a split: a shard that the namespace began with says what it will own, so that it does not begin anew with more where
   * its database is lost.
   *
   * @param begins of all ranges that it knows of then
   */
  async noteSplit(range: Range, begins: readonly number[]): Promise<void> {
    if (this.#place.kind === "initial") await this.#witness.note(range, begins);
  }

  /** After a split that was given up: where it can't be said, a range too many is missed if the shard's database is lost. */
  async noteGivenUp(): Promise<void> {
    if (this.#place.kind === "initial") await this.#witness.noteOwn();
  }

  /**
   * After a start: shard 0 may not have been told of the data, which may be of a release before 0.5.0, nor the deployment
   * of the namespace.
   */
  tell(): void {
    if (this.#journal.placement === null || this.#place.kind === "split") return;
    if (this.#index !== 0) {
      this.#host.waitUntil(this.#tellFirst());
      return;
    }
    this.#registration.begin();
    this.#host.waitUntil(this.#witness.noteOthers());
  }

  async #tellFirst(): Promise<void> {
    if (this.#journal.isNoted) return;
    try {
      await this.#tell();
    } catch (error) {
      logError("shard_note_failed", {
        shard: shardName.format(this.#namespace, this.#index),
        error: String(error),
      });
    }
  }

  /**
   * The first batch of a shard without data.
   *
   * @param had what the witness knows of it, whose loss is accepted then
   */
  async #create(placement: Placement, had: WitnessedShard | null): Promise<void> {
    if (this.#journal.placement !== null) return;
    if (this.#place.kind === "split") await this.#claimSplit(placement, this.#place.from);
    else if (this.#index === 0) await this.#claimFirst(placement, had);
    else await this.#claimInitial(placement, had);
  }

  /**
   * A shard that the namespace began with, and not the first one: that one says whether it may have data.
   *
   * @param had as of `#create`
   */
  async #claimInitial(placement: Placement, had: WitnessedShard | null): Promise<void> {
    const index = this.#index;
    const { range } = placement;
    const inForce = await this.#first().claim(placement, index);
    if (range === undefined) assertSamePlacement(inForce, placement);
    else assertSameSeed(inForce, placement);
    const { shards, fingerprint } = inForce;
    this.#shards = shards;
    const isInitial = range === undefined || isSameRange(range, initialRange(index, shards));
    if (had === null && (index >= shards || !isInitial)) return;
    const begins = await this.#livingBegins(had);
    this.#host.write(() => {
      this.#journal.create({ shards, fingerprint }, []);
      if (had !== null) this.#inherit(had, begins);
    });
    // A note of data that a crash takes back would refuse a shard that has lost nothing: the platform's output
    // gate holds the call until the row is on disk.
    await this.#tell();
  }

  /**
   * Shard 0 asks all others, as no one else but the witness would miss its data.
   *
   * @param had as of `#create`
   */
  async #claimFirst(asked: Placement, had: WitnessedShard | null): Promise<void> {
    const { shards, fingerprint } = had?.placement ?? asked;
    const others = await this.#othersWithData(shards);
    if (others.length > 0 && !this.#isLossAccepted) throw await this.#missing();
    const begins = await this.#livingBegins(had);
    this.#host.write(() => {
      this.#journal.create({ shards, fingerprint }, others);
      if (had !== null) this.#inherit(had, begins);
    });
    this.#registration.begin();
  }

  /** Where the ranges begin that the shard had given away, as the shards there say: the witness may not know them all. */
  async #livingBegins(had: WitnessedShard | null): Promise<number[]> {
    if (had === null) return [];
    const { begins, placement, range } = had;
    const { shards } = placement;
    const given = { from: endOf(range), to: initialRange(this.#index, shards).to };
    if (given.from === endOf(given)) return [...begins];
    return await livingBegins(begins, given, async (at) => {
      const shard = shardStub(this.#env, shardName.at(this.#namespace, at, shards));
      return (await orIfUnknown(shard.shardState(), () => null))?.range ?? null;
    });
  }

  /** The shards that this one has split off are where they were. */
  #inherit({ placement: { shards }, range, attempt }: WitnessedShard, begins: number[]): void {
    const hasSplit = attempt > 0 || !isSameRange(range, initialRange(this.#index, shards));
    if (hasSplit) this.#journal.split.inherit(range, begins, attempt);
  }

  /**
   * A shard that a split has made has its data from the shard that split. One without data has lost it if the shard knows of it
   * that the namespace began with and that had its range then.
   *
   * @param from where its range begins
   */
  async #claimSplit(placement: Placement, from: number): Promise<void> {
    const first = await this.#firstRanges(placement);
    const { shards } = first;
    const index = Math.floor((from * shards) / CIRCLE);
    const above = index === 0 ? first : await this.#shard(index).ranges(placement);
    const begins = [...beginsOf(first), ...beginsOf(above)];
    // The range may have been adopted meanwhile.
    if (this.#journal.placement !== null || !begins.includes(from)) return;
    if (!this.#isLossAccepted) throw await this.#missing();
    const to = Math.min(CIRCLE, ...begins.filter((at) => at > from)) % CIRCLE;
    // Above all that the shard has begun before: what is left of those is given up.
    const attempt = Math.floor(presentMs() / 1000);
    const { fingerprint } = placement;
    this.#host.write(() => {
      this.#journal.create({ shards, fingerprint }, []);
      const parent = initialRange(index, shards).from;
      this.#journal.split.inherit({ from, to }, [], attempt, parent);
    });
  }

  /**
   * Notes this shard's data at shard 0. It comes after the data's own row: a crash between the two is made good by
   * `tell` at the next start.
   */
  async #tell(): Promise<void> {
    await orIfUnknown(
      this.#first()
        .note(this.#index)
        .then(() => this.#journal.setNoted()),
      () => {},
    );
  }

  /** A call to each other shard, once in the life of a namespace. */
  async #othersWithData(shards: number): Promise<number[]> {
    const others = Array.from({ length: shards - 1 }, (_, i) => i + 1);
    const answers = await Promise.all(
      others.map(async (index) => await orIfUnknown(this.#shard(index).hasData(), () => false)),
    );
    return others.filter((_, i) => answers[i]);
  }

  /**
   * Checks that the data of a shard is gone indeed, and logs it once for each instance: every request meets it.
   *
   * @throws Error where a new stub leads to a copy of the shard that has the data: a network partition has left this one behind,
   * which started before there was any. Nothing is lost then, and an operator has nothing to restore.
   */
  async #assertLost(shard: string): Promise<void> {
    if (this.#lost.has(shard)) return;
    const present = await orIfUnknown(shardStub(this.#env, shard).shardState(), () => null);
    if (present !== null) throw new Error(`an old copy of shard ${shard} is asked`);
    logError("shard_data_missing", { shard });
    this.#lost.add(shard);
  }

  /** The refusal of a shard whose data is gone. */
  async #missing(shard = this.#name): Promise<ThrottrError> {
    await this.#assertLost(shard);
    return new ThrottrError(
      "shard_data_missing",
      `the database of shard ${shard} is empty, although it had data: restore it ` +
        `from a backup, or set ${variableName("ACCEPT_DATA_LOSS")}=on to start without it`,
    );
  }

  #first(): DurableObjectStub<ShardCalls> {
    return this.#shard(0);
  }

  #shard(index: number): DurableObjectStub<ShardCalls> {
    return shardStub(this.#env, shardName.format(this.#namespace, index));
  }
}
