/** Messages of system errors, as the gateway writes them to its log and into its own errors. */

/**
 * The message of a system error.
 *
 * Node leaves it empty where a host has several addresses and all of them failed (an
 * `AggregateError`): the code, such as `ECONNREFUSED`, stands in for it then.
 */
export function detailOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  return error.message || ((error as NodeJS.ErrnoException).code ?? error.name);
}
