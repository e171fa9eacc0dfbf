/**
 * Ends the client's end of a socket that no client gets, as its connection was refused while it was being opened. Until both
 * ends are closed, the runtime keeps the socket, which takes a place in the Hub.
 */
export function endUnused(client: WebSocket): void {
  client.accept();
  client.close();
}
