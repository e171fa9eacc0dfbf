/**
 * Objects of two releases meet during every deployment: one that lacks a method says so by this error of
 * the platform, before anything is executed.
 */
export function isUnknownMethod(error: unknown): boolean {
  return error instanceof Error && error.message.includes("RPC receiver does not implement");
}
