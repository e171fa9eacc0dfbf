/** The Worker: Throttr's doors and dashboard below /throttr-edge, and React Router for all else. */
import { createRequestHandler } from "react-router";
import { dashboard } from "throttr-edge/dashboard";
import { routeThrottr } from "throttr-edge/worker";

// The objects that keep Throttr's data: wrangler.jsonc names them under "exports".
export { Channel, Directory, Hub, Shard } from "throttr-edge/worker";

const handle = createRequestHandler(
  () => import("virtual:react-router/server-build"),
  import.meta.env.MODE,
);

export default {
  async fetch(request, env, ctx) {
    return (await routeThrottr(request, env, ctx, { dashboard })) ?? (await handle(request));
  },
} satisfies ExportedHandler;
