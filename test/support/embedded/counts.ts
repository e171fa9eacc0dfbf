/** An application with counters and limits alone: it exports one class. */
import { throttr } from "throttr-edge/worker";

export { Shard } from "throttr-edge/worker";

const app = throttr({ namespace: "app" });
const HOUR_MS = 3_600_000;

const CALLS: Readonly<Record<string, () => Promise<unknown>>> = {
  "/count": async () => String(await app.increment("count", { ttlMs: HOUR_MS })),
  "/list": async () => (await app.list()).records.length,
  "/publish": () => app.publish("news", "hello"),
  "/fetch": () => app.fetch(new Request("https://throttr/v1/info")),
};

export default {
  async fetch(request) {
    const call = CALLS[new URL(request.url).pathname];
    if (call === undefined) return new Response("ready");
    try {
      return Response.json(await call());
    } catch (error) {
      return Response.json(String(error), { status: 500 });
    }
  },
} satisfies ExportedHandler;
