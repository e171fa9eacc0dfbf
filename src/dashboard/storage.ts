/** What the browser keeps for this page: nothing where it may not, as with all cookies blocked. */

type Area = "localStorage" | "sessionStorage";

export function readItem(area: Area, name: string): string | null {
  try {
    return window[area].getItem(name);
  } catch {
    return null;
  }
}

/** @param value null forgets the one before */
export function keepItem(area: Area, name: string, value: string | null): void {
  try {
    if (value === null) window[area].removeItem(name);
    else window[area].setItem(name, value);
  } catch {}
}
