/**
 * Whether a call failed because the object lacks the method. Objects of two releases meet for minutes after each
 * deployment, and the platform says this by an error before anything is executed: so the caller can ask in the old way.
 */
export function isUnknownMethod(error: unknown): boolean {
  return error instanceof Error && error.message.includes("RPC receiver does not implement");
}
