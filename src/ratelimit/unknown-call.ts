/** Calls that a server may lack: a binding says so by a TypeError, other ways by a code. */
import { ThrottrError } from "../wire/edge/error.ts";

/**
 * Makes a call that a server may lack.
 *
 * @param what the server would do, for the message
 * @throws ThrottrError `request_type_unknown` where it does; or what the call throws
 */
export async function callOf05<Result>(
  what: string,
  call: () => PromiseLike<Result>,
): Promise<Result> {
  try {
    return await call();
  } catch (error) {
    if (!isUnknownCall(error)) throw error;
    const detail = `the server cannot ${what}: update it to 0.5; nothing was charged`;
    throw new ThrottrError("request_type_unknown", detail);
  }
}

/** Whether a call failed because the server does not know it; nothing was applied then. */
export function isUnknownCall(error: unknown): boolean {
  if (error instanceof TypeError) return /does not implement|is not a function/.test(error.message);
  return ThrottrError.from(error).code === "request_type_unknown";
}
