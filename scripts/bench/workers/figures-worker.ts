/**
 * The server as it is, for the benchmark, with counts of its objects: of its first shard at
 * `GET /bench/figures`, connections by Hub at `GET /bench/hubs`.
 */
import worker from "../../../src/worker/index.ts";

export * from "../../../src/worker/index.ts";

const NAMESPACE = "default";

export default {
  async fetch(request, env, ctx) {
    switch (new URL(request.url).pathname) {
      case "/bench/figures":
        return Response.json(await env.SHARD.getByName(`${NAMESPACE}/0`).figures());
      case "/bench/hubs":
        return Response.json(await connectionsByHub(env));
      default:
        return await worker.fetch(request, env, ctx);
    }
  },
  connect: worker.connect,
} satisfies ExportedHandler<Env> & { connect(socket: Socket, env: Env): Promise<void> };

/** Connections of each Hub that has any. */
async function connectionsByHub(env: Env): Promise<number[]> {
  const hubs = await env.DIRECTORY.getByName(NAMESPACE).hubs();
  const figures = await Promise.all(hubs.map((hub) => env.HUB.getByName(hub).figures()));
  return figures.map(({ connections }) => connections).filter((connections) => connections > 0);
}
