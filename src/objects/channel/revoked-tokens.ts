/**
 * The revoked tokens of a namespace, in its Directory; those of tokens for all namespaces, in that of the deployment.
 *
 * The list is one value, so a change of it is one row. Doors fetch it, and may go on for a minute with what they know. Hubs
 * are told, by the alarm: at once, and again when every door knows, as a door that did not may have opened a connection
 * meanwhile. The alarm is stored with the change, so a crash between the two loses neither.
 */
import { presentMs } from "../../base/clock.ts";
import {
  NAMESPACES_TOLD_AT_ONCE,
  OPENING_MS_MAX,
  REVOCATIONS_TRUSTED_MS,
} from "../../engine/sizes.ts";
import {
  NO_REVOCATIONS,
  tokensInForce,
  withAllBefore,
  withToken,
  type Revocations,
} from "../../engine/revocations.ts";

const LIST = "revocations";
const TELLING = "revocations:telling";

/** A door that has trusted its list to the end then opens a connection, with which a Hub is listed a moment later. */
const TELL_AGAIN_MS = REVOCATIONS_TRUSTED_MS + OPENING_MS_MAX + 5000;
/** Second rounds begin at multiples of this: changes in quick succession share one. */
const AGAIN_STEP_MS = 5000;
/** After a Hub or a Directory that failed. */
const RETRY_MS = 10_000;
/** Of namespaces that did not answer, this many are remembered. */
const MISSED_MAX = NAMESPACES_TOLD_AT_ONCE;
/** Then a Hub that fails is given up: none hangs for so long without being reset, which ends its connections. */
const GIVE_UP_MS = 15 * 60_000;

/** What is left to tell of the last change. */
interface Telling {
  readonly changedAtMs: number;
  readonly dueAtMs: number;
  /** All have been told once. */
  readonly isAgain: boolean;
  /**
   * When the second rounds begin that follow the present round, in order. Release 0.4 stores none: its one second round is for the
   * last change.
   */
  readonly again?: readonly number[];
  /** The last namespace that was told, in the Directory of the deployment. */
  readonly after: string | null;
  /** Namespaces that did not answer: they are called again behind the last page. Release 0.4 stores none. */
  readonly missed?: readonly string[];
  /** Every page was called: from now on only the namespaces in `missed` are. */
  readonly isRetry?: boolean;
}

/** What a step of telling has come to. */
export interface Told {
  /** In the Directory of the deployment: the last namespace of the step; null when all were told, or missed. */
  readonly after: string | null;
  /** Names of what has not answered. */
  readonly missed: readonly string[];
}

/**
 * Tells those that may have connections of revoked tokens.
 *
 * @param after in the Directory of the deployment: the last namespace that was told
 * @param missed in the Directory of the deployment: calls these namespaces alone; null for the next page
 */
type Tell = (
  list: Revocations,
  after: string | null,
  missed: readonly string[] | null,
) => Promise<Told>;

/** Storage of the Directory, as far as the list uses it. */
interface ListStorage {
  readonly kv: {
    get(key: string): unknown;
    put(key: string, value: unknown): void;
    delete(key: string): boolean;
  };
  transactionSync(work: () => void): void;
  setAlarm(atMs: number): Promise<void>;
}

/** Of one Directory. */
export class RevokedTokens {
  readonly #storage: ListStorage;
  readonly #tell: Tell;
  #list: Revocations | null = null;

  constructor(storage: ListStorage, tell: Tell) {
    this.#storage = storage;
    this.#tell = tell;
  }

  /** Something is stored: the Directory must not be emptied. */
  get isStored(): boolean {
    return this.list !== NO_REVOCATIONS;
  }

