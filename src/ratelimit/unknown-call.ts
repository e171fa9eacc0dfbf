/** Calls that a server may lack: a binding says so by a TypeError, other ways by a code. */
import { ThrottrError } from "../wire/edge/error.ts";

/** Whether a call failed because the server does not know it; nothing was applied then. */
export function isUnknownCall(error: unknown): boolean {
  if (error instanceof TypeError) return /does not implement|is not a function/.test(error.message);
  return ThrottrError.from(error).code === "request_type_unknown";
}
