/** The themes, and the one that was chosen. */

import { readItem } from "./storage.ts";

export const THEMES = ["system", "light", "dark"] as const;
export type Theme = (typeof THEMES)[number];

export const THEME_ITEM = "throttr-theme";

export function readTheme(): Theme {
  const stored = readItem("localStorage", THEME_ITEM);
  return THEMES.find((theme) => theme === stored) ?? "system";
}
