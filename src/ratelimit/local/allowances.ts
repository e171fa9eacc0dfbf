/** The allowances of an isolate: a bounded map by limiter and key, for one server and one clock. */
import type { Allowance } from "./allowance.ts";

/** The allowances of limiters of one name, strategy and lease. */
export class Scope {
  readonly byKey = new Map<string, Allowance>();
  readonly byStoredKey = new Map<string, Allowance>();
}

/** Where an allowance is. */
interface Place {
  readonly scopeId: string;
  readonly scope: Scope;
  /** The caller's key, and as it is stored. */
  readonly key: string;
  readonly storedKey: string;
}

export class Allowances {
  readonly #keysMax: number;
  readonly #scopes = new Map<string, Scope>();
  /** The one whose last message is the oldest comes first: a key that is in use sends one in each term. */
  readonly #places = new Map<Allowance, Place>();
  #latestMs = -Infinity;
  /** The server had no draws when it was asked last: until then limits are asked exactly. By a clock that never goes back. */
  #exactUntilMs = -Infinity;
  readonly #warnings = new Set<string>();

  constructor(keysMax: number) {
    this.#keysMax = keysMax;
  }

  /** A new scope is kept from its first allowance on. */
  scope(scopeId: string): Scope {
    return this.#scopes.get(scopeId) ?? new Scope();
  }

  /** Adds an allowance; gives the one that has to go for it. */
  add(place: Place, allowance: Allowance): Allowance | null {
    this.#scopes.set(place.scopeId, place.scope);
    place.scope.byKey.set(place.key, allowance);
    place.scope.byStoredKey.set(place.storedKey, allowance);
    this.#places.set(allowance, place);
    return this.#places.size > this.#keysMax ? this.#removeFirst() : null;
  }

  /** Notes that an allowance has sent a message. */
  touch(allowance: Allowance): void {
    const place = this.#places.get(allowance);
    if (place === undefined) return;
    this.#places.delete(allowance);
    this.#places.set(allowance, place);
  }

  /** Notes the wall clock's time: when it has gone back, nothing here knows its age. */
  noteTime(nowMs: number): void {
    if (nowMs < this.#latestMs) for (const allowance of this.#places.keys()) allowance.end();
    this.#latestMs = nowMs;
  }

  /** True while the server is known to have no draws. */
  isExact(monotonicMs: number): boolean {
    return monotonicMs < this.#exactUntilMs;
  }

  /** Notes that the server has no draws, so that it is not asked for one before `untilMs`. */
  noteExact(untilMs: number): void {
    this.#exactUntilMs = untilMs;
  }

  /** Warns of what works otherwise than the developer expects, once. */
  warn(text: string): void {
    if (this.#warnings.has(text)) return;
    this.#warnings.add(text);
    console.warn(`throttr-edge: ${text}`);
  }

  #removeFirst(): Allowance {
    const [allowance, { scopeId, scope, key, storedKey }] = this.#places.entries().next().value!;
    this.#places.delete(allowance);
    scope.byKey.delete(key);
    scope.byStoredKey.delete(storedKey);
    if (scope.byKey.size === 0) this.#scopes.delete(scopeId);
    return allowance;
  }
}
