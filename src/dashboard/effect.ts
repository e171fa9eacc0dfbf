/** `useEffect` for the dashboard: each effect begins once and ends once, which hono's own does not promise. */
import { useLayoutEffect } from "hono/jsx/dom";

/**
 * Does something after a component is on the page, and again whenever one of `inputs` is another; ends it
 * with what it gives back.
 *
 * `useEffect` of hono 4.13 waits for the next frame. Where a component is rendered twice before that, it
 * begins the effect twice, and never ends the first; where it is gone by then, it begins it all the same.
 * Layout effects don't wait, but the page is not whole then: so this one waits for the end of the turn.
 */
export function useEffect(effect: () => void | (() => void), inputs: readonly unknown[]): void {
  useLayoutEffect(() => {
    let end: void | (() => void);
    let isOver = false;
    queueMicrotask(() => {
      if (!isOver) end = effect();
    });
    return () => {
      isOver = true;
      end?.();
    };
  }, inputs);
}
