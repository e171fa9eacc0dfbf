/** The theme: light, dark, or that of the system. `theme-first.ts` has set it before the page was drawn. */
import { Store } from "./store.ts";
import { keepItem } from "./storage.ts";
import { readTheme, THEME_ITEM, THEMES, type Theme } from "./theme-names.ts";

const system = matchMedia("(prefers-color-scheme: dark)");

interface ThemeState {
  readonly theme: Theme;
  readonly isDark: boolean;
}

const stateOf = (theme: Theme): ThemeState => ({
  theme,
  isDark: theme === "system" ? system.matches : theme === "dark",
});

export const themeStore = new Store<ThemeState>(stateOf(readTheme()));

system.addEventListener("change", () => themeStore.set(stateOf(themeStore.value.theme)));

/** System, light, dark, and around. */
export function nextTheme(): Theme {
  const theme = THEMES[(THEMES.indexOf(themeStore.value.theme) + 1) % THEMES.length]!;
  keepItem("localStorage", THEME_ITEM, theme);
  document.documentElement.dataset["theme"] = theme;
  themeStore.set(stateOf(theme));
  return theme;
}
