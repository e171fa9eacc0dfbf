/**
 * The server as it is, at other TCP ports: `TCP_BASE` + 1, 2, 4, 8 stand in for 9001, 9002, 9004, 9008.
 *
 * The Worker tells its doors by their port numbers, and those may be taken on the machine.
 */
import worker from "../../src/worker/index.ts";

export * from "../../src/worker/index.ts";

const TCP_BASE = 9000;

export default {
  ...worker,
  connect: (socket, env) => worker.connect(standIn(socket, Number(env.CRASH_TCP_BASE)), env),
};

/** The socket, as if it had come in at the port of the project's own configuration. */
function standIn(socket, base) {
  const opened = socket.opened.then((info) => ({
    ...info,
    localAddress: info.localAddress.replace(/\d+$/, (port) =>
      String(Number(port) - base + TCP_BASE),
    ),
  }));
  return {
    opened,
    readable: socket.readable,
    writable: socket.writable,
    close: () => socket.close(),
  };
}
