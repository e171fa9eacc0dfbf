/**
 * The server as it is, for the benchmark: at any TCP port, and with the counts of its first shard at
 * `GET /bench/figures`.
 */
import worker from "../../../src/worker/index.ts";

export * from "../../../src/worker/index.ts";

/** What is spoken at every port: uint16. */
const SPOKEN_PORT = 9002;

/** The socket, as if it had come in at another port. */
function atPort(socket: Socket, port: number): Socket {
  const opened = socket.opened.then((info) => ({ ...info, localAddress: `127.0.0.1:${port}` }));
  return {
    readable: socket.readable,
    writable: socket.writable,
    opened,
    close: () => socket.close(),
  } as Socket;
}

export default {
  async fetch(request, env, ctx) {
    if (new URL(request.url).pathname !== "/bench/figures") {
      return await worker.fetch(request, env, ctx);
    }
    return Response.json(await env.SHARD.getByName("default/0").figures());
  },
  connect: (socket, env) => worker.connect(atPort(socket, SPOKEN_PORT), env),
} satisfies ExportedHandler<Env> & { connect(socket: Socket, env: Env): Promise<void> };
