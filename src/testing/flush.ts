/** Empties a namespace between two tests. */
import type { ThrottrClient } from "../client/client.ts";
import type { HolderPage, SemaphorePage } from "../wire/edge/semaphores.ts";

/** Longer names come over the yrmcds protocol: connections hold those, and give them back themselves. */
const NAME_BYTES_MAX = 255;

/** Removes all records, and gives back what leases hold. */
export async function flushNamespace(client: ThrottrClient): Promise<void> {
  await client.removeAll("");
  let cursor: Uint8Array | null = null;
  do {
    const page: SemaphorePage = await client.semaphores(cursor === null ? {} : { cursor });
    for (const { name, consumption } of page.semaphores) {
      if (consumption > 0 && name.length <= NAME_BYTES_MAX) await releaseLeases(client, name);
    }
    cursor = page.cursor;
  } while (cursor !== null);
}

async function releaseLeases(client: ThrottrClient, name: Uint8Array): Promise<void> {
  let cursor: Uint8Array | null = null;
  do {
    const page: HolderPage = await client.holders(name, cursor === null ? {} : { cursor });
    const leases = page.holders.filter(({ kind }) => kind === "lease");
    await Promise.all(leases.map(({ id }) => client.release(name, id)));
    cursor = page.cursor;
  } while (cursor !== null);
}
