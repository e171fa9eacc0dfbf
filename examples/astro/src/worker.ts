/** The Worker: Throttr's doors and dashboard below /throttr-edge, and Astro for all else. */
import { handle } from "@astrojs/cloudflare/handler";
import { dashboard } from "throttr-edge/dashboard";
import { routeThrottr } from "throttr-edge/worker";

// The objects that keep Throttr's data: wrangler.jsonc names them under "exports".
export { Channel, Directory, Hub, Shard } from "throttr-edge/worker";

export default {
  async fetch(request, env, ctx) {
    return (
      (await routeThrottr(request, env, ctx, { dashboard })) ?? (await handle(request, env, ctx))
    );
  },
} satisfies ExportedHandler<Env>;