  get list(): Revocations {
    return (this.#list ??=
      (this.#storage.kv.get(LIST) as Revocations | undefined) ?? NO_REVOCATIONS);
  }

  /** The list without what is no longer needed. */
  inForce(): Revocations {
    return { ...this.list, tokens: tokensInForce(this.list, presentMs()) };
  }

  /** False when the list is full. */
  async revoke(id: string, expiresAtMs: number | null): Promise<boolean> {
    const list = withToken(this.list, { id, expiresAtMs }, presentMs());
    if (list !== null) await this.#change(list);
    return list !== null;
  }

  async revokeAllBefore(issuedBeforeMs: number): Promise<void> {
    await this.#change(withAllBefore(this.list, issuedBeforeMs, presentMs()));
  }

  get #telling(): Telling | undefined {
    return this.#storage.kv.get(TELLING) as Telling | undefined;
  }

  /** When something is to be told next, ms since the epoch; null when nothing is left to tell. */
  get dueAtMs(): number | null {
    return this.#telling?.dueAtMs ?? null;
  }

  /** Tells what is due. Returns when to be called again; null when nothing is left to tell. */
  async tellDue(): Promise<number | null> {
    const telling = this.#telling;
    if (telling === undefined) return null;
    if (telling.dueAtMs > presentMs()) return telling.dueAtMs;
    const { list } = this;
    const next = await this.#told(telling);
    // Changed meanwhile: that change is told from the start.
    if (list !== this.list) return presentMs();
    if (next === null) this.#storage.kv.delete(TELLING);
    else this.#storage.kv.put(TELLING, next);
    return next?.dueAtMs ?? null;
  }

  /** What is left to tell after a step. */
  async #told(telling: Telling): Promise<Telling | null> {
    const { changedAtMs, isRetry = false, missed: before = [] } = telling;
    const again = againOf(telling);
    const told = await this.#tell(this.list, telling.after, isRetry ? before : null);
    const all = isRetry ? told.missed : [...before, ...told.missed];
    // Those beyond the limit are called with all others, after `TELL_AGAIN_MS`.
    const missed = all.slice(0, MISSED_MAX);
    if (told.after !== null) return { ...telling, missed, after: told.after, dueAtMs: presentMs() };
    const nowMs = presentMs();
    // The next round for all does not wait for those that do not answer.
    const isDueForAll = again.length > 0 && nowMs >= again[0]!;
    if (missed.length > 0 && !isDueForAll && nowMs < changedAtMs + GIVE_UP_MS) {
      return { ...telling, missed, isRetry: true, after: null, dueAtMs: nowMs + RETRY_MS };
    }
    if (again.length === 0) return null;
    const dueAtMs = again.findLast((atMs) => atMs <= nowMs) ?? again[0]!;
    const later = again.filter((atMs) => atMs > dueAtMs);
    return { changedAtMs, dueAtMs, isAgain: true, after: null, again: later };
  }

  async #change(list: Revocations): Promise<void> {
    const changedAtMs = presentMs();
    const before = this.#telling;
    // The alarm rings by another clock, which may be behind: a change must not put off what is due already.
    const dueAtMs = Math.min(before?.dueAtMs ?? Infinity, changedAtMs);
    // The second rounds of earlier changes stay as planned.
    const left = before === undefined ? [] : roundsLeft(before);
    const again = withStep(left, changedAtMs + TELL_AGAIN_MS);
    const telling: Telling = { changedAtMs, dueAtMs, isAgain: false, after: null, again };
    // A list that is in force without it would leave connections of the token open, though its change has failed.
    this.#storage.transactionSync(() => {
      this.#storage.kv.put(LIST, list);
      this.#storage.kv.put(TELLING, telling);
    });
    // Known only once it is written: a full disk refuses it, and a change that is repeated must be written then.
    this.#list = list;
    await this.#storage.setAlarm(dueAtMs);
  }
}

/** When the second rounds begin that follow the present round. */
const againOf = ({ again, isAgain, changedAtMs }: Telling): readonly number[] =>
  again ?? (isAgain ? [] : [changedAtMs + TELL_AGAIN_MS]);

/** The same, and the present round where it is a second one. */
const roundsLeft = (telling: Telling): readonly number[] =>
  telling.isAgain ? [telling.dueAtMs, ...againOf(telling)] : againOf(telling);

/** Moments, and another one at the end of its step: so there are few of them, however many changes come. */
function withStep(moments: readonly number[], atMs: number): readonly number[] {
  const step = Math.ceil(atMs / AGAIN_STEP_MS) * AGAIN_STEP_MS;
  return [...new Set([...moments, step])].toSorted((a, b) => a - b);
}
