/** A page that counts its visits and shows them, as they happen, to everybody who has it open. */
import { env } from "cloudflare:workers";
import page from "./page.html";

const DAY_MS = 86_400_000;

export default {
  async fetch(request: Request): Promise<Response> {
    const { pathname } = new URL(request.url);
    if (pathname === "/events") {
      // The server's own stream of Server-Sent Events, with the rights of the binding.
      return await env.THROTTR.fetch(new Request("https://throttr/channels/visits", request));
    }
    if (pathname !== "/") return new Response("not found", { status: 404 });
    const visits = await env.THROTTR.increment("visits", { ttlMs: DAY_MS });
    await env.THROTTR.publish("visits", String(visits));
    return new Response(page.replace("{{visits}}", String(visits)), {
      headers: { "content-type": "text/html; charset=utf-8" },
    });
  },
};
