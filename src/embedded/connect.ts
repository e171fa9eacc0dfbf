/** TCP in a Worker of one's own. */
import type { Environment } from "../base/environment.ts";
import { serveTcp } from "../worker/tcp.ts";

/**
 * Serves a TCP connection on the ports of the setting `TCP_PORTS` until it closes. The Worker needs all four classes of
 * objects.
 *
 * @example
 * export default {
 *   fetch: (request) => new Response("hello"),
 *   connect: connectThrottr,
 * };
 */
export async function connectThrottr(socket: Socket, env: unknown): Promise<void> {
  await serveTcp(socket, env as Environment);
}
