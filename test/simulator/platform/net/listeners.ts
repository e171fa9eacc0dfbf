/** Event listeners of a socket. Node's `EventTarget` would do the same at ten times the cost. */

export type Listener = ((event: never) => void) | { handleEvent(event: never): void };

/** An event: its type, and the fields that this type has. */
export interface SocketEvent {
  readonly type: string;
  readonly [field: string]: unknown;
}

interface Added {
  readonly listener: Listener;
  readonly isOnce: boolean;
}

export class Listeners {
  readonly #byType = new Map<string, Added[]>();

  add(type: string, listener: Listener, options?: boolean | { once?: boolean }): void {
    const added = this.#byType.get(type) ?? [];
    if (added.some((known) => known.listener === listener)) return;
    const isOnce = typeof options === "object" && options.once === true;
    // A new list: a listener that is added during an event does not get that event.
    this.#byType.set(type, [...added, { listener, isOnce }]);
  }

  remove(type: string, listener: Listener): void {
    const left = (this.#byType.get(type) ?? []).filter((known) => known.listener !== listener);
    this.#byType.set(type, left);
  }

  /** Calls all listeners of an event; returns what the first that failed has thrown. */
  dispatch(event: SocketEvent): { readonly error: unknown } | null {
    let failure: { readonly error: unknown } | null = null;
    for (const { listener, isOnce } of this.#byType.get(event.type) ?? []) {
      if (isOnce) this.remove(event.type, listener);
      try {
        if (typeof listener === "function") listener(event as never);
        else listener.handleEvent(event as never);
      } catch (error) {
        failure ??= { error };
      }
    }
    return failure;
  }
}
