/** Sends a given number of requests over one TCP connection: for what is counted, not timed. */
import { once } from "node:events";
import { connect } from "node:net";

export interface Requests {
  readonly port: number;
  readonly count: number;
  /** Requests under way. */
  readonly depth: number;
  /** Frames of the requests `from` to `to`, without the last; each is answered by one byte. */
  readonly frames: (from: number, to: number) => Buffer;
}

/**
 * Returns when all requests are answered.
 *
 * @throws Error when one fails
 */
export async function sendAll({ port, count, depth, frames }: Requests): Promise<void> {
  const socket = connect(port, "127.0.0.1").setNoDelay(true);
  await once(socket, "connect");
  let sent = 0;
  let answered = 0;
  const send = (some: number): void => {
    const to = Math.min(count, sent + some);
    if (to > sent) socket.write(frames(sent, to));
    sent = to;
  };
  try {
    await new Promise<void>((resolve, reject) => {
      socket.on("data", (replies: Buffer) => {
        if (replies.includes(0)) reject(new Error("a request was refused"));
        answered += replies.length;
        if (answered >= count) resolve();
        else send(replies.length);
      });
      socket.once("error", reject);
      socket.once("close", () => reject(new Error("the server closed the connection")));
      send(depth);
    });
  } finally {
    socket.destroy();
  }
}

/**
 * Time in milliseconds from opening a connection to the reply to its first request.
 *
 * @throws Error when the reply does not begin with the status that is expected
 */
export async function firstReplyMs(port: number, frame: Buffer, status: number): Promise<number> {
  const startMs = performance.now();
  const socket = connect(port, "127.0.0.1", () => socket.write(frame));
  try {
    const [reply] = (await once(socket, "data")) as [Buffer];
    const tookMs = performance.now() - startMs;
    if (reply[0] !== status) throw new Error(`status ${status} was expected, not ${reply[0]}`);
    return tookMs;
  } finally {
    socket.destroy();
  }
}
