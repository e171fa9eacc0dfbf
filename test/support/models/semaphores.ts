/**
 * Semaphores as a plain map: how much of each is in use, and the most that was in use at once in the
 * statistics interval. Who holds what is the business of the models that use it.
 */
interface ModelSemaphore {
  consumption: number;
  maximum: number;
  updatedAtMs: number;
}

export interface ModelEntry {
  consumption: number;
  maximum: number;
}

export class ModelSemaphores {
  readonly #intervalMs: number;
  readonly #byName = new Map<string, ModelSemaphore>();

  constructor(intervalMs: number) {
    this.#intervalMs = intervalMs;
  }

  clone(): ModelSemaphores {
    const copy = new ModelSemaphores(this.#intervalMs);
    for (const [name, semaphore] of this.#byName) copy.#byName.set(name, { ...semaphore });
    return copy;
  }

  has(name: string): boolean {
    return this.#byName.has(name);
  }

  find(name: string, nowMs: number): ModelEntry | undefined {
    const semaphore = this.#byName.get(name);
    if (semaphore === undefined) return undefined;
    const { consumption, maximum, updatedAtMs } = semaphore;
    return { consumption, maximum: updatedAtMs < this.#startOf(nowMs) ? consumption : maximum };
  }

  /** False, and nothing changed, when more than `maximum` would be in use. */
  increase(name: string, resources: number, maximum: number, nowMs: number): boolean {
    const semaphore = this.#byName.get(name);
    const consumption = (semaphore?.consumption ?? 0) + resources;
    if (consumption > maximum) return false;
    const isOld = semaphore === undefined || semaphore.updatedAtMs < this.#startOf(nowMs);
    this.#byName.set(name, {
      consumption,
      maximum: isOld ? consumption : Math.max(semaphore.maximum, consumption),
      updatedAtMs: nowMs,
    });
    return true;
  }

  decrease(name: string, resources: number, atMs: number): void {
    const semaphore = this.#byName.get(name)!;
    if (semaphore.updatedAtMs < this.#startOf(atMs)) semaphore.maximum = semaphore.consumption;
    semaphore.consumption -= resources;
    semaphore.updatedAtMs = atMs;
  }

  /** By name, in the order in which they were first used. */
  entries(nowMs: number): Map<string, ModelEntry> {
    return new Map([...this.#byName.keys()].map((name) => [name, this.find(name, nowMs)!]));
  }

  /** Removes those that have not been used since the interval began, and returns how many they were. */
  collect(nowMs: number): number {
    const startMs = this.#startOf(nowMs);
    const before = this.#byName.size;
    for (const [name, { consumption, updatedAtMs }] of this.#byName) {
      if (consumption === 0 && updatedAtMs < startMs) this.#byName.delete(name);
    }
    return before - this.#byName.size;
  }

  #startOf(atMs: number): number {
    return atMs - (atMs % this.#intervalMs);
  }
}
