/** Finds the record that has the state of a limit. That of a composite has the key of the limit with `:c` behind it. */
import { ThrottrError, type ThrottrClient } from "../client/index.ts";
import { KEY_BYTES_MAX } from "../wire/edge/command.ts";

/** The end of the keys that have states of composites. */
const COMPOSITE = new TextEncoder().encode(":c");

/** The key that has the state of a limit: `key`, unless only the key for a composite has a record. */
export async function storedKeyOf(
  throttr: Pick<ThrottrClient, "get">,
  key: Uint8Array,
  signal: AbortSignal,
): Promise<Uint8Array> {
  // The key for a composite would be too long, so the limit can't be a composite.
  if (key.length + COMPOSITE.length > KEY_BYTES_MAX) return key;
  const composite = new Uint8Array([...key, ...COMPOSITE]);
  const [isPlain, isComposite] = await Promise.all(
    [key, composite].map(async (stored) => await isStored(throttr, stored, signal)),
  );
  return isComposite && !isPlain ? composite : key;
}

async function isStored(
  throttr: Pick<ThrottrClient, "get">,
  key: Uint8Array,
  signal: AbortSignal,
): Promise<boolean> {
  try {
    return (await throttr.get(key, { signal })) !== null;
  } catch (error) {
    if (ThrottrError.from(error).code === "kind_mismatch") return true;
    throw error;
  }
}
