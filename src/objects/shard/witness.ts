/**
 * Witness: an object that knows what the first shard of a namespace owns, so that the loss of that shard's database is noticed.
 *
 * All other shards are missed by the one that they have their data from. The first shard has none above it, and shards that it has
 * split off are found by their hashes, which it alone knew. So before data lies outside of the first shard, the object `namespace/witness`
 * stores what the first one says of ranges. A first shard without data asks it once, before it begins anew.
 *
 * A split that is given up leaves a witness that knows a range too many: that range is then empty where the loss is accepted.
 */
import type { FirstShard } from "../../base/calls/splits.ts";
import type { Environment } from "../../base/environment.ts";
import { logWarning } from "../../base/log.ts";
import { shardName } from "../../base/names.ts";
import { shardStub } from "../../base/stubs.ts";
import { orIfUnknown } from "../../base/unknown-method.ts";
import { isSameRange, type Range } from "../../wire/range.ts";
import type { Journal } from "./journal.ts";
import { initialRanges, type OwnRange } from "./own-range.ts";

/** As the first shard of a namespace uses it. */
export class Witness {
  readonly #env: Environment;
  readonly #namespace: string;
  readonly #journal: Journal;
  readonly #own: OwnRange;

  constructor(
    env: Environment,
    namespace: string,
    { journal, own }: { journal: Journal; own: OwnRange },
  ) {
    this.#env = env;
    this.#namespace = namespace;
    this.#journal = journal;
    this.#own = own;
  }

  /** What the first shard had; null where it had all of the namespace's data, or none. */
  async ask(): Promise<FirstShard | null> {
    return await orIfUnknown(this.#stub().witnessed(), () => null);
  }

  /** Before a split of the first shard: says what it will own. Fails where the witness can't be reached. */
  async note(range: Range, begins: readonly number[]): Promise<void> {
    const { placement, split } = this.#journal;
    const { shards, fingerprint } = placement!;
    const { from, to } = range;
    await this.#stub().witness({
      placement: { shards, fingerprint },
      range: { from, to },
      begins: [...begins],
      attempt: split.attempt,
    });
    this.#journal.isWitnessed = true;
  }

  /** Notes what lies outside of the first shard already, if that was not done: data of before, or of other first writes. */
  async noteOthers(): Promise<void> {
    if (this.#journal.isWitnessed || !this.#hasOthers()) return;
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
