/** What components have in common: loading, doing, and the passing of time. */
import { useRef, useState } from "hono/jsx/dom";
import { useEffect } from "./effect.ts";
import type { ThrottrError } from "../client/index.ts";
import { isUnreached } from "./rights.ts";
import { failureOf } from "./session.ts";
import { Store, useStore } from "./store.ts";

/**
 * What is loaded, as far as it has come. While it is loaded again, the value before stays. A server that was
 * not reached is asked again by and by.
 */
export interface Loaded<Value> {
  /** Null before it is there; so what is loaded is never null itself. */
  readonly value: Value | null;
  readonly error: ThrottrError | null;
  readonly isLoading: boolean;
  /** By the clock of this machine; null before the value is there. */
  readonly loadedAtMs: number | null;
  /** Loads it again. */
  readonly reload: () => void;
}

/**
 * Loads something when a component appears, and again whenever one of `inputs` is another.
 *
 * @param load null: there is nothing to load
 * @param everyMs loads it again so often, while the page is seen; null: only when asked
 */
export function useLoaded<Value extends object>(
  load: ((signal: AbortSignal) => Promise<Value>) | null,
  inputs: readonly unknown[],
  everyMs: number | null = null,
): Loaded<Value> {
  const [state, setState] = useState<Omit<Loaded<Value>, "reload">>({
    value: null,
    error: null,
    isLoading: load !== null,
    loadedAtMs: null,
  });
  const [round, setRound] = useState(0);
  const failures = useRef(0);
  const reload = (): void => setRound((count) => count + 1);
  useEffect(() => {
    if (load === null) return;
    const abort = new AbortController();
    let retry: ReturnType<typeof setTimeout> | undefined;
    setState((before) => ({ ...before, isLoading: true }));
    load(abort.signal).then(
      (value) => {
        if (abort.signal.aborted) return;
        failures.current = 0;
        setState({ value, error: null, isLoading: false, loadedAtMs: Date.now() });
      },
      (thrown: unknown) => {
        if (abort.signal.aborted) return;
        const error = failureOf(thrown);
        setState((before) => ({ ...before, error, isLoading: false }));
        if (!isUnreached(error)) return;
        const delayMs = RETRY_MS[Math.min(failures.current!++, RETRY_MS.length - 1)]!;
        retry = setTimeout(reload, delayMs);
      },
    );
    return () => {
      clearTimeout(retry);
      abort.abort();
    };
  }, [...inputs, round]);
  useEffect(() => {
    if (everyMs === null) return;
    const timer = setInterval(() => {
      if (!document.hidden) reload();
    }, everyMs);
    return () => clearInterval(timer);
  }, [everyMs]);
  useReloadKey(reload);
  return { ...state, reload };
}

/** How often lists load again by themselves while the page is seen, ms; 0: never. The same on every screen. */
export const refreshStore = new Store(0);

/** What a screen lists: it follows the interval that was chosen. */
export function useListed<Value extends object>(
  load: ((signal: AbortSignal) => Promise<Value>) | null,
  inputs: readonly unknown[],
): Loaded<Value> {
  const everyMs = useStore(refreshStore);
  return useLoaded(load, inputs, everyMs === 0 ? null : everyMs);
}

/** What `r` does: the screen that is open loads again. */
const reloaders = new Set<() => void>();

export function reloadScreen(): void {
  for (const reload of reloaders) reload();
}

function useReloadKey(reload: () => void): void {
  useEffect(() => {
    reloaders.add(reload);
    return () => void reloaders.delete(reload);
  }, []);
}

/** Something that a button does: one at a time, and what went wrong with it. */
export interface Action {
  readonly isBusy: boolean;
  readonly error: ThrottrError | null;
  readonly run: (work: () => Promise<void>) => void;
}

export function useAction(): Action {
  const [isBusy, setBusy] = useState(false);
  const [error, setError] = useState<ThrottrError | null>(null);
  // What a component knows is of its last rendering: a second press may come before the next.
  const busy = useRef(false);
  const run = (work: () => Promise<void>): void => {
    if (busy.current) return;
    busy.current = true;
    setBusy(true);
    setError(null);
    work()
      .catch((thrown: unknown) => setError(failureOf(thrown)))
      .finally(() => {
        busy.current = false;
        setBusy(false);
      });
  };
  return { isBusy, error, run };
}

/** Waits before a server that was not reached is asked again; the last one from then on. */
const RETRY_MS = [2000, 4000, 8000, 15_000];

const SECOND_MS = 1000;
const seconds = new Store(0);
let watchers = 0;
let timer: ReturnType<typeof setInterval> | null = null;

/** Renders a component again each second, all of them at once. */
export function useSeconds(): void {
  useEffect(() => {
    watchers++;
    timer ??= setInterval(() => seconds.set(seconds.value + 1), SECOND_MS);
    return () => {
      watchers--;
      if (watchers > 0 || timer === null) return;
      clearInterval(timer);
      timer = null;
    };
  }, []);
  useStore(seconds);
}

/** What is said to everybody, also to those who don't see it. */
export const noticeStore = new Store<{ readonly text: string; readonly number: number }>({
  text: "",
  number: 0,
});

export function notify(text: string): void {
  noticeStore.set({ text, number: noticeStore.value.number + 1 });
}
