/** The Worker: its doors (HTTP, TCP, RPC), and the classes of its Durable Objects, which the platform finds by name. */
import type { Environment } from "../base/environment.ts";
import { deploy, STAND_ALONE } from "../base/deployment.ts";
import { router } from "./router.ts";
import { serveTcp } from "./tcp.ts";

export { Channel } from "../objects/channel/channel.ts";
export { Directory } from "../objects/channel/directory.ts";
export { Hub } from "../objects/hub/hub.ts";
export { Shard } from "../objects/shard/shard.ts";
export { Throttr } from "./rpc.ts";

deploy(STAND_ALONE);

export default {
  fetch: (request, env, ctx) => router.fetch(request, env, ctx),
  connect: (socket, env) => serveTcp(socket, env),
} satisfies ExportedHandler<Environment> & {
  connect(socket: Socket, env: Environment): Promise<void>;
};
