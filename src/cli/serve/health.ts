/** Checks the health of a server over HTTP. */
import { get, type IncomingMessage } from "node:http";
import { text } from "node:stream/consumers";

/** A name that the server answers to, whatever `HOSTS` lists: the address that it is asked at may not be listed. */
const HOST = "localhost";
const OK = 200;

/**
 * Asks a server for its health.
 *
 * @param url of the server, `http`, without a slash at its end
 * @returns null when it is healthy, else its answer
 */
export async function health(url: string, signal: AbortSignal): Promise<string | null> {
  try {
    const { status, body } = await answerOf(`${url}/health`, signal);
    return status === OK ? null : `${status} ${body}`;
  } catch (error) {
    if (signal.aborted) return "no answer in time";
    const { message, code } = error as NodeJS.ErrnoException;
    return message || String(code);
  }
}

/** Sends a GET with a `Host` of its own, which `fetch` does not allow. */
async function answerOf(
  url: string,
  signal: AbortSignal,
): Promise<{ status: number | undefined; body: string }> {
  const { promise, resolve, reject } = Promise.withResolvers<IncomingMessage>();
  // Without an agent the connection closes with its answer: one that is kept open would hold the server's drain.
  get(url, { headers: { host: HOST }, signal, agent: false }, resolve).once("error", reject);
  const response = await promise;
  return { status: response.statusCode, body: await text(response) };
}
