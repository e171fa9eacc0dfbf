/**
 * Witness: an object that knows what the shards own that a namespace began with, so that one whose database is lost does not begin
 * anew with more than it had.
 *
 * Shards that splits have made are missed by the one that they have their data from. Those that the namespace began with have none
 * above them, and shards that they have split off are found by their hashes, which they alone knew. So before data lies outside of
 * such a shard, the object `namespace/witness` stores what it says of ranges. A shard without data asks it before it begins anew.
 * The first shard also tells it that others have data: so its own loss is noticed.
 *
 * A split that is given up is taken back here, too. Until then the witness knows a range too many, which no shard has.
 */
import type { WitnessedShard } from "../../base/calls/splits.ts";
import type { Environment } from "../../base/environment.ts";
import { logWarning } from "../../base/log.ts";
import { shardName } from "../../base/names.ts";
import { shardStub } from "../../base/stubs.ts";
import { orIfUnknown } from "../../base/unknown-method.ts";
import { isSameRange, type Range } from "../../wire/range.ts";
import type { Journal } from "./journal.ts";
import { initialRanges, type OwnRange } from "./own-range.ts";

/** As a shard uses it that its namespace began with. */
export class Witness {
  readonly #env: Environment;
  readonly #namespace: string;
  /** Of the shard. */
  readonly #index: number;
  readonly #journal: Journal;
  readonly #own: OwnRange;

  constructor(
    env: Environment,
    { namespace, index }: { namespace: string; index: number },
    { journal, own }: { journal: Journal; own: OwnRange },
  ) {
    this.#env = env;
    this.#namespace = namespace;
    this.#index = index;
    this.#journal = journal;
    this.#own = own;
  }

  /** What the shard had; null where it has not split, and is not the first one with data outside of it. */
  async ask(): Promise<WitnessedShard | null> {
    return await orIfUnknown(this.#stub().witnessed(this.#index), () => null);
  }

  /** Before a split of the shard: says what it will own. Fails where the witness can't be reached. */
  async note(range: Range, begins: readonly number[]): Promise<void> {
    const { placement, split } = this.#journal;
    const { shards, fingerprint } = placement!;
    const { from, to } = range;
    await this.#stub().witness(this.#index, {
      placement: { shards, fingerprint },
      range: { from, to },
      begins: [...begins],
      attempt: split.attempt,
    });
    this.#journal.isWitnessed = true;
  }

  /** Of the first shard: notes what lies outside of it already, if that was not done: data of before, or of other first writes. */
  async noteOthers(): Promise<void> {
    // A split says it itself, and says more.
    if (this.#journal.isWitnessed || this.#journal.split.split !== null) return;
    if (this.#hasOthers()) await this.noteOwn();
  }

  /** Says what the shard owns now. Where the witness can't be reached, the log says so. */
  async noteOwn(): Promise<void> {
    try {
      const { range, begins } = this.#own.ranges;
      await this.note(range, begins);
    } catch (error) {
      logWarning("witness_untold", { namespace: this.#namespace, error: String(error) });
    }
  }

  #hasOthers(): boolean {
    const { shards, range } = this.#own.ranges;
    const initial = initialRanges(0, shards).range;
    return !this.#journal.noted.isEmpty || !isSameRange(range, initial);
  }

  #stub(): ReturnType<typeof shardStub> {
    return shardStub(this.#env, shardName.witness(this.#namespace));
  }
}
