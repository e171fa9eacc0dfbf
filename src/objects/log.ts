/** Structured log lines: one JSON object each, with a stable event name. */
export function logWarning(event: string, fields: Record<string, unknown>): void {
  console.warn(JSON.stringify({ event, ...fields }));
}
