/**
 * The connections of all Hubs in this isolate.
 *
 * Under `serve` one isolate runs every door and every object, and each connection takes two file descriptors of that one
 * process: `CONNECTIONS_MAX` bounds them. At Cloudflare an isolate sees some Hubs of many, so the number says nothing
 * there, and the limit is off.
 */

const countByHub = new Map<string, number>();
let total = 0;

/** Notes how many connections a Hub has. A Hub that sleeps keeps its connections, and so its count. */
export function noteConnections(hub: string, count: number): void {
  total += count - (countByHub.get(hub) ?? 0);
  if (count === 0) countByHub.delete(hub);
  else countByHub.set(hub, count);
}

export const connectionCount = (): number => total;

/** Names of the Hubs that have connections. */
export const countedHubs = (): string[] => [...countByHub.keys()];
