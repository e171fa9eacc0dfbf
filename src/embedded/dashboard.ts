/** `throttr-edge/dashboard`: the dashboard, as files in the bundle. */
import files from "pages:dashboard";
import type { Pages } from "./pages.ts";

/**
 * The dashboard, about 70 kB compressed: an option of `routeThrottr`.
 *
 * @example
 * import { dashboard } from "throttr-edge/dashboard";
 *
 * const response = await routeThrottr(request, env, ctx, { access, dashboard });
 */
export const dashboard: Pages = files as Pages;
