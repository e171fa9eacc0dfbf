/** Hooks that screens share: loading data, running an action, counting seconds; and the notice at the bottom. */
import { useMemo, useRef, useState } from "hono/jsx/dom";
import { useEffect } from "./effect.ts";
import type { ThrottrError } from "../client/index.ts";
import { isUnreached } from "./rights.ts";
import { isUnknownRoute } from "./server.ts";
import { failureOf } from "./session.ts";
import { Store, useStore } from "./store.ts";

/**
 * Data that a component loads. While it is refreshed, and when that fails, the value of before stays. After a request that
 * did not reach the server it is loaded again, after growing waits.
 */
export interface Loaded<Value> {
  /** Null until the first load has ended; so data is never null itself. */
  readonly value: Value | null;
  /** The value is of the present inputs: while others are loaded, or can't be, it is of those before. */
  readonly isCurrent: boolean;
  readonly error: ThrottrError | null;
  readonly isLoading: boolean;
  /** By the clock of this machine; null before the value is there. */
  readonly loadedAtMs: number | null;
  /** Loads it again. */
  readonly reload: () => void;
}

interface State<Value> extends Omit<Loaded<Value>, "reload" | "isCurrent"> {
  readonly of: readonly unknown[];
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
  const [{ of, ...state }, setState] = useState<State<Value>>({
    value: null,
    of: inputs,
    error: null,
    isLoading: load !== null,
    loadedAtMs: null,
  });
  const [round, setRound] = useState(0);
  const failures = useRef(0);
  const isPending = useRef(false);
  const isHopeless = useRef(false);
  const reload = (): void => setRound((count) => count + 1);
  useEffect(() => {
    if (load === null) return;
    const abort = new AbortController();
    let retry: ReturnType<typeof setTimeout> | undefined;
    isPending.current = true;
    setState((before) => ({ ...before, isLoading: true }));
    load(abort.signal).then(
      (value) => {
        if (abort.signal.aborted) return;
        isPending.current = false;
        isHopeless.current = false;
        failures.current = 0;
        setState({
          value,
          of: inputs,
          error: null,
          isLoading: false,
          loadedAtMs: Date.now(),
        });
      },
      (thrown: unknown) => {
        if (abort.signal.aborted) return;
        isPending.current = false;
        const error = failureOf(thrown);
        isHopeless.current = error.code === "scope_missing" || isUnknownRoute(error);
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
      // Loading again cancels a load that is under way, so a slow server could never answer. And a right or feature that
      // is missing now will be missing the next time, too.
      if (!document.hidden && !isPending.current && !isHopeless.current) reload();
    }, everyMs);
    return () => clearInterval(timer);
  }, [everyMs]);
  useEffect(() => {
    reloaders.add(reload);
    return () => void reloaders.delete(reload);
  }, []);
  return { ...state, reload, isCurrent: inputs.every((input, i) => input === of[i]) };
}

/** How often lists load again by themselves while the page is seen, ms; 0: never. The same on every screen. */
export const refreshStore = new Store(0);

/** Loads the list of a screen, and refreshes it at the chosen interval. */
export function useListed<Value extends object>(
  load: ((signal: AbortSignal) => Promise<Value>) | null,
  inputs: readonly unknown[],
): Loaded<Value> {
  const everyMs = useStore(refreshStore);
  return useLoaded(load, inputs, everyMs === 0 ? null : everyMs);
}

/**
 * The pages of a list that its reader has turned, by their cursors: empty on the first page.
 *
 * @param list what is listed, such as its filters; the cursors of one list are not those of another
 */
export function usePages<Cursor>(
  list: string,
): [cursors: readonly Cursor[], turn: (cursors: readonly Cursor[]) => void] {
  const store = useMemo(() => new Store<readonly Cursor[]>([]), [list]);
  return [useStore(store), (cursors) => store.set(cursors)];
}

/** Refreshes all data of the open screen: the shortcut `r`. */
const reloaders = new Set<() => void>();

export function reloadScreen(): void {
  for (const reload of reloaders) reload();
}

/** A change that a button makes: one at a time, with the error of the last one. */
export interface Action {
  readonly isBusy: boolean;
  readonly error: ThrottrError | null;
  readonly run: (work: () => Promise<void>) => void;
}

export function useAction(): Action {
  const [isBusy, setBusy] = useState(false);
  const [error, setError] = useState<ThrottrError | null>(null);
  // State is of the last rendering, and a second press may come before the next one: a ref is always current.
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

/** The notice at the bottom of the page, which screen readers say, too. */
export const noticeStore = new Store<{ readonly text: string; readonly number: number }>({
  text: "",
  number: 0,
});

export function notify(text: string): void {
  noticeStore.set({ text, number: noticeStore.value.number + 1 });
}
