/**
 * What this isolate knows of revoked tokens: a copy of the list of each namespace in use, so that a request costs no call.
 *
 * A copy is refreshed behind a request once it is 45 s old. One that is older than 60 s is not trusted: the request waits
 * for the list, as the first one of an isolate does. So a revocation counts everywhere within 60 s. If the list can't be
 * read, an object that fails must not lock out every caller: the last copy goes on counting, or none where there was none,
 * the log says so once a minute, and the list is read again every 5 s until that succeeds.
 */
import { logError } from "../base/log.ts";
import { REVOCATIONS_TRUSTED_MS } from "../engine/sizes.ts";
import {
  NO_REVOCATIONS,
  RevocationCheck,
  type RevocableToken,
  type Revocations,
} from "../engine/revocations.ts";

const REFRESHED_AFTER_MS = 45_000;
/** How long a request waits for the list. */
export const READ_TIMEOUT_MS = 2000;
const RETRY_MS = 5000;
const LOG_INTERVAL_MS = 60_000;
/** How often a request looks whether another one has read the list: it must not await that one's call. */
const LOOK_INTERVAL_MS = 10;
/** Copies and IDs that are kept together. Beyond that the oldest copies go, and are read again when they are needed. */
const SIZE_MAX = 100_000;

/** Where lists come from. One for each request, as calls and waits belong to it. */
export interface RevocationSource {
  nowMs(): number;
  wait(ms: number): Promise<void>;
  /** Keeps the request alive for work behind it. */
  waitUntil(work: Promise<void>): void;
  /** The list of a namespace; null if it has the given version. Fails after 2 s. */
  read(namespace: string, version: number): Promise<Revocations | null>;
}

/** What is known of one list. Plain data, as requests share it. */
interface Copy {
  version: number;
  check: RevocationCheck;
  /** When the call began that brought it; -Infinity before the first. */
  readAtMs: number;
  /** When the call under way began; -Infinity if none is. */
  askedAtMs: number;
  /** When the last call failed; null if it did not. */
  failedAtMs: number | null;
}

/** The copies of an isolate. */
export class RevocationCopies {
  readonly #copies = new Map<string, Copy>();
  readonly #sizeMax: number;
  #size = 0;
  #loggedAtMs = -Infinity;

  /** @param sizeMax other than `SIZE_MAX` in tests */
  constructor(sizeMax = SIZE_MAX) {
    this.#sizeMax = sizeMax;
  }

  /**
   * Whether a token is revoked, as far as is known. Never rejects.
   *
   * @param namespace whose list counts
   */
  async isRevoked(
    namespace: string,
    token: RevocableToken,
    source: RevocationSource,
  ): Promise<boolean> {
    const copy = this.#copyOf(namespace);
    while (isDue(copy, source.nowMs())) {
      if (!isAsking(copy, source.nowMs())) await this.#read(namespace, copy, source);
      else await source.wait(LOOK_INTERVAL_MS);
    }
    if (isRefreshable(copy, source.nowMs())) source.waitUntil(this.#read(namespace, copy, source));
    return copy.check.isRevoked(token);
  }

  /** The next request of a namespace reads its list anew. */
  expire(namespace: string): void {
    const copy = this.#copies.get(namespace);
    if (copy !== undefined) copy.readAtMs = -Infinity;
  }

  #copyOf(namespace: string): Copy {
    const known = this.#copies.get(namespace);
    if (known !== undefined) return known;
    const copy: Copy = {
      version: NO_REVOCATIONS.version,
      check: new RevocationCheck(NO_REVOCATIONS),
      readAtMs: -Infinity,
      askedAtMs: -Infinity,
      failedAtMs: null,
    };
    this.#copies.set(namespace, copy);
    this.#size++;
    this.#makeRoom();
    return copy;
  }

  /** Reads the list once; a failure leaves the copy as it is. */
  async #read(namespace: string, copy: Copy, source: RevocationSource): Promise<void> {
    const startMs = source.nowMs();
    copy.askedAtMs = startMs;
    try {
      const list = await source.read(namespace, copy.version);
      if (list !== null) this.#take(namespace, copy, list);
      copy.readAtMs = startMs;
      copy.failedAtMs = null;
    } catch (error) {
      copy.failedAtMs = source.nowMs();
      this.#logFailure(namespace, error, copy.failedAtMs);
    } finally {
      copy.askedAtMs = -Infinity;
    }
  }

  #take(namespace: string, copy: Copy, list: Revocations): void {
    const check = new RevocationCheck(list);
    // A copy that was dropped meanwhile is not counted.
    if (this.#copies.get(namespace) === copy) this.#size += check.size - copy.check.size;
    copy.check = check;
    copy.version = list.version;
    this.#makeRoom();
  }

  #makeRoom(): void {
    for (const [namespace, { check }] of this.#copies) {
      if (this.#size <= this.#sizeMax || this.#copies.size === 1) return;
      this.#copies.delete(namespace);
      this.#size -= 1 + check.size;
    }
  }

  #logFailure(namespace: string, error: unknown, nowMs: number): void {
    if (nowMs - this.#loggedAtMs < LOG_INTERVAL_MS) return;
    this.#loggedAtMs = nowMs;
    logError("revocations_unread", { namespace, error: String(error) });
  }
}

/** The copy is too old to be trusted. After a failure it has to do until a further read succeeds behind a request. */
const isDue = ({ readAtMs, failedAtMs }: Copy, nowMs: number): boolean =>
  failedAtMs === null && nowMs - readAtMs >= REVOCATIONS_TRUSTED_MS;

/** A read is under way that can still end. */
const isAsking = ({ askedAtMs }: Copy, nowMs: number): boolean =>
  nowMs - askedAtMs < READ_TIMEOUT_MS;

/** A read behind a request is due. */
function isRefreshable(copy: Copy, nowMs: number): boolean {
  if (isAsking(copy, nowMs)) return false;
  if (copy.failedAtMs !== null) return nowMs - copy.failedAtMs >= RETRY_MS;
  return nowMs - copy.readAtMs >= REFRESHED_AFTER_MS;
}
