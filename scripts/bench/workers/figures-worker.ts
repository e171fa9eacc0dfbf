/**
 * The server as it is, for the benchmark, with the counts of its first shard at `GET /bench/figures`.
 */
import worker from "../../../src/worker/index.ts";

export * from "../../../src/worker/index.ts";

export default {
  async fetch(request, env, ctx) {
    if (new URL(request.url).pathname !== "/bench/figures") {
      return await worker.fetch(request, env, ctx);
    }
    return Response.json(await env.SHARD.getByName("default/0").figures());
  },
  connect: worker.connect,
} satisfies ExportedHandler<Env> & { connect(socket: Socket, env: Env): Promise<void> };
