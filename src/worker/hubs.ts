/** Opening connections: which Hub takes one, and how it is told what the connection is. */
import type { ConnectionParameters } from "../objects/connection.ts";
import { CONNECTION_HEADER, encodeParameters } from "../objects/hub.ts";

/** Asks the namespace's Hub to take a connection. Status 101 with a socket, or 503 when it is full. */
export async function openConnection(
  env: Env,
  parameters: ConnectionParameters,
): Promise<Response> {
  const hub = env.HUB.getByName(parameters.access.namespace);
  return await hub.fetch("https://hub/", {
    headers: { upgrade: "websocket", [CONNECTION_HEADER]: encodeParameters(parameters) },
  });
}
