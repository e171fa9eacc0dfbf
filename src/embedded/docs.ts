/** `throttr-edge/docs`: the API reference, as files in the bundle. */
import files from "pages:docs";
import type { Pages } from "./pages.ts";

/**
 * The API reference, about 1.2 MB compressed: an option of `routeThrottr`.
 *
 * @example
 * import { docs } from "throttr-edge/docs";
 *
 * const response = await routeThrottr(request, env, ctx, { access, docs });
 */
export const docs: Pages = files as Pages;
