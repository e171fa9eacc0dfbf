/** What the browser keeps for this page. Where it may keep nothing, as with all cookies blocked, the page alone knows it. */

type Area = "localStorage" | "sessionStorage";

const unkept = new Map<string, string>();

export function readItem(area: Area, name: string): string | null {
  try {
    return window[area].getItem(name);
  } catch {
    return unkept.get(name) ?? null;
  }
}

/** @param value null forgets the one before */
export function keepItem(area: Area, name: string, value: string | null): void {
  try {
    if (value === null) window[area].removeItem(name);
    else window[area].setItem(name, value);
  } catch {
    if (value === null) unkept.delete(name);
    else unkept.set(name, value);
  }
}
