import { Refusal } from "../engine/refusal.ts";

/**
 * Whether a call failed because the object lacks the method. Objects of two releases meet for minutes after each
 * deployment, and the platform says this by an error before anything is executed: so the caller can ask in the old way.
 */
export function isUnknownMethod(error: unknown): boolean {
  return error instanceof Error && error.message.includes("RPC receiver does not implement");
}

/**
 * Awaits a call of a method that an object of the last release lacks, and for which there is no other call.
 *
 * @throws Refusal `batch_version` where it does: nothing was applied
 */
export async function refuseUnknown<T>(call: Promise<T>): Promise<T> {
  return await orIfUnknown(call, () => {
    throw new Refusal("batch_version: a shard still has an earlier release: try again in a minute");
  });
}

/**
 * Awaits a call of a method that an object of the last release may lack.
 *
 * @param otherwise replaces the answer of such an object. It executed nothing, so another call does nothing twice
 */
export async function orIfUnknown<T>(
  call: Promise<T>,
  otherwise: () => T | Promise<T>,
): Promise<T> {
  try {
    return await call;
  } catch (error) {
    if (!isUnknownMethod(error)) throw error;
    return await otherwise();
  }
}
