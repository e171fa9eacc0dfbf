/** An application with the server inside it, which asks it from each kind of event. */
import { DurableObject, env, WorkflowEntrypoint, type WorkflowStep } from "cloudflare:workers";
import { dashboard } from "throttr-edge/dashboard";
import { docs } from "throttr-edge/docs";
import { RateLimiter, tokenBucket } from "throttr-edge/ratelimit";
import { connectThrottr, routeThrottr, throttr } from "throttr-edge/worker";

export { Channel, Directory, Hub, Shard, Throttr } from "throttr-edge/worker";

const TTL_MS = 3_600_000;
const counters = throttr({ namespace: "app" });
const views = counters.counter("views", { flushMs: 300, ttlMs: TTL_MS });

const limiter = new RateLimiter({
  throttr: throttr({ namespace: "app" }),
  name: "api",
  strategy: tokenBucket({ burst: 2, rate: 0.001 }),
});

/** An object of the application. */
export class Own extends DurableObject {
  async count(): Promise<string> {
    return String(await counters.increment("object", { ttlMs: TTL_MS }));
  }

  /** Counts when the alarm rings. */
  async countLater(): Promise<void> {
    await this.ctx.storage.setAlarm(Date.now() + 100);
  }

  override async alarm(): Promise<void> {
    await counters.increment("alarm", { ttlMs: TTL_MS });
  }
}

export class Flow extends WorkflowEntrypoint {
  override async run(_event: unknown, step: WorkflowStep): Promise<string> {
    return await step.do("count", async () =>
      String(await counters.increment("workflow", { ttlMs: TTL_MS })),
    );
  }
}

interface Bindings {
  readonly OWN: DurableObjectNamespace<Own>;
  readonly QUEUE: Queue;
  readonly FLOW: Workflow;
}

const { OWN, QUEUE, FLOW } = env as object as Bindings;

/** What a page of the application may do: its cookie is its session. */
function accessOf(request: Request) {
  const user = /\buser=(\w+)/.exec(request.headers.get("cookie") ?? "")?.[1];
  if (user === undefined) return null;
  const scopes = ["read", "write", "publish", "subscribe"] as const;
  return { namespace: "app", scopes, keyPrefixes: [`${user}:`], channelPrefixes: ["news"] };
}

async function answer(request: Request): Promise<Response> {
  const { pathname, searchParams } = new URL(request.url);
  switch (pathname) {
    case "/count":
      return new Response(String(await counters.increment("fetch", { ttlMs: TTL_MS })));
    case "/view":
      views.increment("page");
      return new Response("counted");
    case "/read": {
      const counter = await counters.query(searchParams.get("key")!);
      return new Response(String(counter?.quota ?? "none"));
    }
    case "/limit": {
      const { success } = await limiter.limit("ada");
      return new Response(null, { status: success ? 200 : 429 });
    }
    case "/batch": {
      const [first, second] = await counters.batch([
        ["increment", "batch", { ttlMs: TTL_MS }],
        ["get", "batch"],
      ]);
      return Response.json([first.ok && String(first.value), second.ok || second.error.code]);
    }
    case "/info":
      return await counters.fetch(new Request("https://throttr/v1/info"));
    case "/scopes": {
      const reader = throttr({ namespace: "app", scopes: ["read"], keyPrefixes: ["a"] });
      const refusals = [reader.increment("a", { ttlMs: 1 }), reader.query("b")];
      return Response.json(await Promise.all(refusals.map(async (call) => await codeOf(call))));
    }
    case "/semaphore": {
      const semaphore = counters.semaphore("gpu", 1, { ttlMs: 2000 });
      return await semaphore.with(async (lease) => {
        const busy = await counters.semaphore("gpu", 1).acquire();
        return Response.json({ isHeld: lease.isHeld, isBusy: busy === null });
      });
    }
    case "/publish":
      return Response.json(await counters.publish("news", "hello"));
    case "/object":
      return new Response(await OWN.getByName("one").count());
    case "/alarm":
      await OWN.getByName("one").countLater();
      return new Response();
    case "/queue":
      await QUEUE.send("count");
      return new Response();
    case "/workflow":
      return Response.json((await FLOW.create()).id);
    default:
      return new Response(`the application has no ${pathname}`, { status: 404 });
  }
}

async function codeOf(call: Promise<unknown>): Promise<unknown> {
  return await call.then(
    () => null,
    (error: unknown) => (error as { readonly code: string }).code,
  );
}

export default {
  async fetch(request, environment, ctx) {
    const byToken = await routeThrottr(request, environment, ctx, { prefix: "/tokens" });
    const bySession = async () =>
      await routeThrottr(request, environment, ctx, {
        prefix: "/edge",
        access: accessOf,
        dashboard,
        docs,
      });
    const bare = async () =>
      await routeThrottr(request, environment, ctx, {
        prefix: "/bare",
        access: accessOf,
        dashboard,
      });
    return byToken ?? (await bySession()) ?? (await bare()) ?? (await answer(request));
  },
  async queue() {
    await counters.increment("queue", { ttlMs: TTL_MS });
  },
  async scheduled() {
    await counters.increment("cron", { ttlMs: TTL_MS });
  },
  connect: connectThrottr,
} satisfies ExportedHandler & { connect: typeof connectThrottr };
