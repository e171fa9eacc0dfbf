/** Runs before the page is drawn, so that it never flashes in the other theme. */
import { readTheme } from "./theme-names.ts";

document.documentElement.dataset["theme"] = readTheme();
