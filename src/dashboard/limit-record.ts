/** The record of a limit: a composite has its state under the key of the limit and two characters more. */
import { ThrottrError, type ThrottrClient } from "../client/index.ts";
import { KEY_BYTES_MAX } from "../wire/edge/command.ts";

/** What the states of composites have behind their keys. */
const COMPOSITE = new TextEncoder().encode(":c");

/** The key that the state of a limit is stored under: that of a composite where there is no other. */
export async function storedKeyOf(
  throttr: Pick<ThrottrClient, "get">,
  key: Uint8Array,
  signal: AbortSignal,
): Promise<Uint8Array> {
  // A longer one is no key: the limit is none of a composite.
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
