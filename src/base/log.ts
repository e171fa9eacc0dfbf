/** Structured log lines: one JSON object each, with the name of an event of `log-events.ts`. */
import type { ErrorEvent, FieldsOf, WarningEvent } from "./log-events.ts";

export function logWarning<Event extends WarningEvent>(
  event: Event,
  fields: FieldsOf<Event>,
): void {
  console.warn(JSON.stringify({ event, ...fields }));
}

export function logError<Event extends ErrorEvent>(event: Event, fields: FieldsOf<Event>): void {
  console.error(JSON.stringify({ event, ...fields }));
}
