/** Sets the theme before the page is drawn: a script of its own, as the main one runs later and the page would flash. */
import { readTheme } from "./theme-names.ts";

document.documentElement.dataset["theme"] = readTheme();
