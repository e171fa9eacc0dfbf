/** Checks the health of a server over HTTP. */

/**
 * Asks a server for its health.
 *
 * @param url of the server, without a slash at its end
 * @returns null when it is healthy, else its answer
 */
export async function health(url: string, signal: AbortSignal): Promise<string | null> {
  try {
    const response = await fetch(`${url}/health`, { signal });
    const text = await response.text();
    return response.ok ? null : `${response.status} ${text}`;
  } catch (error) {
    const { message, cause } = error as Error;
    return cause instanceof Error ? cause.message : message;
  }
}
