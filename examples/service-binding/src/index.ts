/** What a service binding gives a Worker: a cache, a job that runs once, a quota, an order that counts once. */
import { env } from "cloudflare:workers";
import { ThrottrError } from "throttr-edge/client";

const MINUTE_MS = 60_000;

export default {
  async fetch(request: Request): Promise<Response> {
    const { pathname, searchParams } = new URL(request.url);
    switch (pathname) {
      case "/cached":
        return new Response(await cachedReport());
      case "/nightly":
        return new Response((await beginJob("nightly")) ? "begun" : "runs already");
      case "/order":
        return Response.json({ orders: String(await countOrder(searchParams.get("id"))) });
      case "/quota":
        return Response.json(await useQuota(searchParams.get("user") ?? "nobody"));
      default:
        return new Response("try /cached, /nightly, /order?id=1, /quota?user=ada\n", {
          status: 404,
        });
    }
  },
};

/** The report of the last minute; callers who find none make one each. */
async function cachedReport(): Promise<string> {
  const cached = await env.THROTTR.get("report");
  if (cached !== null) return new TextDecoder().decode(cached.value);
  const report = `made at ${new Date().toISOString()}`;
  await env.THROTTR.set("report", report, { ttlMs: MINUTE_MS });
  return report;
}

/** True for the one of all callers who may run the job in these ten minutes. */
async function beginJob(job: string): Promise<boolean> {
  const { applied } = await env.THROTTR.compareAndSet(`job:${job}`, {
    expected: null,
    value: "running",
    ttlMs: 10 * MINUTE_MS,
  });
  return applied;
}

/** Counts an order once, however often its request is repeated within `IDEMPOTENCY_TTL_MS`. */
async function countOrder(id: string | null): Promise<bigint> {
  const once = id === null ? {} : { idempotencyKey: `order-${id}` };
  return await env.THROTTR.increment("orders", { ttlMs: 1440 * MINUTE_MS, ...once });
}

/** Takes one of the three uses that a user has a minute; two calls in one. */
async function useQuota(user: string): Promise<object> {
  const key = `quota:${user}`;
  const [, used] = await env.THROTTR.batch([
    ["insert", key, { quota: 3, ttlMs: MINUTE_MS }],
    ["decrease", key, 1],
  ]);
  if (!used.ok) throw new ThrottrError(used.error.code, used.error.message);
  return { allowed: used.value?.applied ?? false, left: String(used.value?.quota ?? 0n) };
}
