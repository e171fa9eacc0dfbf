/**
 * A value outside of components, which are rendered again when it changes. For state of the page as a whole: session, theme,
 * place, notice.
 */
import { useState } from "hono/jsx/dom";
import { useEffect } from "./effect.ts";

export class Store<Value> {
  #value: Value;
  readonly #listeners = new Set<() => void>();

  constructor(value: Value) {
    this.#value = value;
  }

  get value(): Value {
    return this.#value;
  }

  set(value: Value): void {
    this.#value = value;
    for (const listener of this.#listeners) listener();
  }

  /** @returns a function that ends the subscription */
  subscribe(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => void this.#listeners.delete(listener);
  }
}

/** The value of a store; the component is rendered again with each new one. */
export function useStore<Value>(store: Store<Value>): Value {
  const [, render] = useState(0);
  const { value } = store;
  useEffect(() => {
    const again = (): void => render((count) => count + 1);
    // It may be another one since this was rendered.
    if (store.value !== value) again();
    return store.subscribe(again);
  }, [store]);
  return value;
}
