/** The namespace of an export or import: `--resume` continues only in the same one. */
import { Phase, phaseOf } from "../../wire/edge/codes.ts";
import { ThrottrError } from "../../wire/edge/error.ts";
import type { Invocation } from "../invocation.ts";
import { askServer } from "../server-request.ts";

/** Phases of errors of a server that is there, and has no such route: before 0.5, or below another path. */
const UNTOLD: readonly (Phase | undefined)[] = [Phase.refusal, Phase.fault, undefined];

/**
 * The namespace that `--namespace` names, else that of the token.
 *
 * @returns null where the server does not say it; the transfer itself shows whether the server lets the caller in
 * @throws ThrottrError when the server does not answer
 */
export async function namespaceOf({ flags, settings, signal }: Invocation): Promise<string | null> {
  if (flags.namespace !== undefined) return flags.namespace;
  const request = { path: "/v1/access", token: settings.token, field: "namespace" };
  try {
    const { namespace } = await askServer(settings, request, signal);
    return typeof namespace === "string" ? namespace : null;
  } catch (error) {
    if (UNTOLD.includes(phaseOf(ThrottrError.from(error).code))) return null;
    throw error;
  }
}
