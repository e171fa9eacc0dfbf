/** An application with settings in code, whose classes have other names. */
import { throttrEdge } from "throttr-edge/worker";

const edge = throttrEdge({
  settings: { SHARDS: 1, ACCESS: "open", YRMCDS_ENABLE: "on", HOLDER_TIMEOUT_MS: 3000 },
  classes: {
    Shard: "ThrottrShard",
    Hub: "ThrottrHub",
    Channel: "ThrottrChannel",
    Directory: "ThrottrDirectory",
    Throttr: "ThrottrEntrypoint",
  },
});

export const {
  Shard: ThrottrShard,
  Hub: ThrottrHub,
  Channel: ThrottrChannel,
  Directory: ThrottrDirectory,
  Throttr: ThrottrEntrypoint,
} = edge;

export default {
  async fetch(request, env, ctx) {
    const response = await edge.routeThrottr(request, env, ctx, { prefix: "/" });
    return response ?? new Response("the application");
  },
} satisfies ExportedHandler;
